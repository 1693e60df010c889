/** plainjob, on the same better-sqlite3. */
import Database from "better-sqlite3";
import { better, defineQueue, type Logger, type Queue } from "plainjob";
import type { Synchronous } from "../benchmark.ts";

/** Its default logger writes each step to the console. */
export const silent: Logger = {
  error: () => undefined,
  warn: () => undefined,
  info: () => undefined,
  debug: () => undefined,
};

/** Opens a queue. plainjob sets `synchronous = normal` and has no option for it, so it is set again afterwards. */
export function openPlainjob(path: string, synchronous: Synchronous): Queue {
  const db = new Database(path);
  const queue = defineQueue({ connection: better(db), logger: silent });
  db.pragma(`synchronous = ${synchronous}`);
  return queue;
}
