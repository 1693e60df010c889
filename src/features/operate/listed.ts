/** Tasks and runs for people: `listTasks` and `getRun` without the megabytes that a task may have in its arguments and its result. */
import { type ListFilter, readListFilter } from "../../base/options/options.ts";
import { type ListedTask, toListedTask } from "../../base/values/records.ts";
import { internalsOf, type Queue } from "../queue.ts";
import type { GetRunOptions, Run } from "../workflows/methods.ts";

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

/**
 * `queue.getRun`, in the same way: of its tasks as of those in a list, and of the values of its steps.
 * @throws as `Queue.getRun`
 */
export async function getRunBeginning(
  queue: Queue,
  id: number,
  options?: GetRunOptions,
): Promise<Run | undefined> {
  const { shared, checkOpen } = internalsOf(queue);
  checkOpen();
  return await shared.runBeginning(id, options, listedCharacters);
}

/** `queue.getTask`, in the same way. @throws as `Queue.getTask` */
export async function getBeginning(queue: Queue, id: number): Promise<ListedTask | undefined> {
  const { store, checkOpen } = internalsOf(queue);
  checkOpen();
  const [record] = await (store.requests ?? store).look.get([id], listedCharacters);
  return record && toListedTask(record);
}
