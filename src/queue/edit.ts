/** What `updateTask` is given: the changes of a task that has not started. */
import { integer, label, readOptions, timeOrNull, wrong } from "../base/options/validators.ts";
import { checkSize, encodeArgs, encodeObject } from "../base/values/codec.ts";
import type { TaskEdit } from "../features/look/contract.ts";
import type { JsonObject } from "../task.ts";

/** The changes of `updateTask`. A field that is left out stays as it is. */
export interface TaskChanges {
  /** The function's arguments. */
  args?: readonly unknown[];
  /** The keyword arguments. */
  kwargs?: JsonObject;
  /** Higher runs first. */
  priority?: number;
  queueName?: string;
  /** The task does not run before; `null`: it may run at once. */
  waitUntil?: Date | null;
  /** Only if the task still has this generation, so that two people do not overwrite each other. @default any */
  generationId?: number;
}

/** @throws TypeError, NotSerializableError, PayloadTooLargeError */
export function readTaskChanges(
  given: unknown,
  maxPayload: number,
): { edit: TaskEdit; generationId: number | undefined } {
  const { generationId, ...read } = readOptions<{
    args: string;
    kwargs: string;
    priority: number;
    queueName: string;
    waitUntil: number | null;
    generationId: number;
  }>(given, "updateTask", {
    args: (value, name) => {
      if (!Array.isArray(value)) throw wrong(name, "an array of arguments", value);
      return encodeArgs(value);
    },
    kwargs: (value) => encodeObject(value, "kwargs"),
    priority: integer(-2_147_483_648, 2_147_483_647),
    queueName: label,
    waitUntil: timeOrNull,
    generationId: integer(1),
  });
  if (Object.keys(read).length === 0)
    throw new TypeError(
      "updateTask: expected args, kwargs, priority, queueName or waitUntil, got nothing to change",
    );
  checkSize("the payload of updateTask (args and kwargs)", maxPayload, read.args ?? "", read.kwargs ?? "");
  return { edit: read, generationId };
}
