/** Sets of statuses as SQL, made of the lists in `task.ts`. Their text is that of the partial indexes, which are used only then. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { endingPrefix } from "../../base/values/ending.ts";
import { finishedStatuses, type TaskStatus } from "../../task.ts";
import type { Dialect } from "./dialect.ts";

/** Written into the text, not as parameters: a partial index cannot be used for a parameter. */
export const isIn = (statuses: readonly TaskStatus[]): string =>
  `status in (${statuses.map((status) => `'${status}'`).join(", ")})`;

export const isFinished = isIn(finishedStatuses);

/** What the index of schedules' tasks covers. */
export const isUnfinished = isIn(["pending", "scheduled", "running", "waiting"]);

/** Whether no feature holds the end of a task up: `isEnding` in `base/values/ending.ts`. */
export const isNotEnding = (d: Dialect): SQL =>
  sql`(${sql.raw(isFinished)} or error is null or ${d.text(sql`error`)} not like ${sql.raw(`'${endingPrefix}%'`)})`;

/**
 * Whether a task that has a unique key holds it: until it has finished, or for as long as `unique_until` is set. The first
 * alternative is the whole condition of the versions that knew no `waiting`: SQLite uses the index for a query whose
 * condition is one of the alternatives, so for the queries of those versions too.
 */
export const holds = `(${isIn(["pending", "scheduled", "running"])} or status = 'waiting' or unique_until is not null)`;

/** What the unique index of keys covers. */
export const holdsKey = `unique_key is not null and ${holds}`;
