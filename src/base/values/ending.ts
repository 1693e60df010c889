/**
 * A task whose end is decided and held up: a feature has something to do before. How the task is to end stands first in the JSON of
 * its error, and stays there after the end if it ended in another way.
 */
import { isFinished, type TaskRecord } from "../../task.ts";

export type DecidedStatus = "failed" | "cancelled";

const mark = /^\{"ending":"(failed|cancelled)",/;

/** With this, the error of a task that is ending begins. */
export const endingPrefix = '{"ending":"';

/** How the task is to end, or was to end at first. Undefined: nothing has held its end up. */
export function endingIn(error: string | null): DecidedStatus | undefined {
  if (error === null || !error.startsWith(endingPrefix)) return undefined;
  return mark.exec(error)?.[1] as DecidedStatus | undefined;
}

/** @param error the JSON of an error as dbq writes it */
export const withEnding = (error: string, ending: DecidedStatus): string =>
  `{"ending":"${ending}",${error.slice(1)}`;

export const withoutEnding = (error: string): string => error.replace(mark, "{");

/** Whether the end of this task is decided and held up. */
export const isEnding = ({ status, error }: Pick<TaskRecord, "status" | "error">): boolean =>
  error !== null && !isFinished(status) && endingIn(error) !== undefined;

/** What an outcome of the task says of its end, as `Outcome.ending`; undefined: it is not decided. */
export const endingOf = (task: Pick<TaskRecord, "status" | "error">): "goes on" | undefined =>
  isEnding(task) ? "goes on" : undefined;
