/**
 * How long a worker's claims take on Postgres, seen from outside of dbq: the driver's own method is wrapped, and nothing of
 * dbq is touched. From the moment that a statement which claims is handed to the driver to that of its answer: the way to
 * the server and back, and, where it is a transaction by itself, its commit. Where one statement settles and claims, that
 * is a turn, and both are its time.
 */
import { createRequire } from "node:module";
import type { TurnTimes } from "../processes/turn-clock.ts";

type Query = (this: unknown, config: unknown, ...more: unknown[]) => unknown;

/** From now on, for all connections of this thread. */
export function clockTurns(): TurnTimes {
  const times: TurnTimes = { turns: [], claims: [] };
  const { prototype } = dbqsDriver().Client;
  const query = prototype.query;
  prototype.query = function (this: unknown, config: unknown, ...more: unknown[]) {
    const answer = query.call(this, config, ...more);
    if (!claims(config) || !(answer instanceof Promise)) return answer;
    const start = performance.now();
    return answer.finally(() => {
      const took = performance.now() - start;
      times.turns.push(took);
      times.claims.push(took);
    });
  };
  return times;
}

/** The copy of pg that dbq loads, which may differ from that of the benchmarks. */
function dbqsDriver(): { Client: { prototype: { query: Query } } } {
  const dbq = createRequire(import.meta.url).resolve("dbq-ts");
  return createRequire(dbq)("pg");
}

function claims(config: unknown): boolean {
  const { text } = config as { text?: unknown };
  return typeof text === "string" && /set\s+status = 'running'/.test(text);
}
