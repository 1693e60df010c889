/** `queue.retryTask` with its options: from a step, or only the undos that have failed. */
import { readRetryOptions, taskId } from "../../base/options/options.ts";
import { isEnding } from "../../base/values/ending.ts";
import { toTask } from "../../base/values/records.ts";
import { TaskNotFoundError, TaskRunningError, TaskUndoingError } from "../../errors.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Operated } from "../../store.ts";
import { internalsOf, type Queue, requestsOf } from "../queue.ts";

/** The steps that an error names. */
const mostNamed = 10;

/** The core's `retryTask`, and what it does with options. */
export function retryMethod(queue: CoreQueue): Queue["retryTask"] {
  const { retryTask } = queue;
  const { wakeups } = internalsOf(queue);
  return async <R>(id: number, options: unknown) => {
    const { fromStep, undo = false } = readRetryOptions(options);
    if (fromStep === undefined && !undo) return await retryTask<R>(id);
    const asked = taskId(id, "retryTask");
    const operated = await (undo ? undoAgain(queue, asked) : retryFrom(queue, asked, fromStep as string));
    if (!operated) throw new TaskNotFoundError(id);
    const { record, changed } = operated;
    if (isEnding(record) && !(undo && changed)) throw new TaskUndoingError(id);
    if (record.status === "running") throw new TaskRunningError(id);
    wakeups.workAdded();
    return toTask<R>(record);
  };
}

/** @throws TypeError */
async function undoAgain(queue: CoreQueue, id: number): Promise<Operated> {
  const operated = await requestsOf(queue).workflows.undoAgain(id);
  if (!operated || operated.changed || isEnding(operated.record)) return operated;
  throw new TypeError(
    `retryTask: undo: task ${id} is ${operated.record.status}, and has no step whose undo has failed or is unknown`,
  );
}

/** @throws TaskNotFoundError, TypeError */
async function retryFrom(queue: CoreQueue, id: number, step: string): Promise<Operated> {
  const operated = await requestsOf(queue).workflows.retryFrom(id, step);
  if (operated?.changed || operated?.record.status === "running") return operated;
  if (operated && isEnding(operated.record)) return operated;
  if (operated)
    throw new TypeError(
      `retryTask: fromStep: task ${id} is ${operated.record.status}: only a task that has ended runs again from a step`,
    );
  if ((await queue.getTask(id)) === undefined) throw new TaskNotFoundError(id);
  const names = await requestsOf(queue).workflows.stepNames(id, mostNamed + 1);
  throw new TypeError(
    `retryTask: fromStep: task ${id} has stored no step ${JSON.stringify(step)}: ${namedText(names)}`,
  );
}

function namedText(names: readonly string[]): string {
  if (names.length === 0) return "it has stored none";
  const named = names.slice(0, mostNamed).map((name) => JSON.stringify(name));
  return `it has ${named.join(", ")}${names.length > mostNamed ? ", and others" : ""}`;
}
