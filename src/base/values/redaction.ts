/** What the function `redact` of an app leaves of a task. */
import { isDeepStrictEqual } from "node:util";
import type { Task } from "../../task.ts";
import type { ListedTask } from "./records.ts";

export type Redact = (task: Task) => Task;

/**
 * What may be seen of a task. `redact` gets a copy, so that it cannot change the task itself. The task itself comes back only
 * where `redact` has returned its copy and has changed nothing in it.
 * @throws what `redact` throws; TypeError when it returns no task
 */
export function redacted<T extends ListedTask>(redact: Redact, task: T): T {
  const seen = task.cut ? withoutBeginnings(task) : task;
  const copy = structuredClone(seen);
  const shown: unknown = redact(copy);
  if (shown === copy && isDeepStrictEqual(copy, seen)) return seen;
  if (!isTask(shown, task)) throw new TypeError("redact has returned no task");
  return shown as T;
}

/** A task without all that the app has given it, except for the names of its function, queue and schedule. */
export const withoutValues = <T extends ListedTask>(task: T): T => ({
  ...withoutBeginnings(task),
  cut: undefined,
  progressNote: null,
  requestId: null,
  uniqueKey: null,
  groupKey: null,
});

/**
 * A task without its values. A list reads only their beginnings, and `redact` might have hidden a value because of a part that the
 * list did not read.
 */
const withoutBeginnings = <T extends ListedTask>(task: T): T => ({
  ...task,
  args: [],
  kwargs: {},
  meta: {},
  result: undefined,
  error: null,
  traceContext: null,
});

/** Whether it is a task, and this one: what shows it looks into these fields. */
function isTask(value: unknown, { id, func, status }: Task): boolean {
  if (!isObject(value)) return false;
  const given = value as Partial<Task>;
  const { args, kwargs, meta, error } = given;
  const isSame = given.id === id && given.func === func && given.status === status;
  return (
    isSame && Array.isArray(args) && [kwargs, meta].every(isObject) && (error === null || isObject(error))
  );
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;
