/** Sets of statuses as SQL, made of the lists in `task.ts`. Their text is that of the partial indexes, which are used only then. */
import { finishedStatuses, type TaskStatus, unfinishedStatuses } from "../../task.ts";

/** Written into the text, not as parameters: a partial index cannot be used for a parameter. */
export const isIn = (statuses: readonly TaskStatus[]): string =>
  `status in (${statuses.map((status) => `'${status}'`).join(", ")})`;

export const isUnfinished = isIn(unfinishedStatuses);
export const isFinished = isIn(finishedStatuses);

/** What the unique index of keys covers: a task holds its key until it has finished. */
export const holdsKey = `unique_key is not null and ${isUnfinished}`;
