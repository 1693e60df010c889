/** Lists tasks for people: `listTasks` without the megabytes that a task may have in its arguments and its result. */
import { type ListFilter, readListFilter } from "../../base/options/options.ts";
import { type ListedTask, toListedTask } from "../../base/values/records.ts";
import { internalsOf, type Queue } from "../queue.ts";

/** Characters of each JSON column that a list reads. */
export const listedCharacters = 2_000;

/**
 * `queue.listTasks`, with the beginning of each JSON column that has more than 2,000 characters, as a text, and its length in bytes
 * as `cut`.
 * @throws as `Queue.listTasks`
 */
export async function listBeginnings(queue: Queue, filter?: ListFilter): Promise<ListedTask[]> {
  const { limit, after, filter: read } = readListFilter(filter);
  const { store, checkOpen } = internalsOf(queue);
  checkOpen();
  return (await (store.requests ?? store).look.list(read, limit, after, listedCharacters)).map(toListedTask);
}

/** `queue.getTask`, in the same way. @throws as `Queue.getTask` */
export async function getBeginning(queue: Queue, id: number): Promise<ListedTask | undefined> {
  const { store, checkOpen } = internalsOf(queue);
  checkOpen();
  const [record] = await (store.requests ?? store).look.get([id], listedCharacters);
  return record && toListedTask(record);
}
