/** What people read of encrypted tasks: beginnings of texts, for which a text that was cut is read as a whole. */
import { cutTexts } from "../../base/values/cut-texts.ts";
import { hasSealed } from "../../base/values/sealed.ts";
import type { TaskStore } from "../../store.ts";
import type { TaskBeginning, TaskRecord } from "../../task.ts";
import type { LookStore, TaskEdit } from "../look/contract.ts";
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
      const operated = await inner.edit(id, await sealEdit(tasks, sealer, id, change), generationId);
      if (operated) sealer.openTask(operated.record);
      return operated;
    },
  };
}

/** The whole arguments: those say whether there are kwargs. */
async function sealEdit(
  tasks: Pick<TaskStore, "get">,
  sealer: Sealer,
  id: number,
  change: TaskEdit,
): Promise<TaskEdit> {
  if (change.args === undefined && change.kwargs === undefined) return change;
  const [task] = await tasks.get([id]);
  if (!task || !sealer.covers(task.func)) return change;
  const { func, args, kwargs } = sealer.openTask(task);
  return {
    ...change,
    ...sealer.sealCall("dbq_tasks", id, { func, args: change.args ?? args, kwargs: change.kwargs ?? kwargs }),
  };
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
