/** Publishes, for logs, that the task of a workflow has begun to wait, or begins to undo its steps. */
import { toTask } from "../../base/values/records.ts";
import { undoingChannel, waitingChannel } from "../../events.ts";
import type { TaskRecord } from "../../task.ts";
import type { Wait } from "./contract.ts";

/** @param waits of the attempt that has left its slot */
export function tellWaiting(record: TaskRecord, waits: readonly Wait[]): void {
  if (!waitingChannel.hasSubscribers) return;
  const task = { ...toTask(record), status: "waiting" as const };
  waitingChannel.publish({ task, waits: waits.map(({ name, kind, target }) => ({ name, kind, target })) });
}

export function tellUndoing(record: TaskRecord): void {
  if (undoingChannel.hasSubscribers) undoingChannel.publish({ task: toTask(record) });
}
