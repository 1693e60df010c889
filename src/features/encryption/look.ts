/** What people read of encrypted tasks: beginnings of texts, for which a text that was cut is read as a whole. */

import { waitsForStart } from "../../base/tasks/pending.ts";
import { cutTexts } from "../../base/values/cut-texts.ts";
import { hasSealed, refuseUnreadableArguments } from "../../base/values/sealed.ts";
import type { TaskStore } from "../../store.ts";
import type { TaskBeginning, TaskRecord } from "../../task.ts";
import { type EditRead, editAsRead, type LookStore, type TaskEdit } from "../look/contract.ts";
import type { Sealer } from "./sealer.ts";

/** The columns that may be encrypted. */
const columns = ["args", "kwargs", "result", "error"] as const;

const isSealedIn = (task: TaskRecord) => columns.some((column) => hasSealed(task[column] ?? ""));

/** @param tasks the same tasks, not decrypted */
export function encryptedLook(inner: LookStore, tasks: Pick<TaskStore, "get">, sealer: Sealer): LookStore {
  const whole = async (ids: readonly number[]): Promise<Map<number, TaskRecord>> => {
    const found = ids.length === 0 ? [] : await tasks.get(ids);
    return new Map(found.map((task) => [task.id, sealer.openTask(task)]));
  };
  const opened = async (found: TaskBeginning[], characters: number): Promise<TaskBeginning[]> => {
    const sealed = found.filter((task) => task.exactId === null && isSealedIn(task));
    const clear = await whole(sealed.map(({ id }) => id));
    return found.map((task) => {
      const all = clear.get(task.id);
      return all && sealed.includes(task) ? beginningOf(task, all, characters) : task;
    });
  };
  return {
    ...inner,
    listFew: async (filter, limit, after, most, characters) =>
      await opened(await inner.listFew(filter, limit, after, most, characters), characters),
    listRange: async (filter, limit, range, characters) =>
      await opened(await inner.listRange(filter, limit, range, characters), characters),
    list: async (filter, limit, after, characters) =>
      await opened(await inner.list(filter, limit, after, characters), characters),
    get: async (ids, characters) => await opened(await inner.get(ids, characters), characters),
    texts: async (filter, characters, range) => {
      const found = await inner.texts(filter, characters, range);
      const clear = await whole(found.filter(({ text }) => hasSealed(text)).map(({ id }) => id));
      return found.map((one) => {
        const task = clear.get(one.id);
        return task ? { id: one.id, text: textOf(task, characters) } : one;
      });
    },
    edit: async (id, change, generationId) => {
      const operated = await editAsRead(inner, id, generationId, () => sealEdit(tasks, sealer, id, change));
      if (operated) sealer.openTask(operated.record);
      return operated;
    },
  };
}

/**
 * Seals the arguments and the kwargs, of which one may stay as it is: the arguments say whether there are kwargs.
 * @throws KeyMissingError, DecryptionFailedError or NotEncryptedError when the one that stays cannot be read: it would be sealed as it is
 */
async function sealEdit(
  tasks: Pick<TaskStore, "get">,
  sealer: Sealer,
  id: number,
  change: TaskEdit,
): Promise<EditRead> {
  const asItIs = { edit: change, readAt: undefined };
  if (change.args === undefined && change.kwargs === undefined) return asItIs;
  const [task] = await tasks.get([id]);
  if (!task || !waitsForStart(task.status) || !sealer.covers(task.func)) return asItIs;
  const { func, args, kwargs, generationId } = sealer.openTask(task);
  const call = {
    func,
    args: change.args ?? readable(args, "args"),
    kwargs: change.kwargs ?? readable(kwargs, "kwargs"),
  };
  return { edit: { ...change, ...sealer.sealCall("dbq_tasks", id, call) }, readAt: generationId };
}

function readable(text: string, column: string): string {
  refuseUnreadableArguments(text, column);
  return text;
}

const textOf = ({ args, kwargs, error }: TaskRecord, characters: number): string =>
  [args, kwargs, error ?? ""].map((text) => [...text].slice(0, characters).join("")).join("\n");

function beginningOf(beginning: TaskBeginning, task: TaskRecord, characters: number): TaskBeginning {
  const { args, kwargs, result, error } = task;
  const texts = { args, kwargs, result, error: error ?? null };
  const { meta } = beginning.cut;
  const cut = cutTexts(texts, columns, characters);
  return { ...beginning, ...texts, cut: meta === undefined ? cut : { ...cut, meta } };
}
