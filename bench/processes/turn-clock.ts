/**
 * Times a worker's calls of settleAndClaim from outside of dbq, by wrapping the driver's methods. A turn is a
 * transaction that claims, from its BEGIN to the end of its COMMIT. Its claim is the part from the first SELECT of
 * pending tasks to the COMMIT; the settling comes before.
 */
import Database from "better-sqlite3";

export interface TurnTimes {
  /** Milliseconds of each. */
  turns: number[];
  claims: number[];
}

type Step = "begin" | "ask" | "commit" | "other";

type Method = (this: Database.Statement, ...parameters: unknown[]) => unknown;

/** From now on, for all connections of this thread. */
export function clockTurns(): TurnTimes {
  const times: TurnTimes = { turns: [], claims: [] };
  let begun = 0;
  let asked: number | undefined;
  const before = (step: Step) => {
    if (step === "begin") begun = performance.now();
    if (step === "ask") asked ??= performance.now();
    if (step === "commit" && asked !== undefined) times.claims.push(performance.now() - asked);
  };
  const after = (step: Step) => {
    if (step !== "commit") return;
    if (asked !== undefined) times.turns.push(performance.now() - begun);
    asked = undefined;
  };
  wrapStatements(before, after);
  return times;
}

function wrapStatements(before: (step: Step) => void, after: (step: Step) => void): void {
  const client = new Database(":memory:");
  const prototype = Object.getPrototypeOf(client.prepare("select 1"));
  client.close();
  const steps = new WeakMap<Database.Statement, Step>();
  const known = (statement: Database.Statement): Step => {
    const step = steps.get(statement) ?? stepOf(statement.source);
    steps.set(statement, step);
    return step;
  };
  for (const name of ["run", "get", "all"]) {
    const method: Method = prototype[name];
    prototype[name] = function (this: Database.Statement, ...parameters: unknown[]) {
      const step = known(this);
      before(step);
      try {
        return method.apply(this, parameters);
      } finally {
        after(step);
      }
    };
  }
}

function stepOf(text: string): Step {
  if (/^\s*begin\b/i.test(text)) return "begin";
  if (/^\s*commit\b/i.test(text)) return "commit";
  return text.includes("status = 'pending'") ? "ask" : "other";
}
