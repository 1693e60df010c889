/** What `updateTask` is given: the changes of a task that has not started. */

import { longestWait } from "../../base/options/durations.ts";
import { duration, integer, label, readOptions, timeOrNull, wrong } from "../../base/options/validators.ts";
import { waitsForStart } from "../../base/tasks/pending.ts";
import { definitionNamed, hasChecks } from "../../base/tasks/registry.ts";
import { priority } from "../../base/tasks/task-options.ts";
import { checkSize, encodeArgs, encodeObject } from "../../base/values/codec.ts";
import { checkArguments } from "../../queue/enqueue.ts";
import type { Operated, TaskStore } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { type EditRead, editAsRead, type LookStore, type TaskEdit } from "./contract.ts";

/** Why an edit has left a task as it is. @param expected the generation that it was to have */
export function whyUnchanged({ status, generationId }: TaskRecord, expected: number | undefined): string {
  if (!waitsForStart(status)) return `it is ${status}`;
  if (expected !== undefined && expected !== generationId)
    return `it is at generation ${generationId}, not ${expected}`;
  return "its first attempt has started, and only a task that has not started expires";
}

/**
 * Edits a task. New arguments of a function that has a schema are checked together with what they leave as it is, and the edit
 * then expects the row as it was read.
 * @throws InvalidArgumentsError, TaskCorruptError
 */
export async function editChecked(
  store: Pick<TaskStore, "get"> & { readonly look: Pick<LookStore, "edit"> },
  id: number,
  edit: TaskEdit,
  generationId: number | undefined,
): Promise<Operated> {
  const isAboutArguments = edit.args !== undefined || edit.kwargs !== undefined;
  if (!isAboutArguments || !hasChecks()) return await store.look.edit(id, edit, generationId);
  const check = async (): Promise<EditRead> => {
    const [row] = await store.get([id]);
    const definition = row && definitionNamed(row.func);
    if (!row || !definition?.checks?.args || !waitsForStart(row.status)) return { edit, readAt: undefined };
    await checkArguments(definition, edit.args ?? row.args, edit.kwargs ?? row.kwargs);
    return { edit, readAt: row.generationId };
  };
  return await editAsRead(store.look, id, generationId, check);
}

const expiry = duration({ ...longestWait, min: 1 });

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
    expiresIn: number | null;
    generationId: number;
  }>(given, "updateTask", {
    args: (value, name) => {
      if (!Array.isArray(value)) throw wrong(name, "an array of arguments", value);
      return encodeArgs(value);
    },
    kwargs: (value) => encodeObject(value, "kwargs"),
    priority,
    queueName: label,
    waitUntil: timeOrNull,
    expiresIn: (value, name) => (value === null ? null : expiry(value, name)),
    generationId: integer(1),
  });
  if (Object.keys(read).length === 0)
    throw new TypeError(
      "updateTask: expected args, kwargs, priority, queueName, waitUntil or expiresIn, got nothing to change",
    );
  checkSize("the payload of updateTask (args and kwargs)", maxPayload, read.args ?? "", read.kwargs ?? "");
  return { edit: read, generationId };
}
