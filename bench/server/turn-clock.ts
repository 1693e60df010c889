/**
 * Times a worker's claims on Postgres from outside of dbq, by wrapping the driver's query method: from the call with a
 * claiming statement to its answer. This includes the way to the server and back and, for a single statement, its commit.
 * A statement that settles and claims counts as both a turn and a claim.
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
