/** Actions on all tasks that match a filter, in small transactions: what is done stays done when the rest is called off. */
import { callable, integer, label, readOptions, signal } from "../../base/options/validators.ts";
import { performance, setImmediate } from "../../base/runtime/timers.ts";
import { DuplicateTaskError } from "../../errors.ts";
import { warnOfKept } from "../../queue/purge.ts";
import type { Wakeups } from "../../queue/wakeups.ts";
import type { TaskFilter, TaskStore, WorkerStore } from "../../store.ts";
import type { TaskBeginning } from "../../task.ts";
import type { LookStore } from "../look/contract.ts";
import type { BulkCancelOptions, BulkOptions, BulkResult } from "../look/methods.ts";
import { findTasks } from "./find.ts";
import { pauseForWorkers } from "./pause-for-workers.ts";

/** Tasks of one transaction. It bounds how long other writers wait. */
const batch = 100;

/** Tasks that are found at once: where an index holds few, each search reads them all. */
const page = 1_000;

export interface BulkAction {
  /**
   * Acts on these tasks in one transaction, and returns those that it changed.
   * @param still only those that match this filter as the transaction sees them @default all of them
   */
  (ids: readonly number[], still?: TaskFilter): Promise<number[]>;
  /** Whether it leaves tasks alone that have changed since they were found, though they match still. @default false */
  onlyAsFound?: boolean;
}

/** What can be done to many tasks. */
export type BulkKind = "retry" | "cancel" | "delete";

/**
 * The actions on many tasks. Each wakes the workers and awaits of this process.
 * @param reason the message of the error of cancelled tasks
 */
export function bulkAction(
  { store, wakeups }: { store: { look: LookStore }; wakeups: Wakeups },
  kind: BulkKind,
  reason: string,
): BulkAction {
  const { look } = store;
  const error = JSON.stringify({ name: "TaskCancelled", message: reason });
  const onKept = warnOfKept("deleteTasks");
  const act: BulkAction = {
    retry: retryEach(store),
    cancel: (ids: readonly number[], still?: TaskFilter) => look.cancelEach(ids, error, still),
    delete: (ids: readonly number[], still?: TaskFilter) => look.deleteEach(ids, onKept, still),
  }[kind];
  const action: BulkAction = async (ids, still) => {
    const changed = await act(ids, still);
    wakeups.taskChanged(changed);
    wakeups.workAdded();
    return changed;
  };
  action.onlyAsFound = kind === "retry";
  return action;
}

/** @throws TypeError for wrong options */
export function readBulkOptions(given: unknown, owner: string): BulkOptions {
  return readOptions<BulkOptions>(given, owner, bulkReaders);
}

/** @throws TypeError for wrong options */
export function readBulkCancelOptions(given: unknown, owner: string): BulkCancelOptions {
  return readOptions<BulkCancelOptions>(given, owner, { ...bulkReaders, reason: label });
}

/** Of an action on many rows that reports `Progress` after each transaction. */
export const walkReaders = <Progress>() => ({
  signal,
  onProgress: callable<(done: Progress) => unknown>,
  limit: integer(1),
});

const bulkReaders = walkReaders<BulkResult>();

/** How far `actOnAll` goes. */
export interface Walk extends BulkOptions {
  /** Only tasks with lower ids: the `next` of the walk before. */
  after?: number | undefined;
  /** Whether it ends after its first transaction. @default false */
  isOneStep?: boolean;
  /** Only tasks whose arguments or error hold this text. */
  text?: string | undefined;
  /** Milliseconds after which a search for tasks ends: `next` says where it goes on. @default Infinity */
  budget?: number | undefined;
}

/** What an action on many tasks needs of a store. */
type ActedOn = { look: LookStore } & Pick<WorkerStore, "workers"> & Pick<TaskStore, "taskProgress">;

/**
 * A search takes time, and so do the transactions before one: each acts on the tasks that match the filter still.
 * @returns also `next`: the `after` to go on with; `null`: there are no more
 * @throws DatabaseError; the signal's reason
 */
export async function actOnAll(
  store: ActedOn,
  filter: TaskFilter,
  act: BulkAction,
  {
    signal: aborted,
    onProgress,
    limit = Number.POSITIVE_INFINITY,
    after,
    isOneStep = false,
    text,
    budget,
  }: Walk,
): Promise<BulkResult & { next: number | null }> {
  const done: BulkResult = { changed: 0, skipped: 0 };
  const pause = (from: number) => pauseForWorkers(store, from);
  let began = performance.now();
  /** Between two transactions. */
  const rest = async () => {
    await pause(began);
    await new Promise((resolve) => setImmediate(resolve));
    aborted?.throwIfAborted();
    began = performance.now();
  };
  // No query asks again whether a task has the text.
  const idsOf = async (tasks: readonly TaskBeginning[]) =>
    act.onlyAsFound || text !== undefined ? await unchangedAmong(store, tasks) : exactIds(tasks);
  aborted?.throwIfAborted();
  for (let position = after; ; ) {
    const left = Math.min(isOneStep ? batch : page, limit - done.changed - done.skipped);
    const found = await findTasks(store, filter, { limit: left, after: position, text, budget, pause });
    for (let i = 0; i < found.tasks.length; i += batch) {
      if (i > 0) await rest();
      const some = found.tasks.slice(i, i + batch);
      const ids = await idsOf(some);
      const changed = ids.length === 0 ? 0 : (await act(ids, filter)).length;
      done.changed += changed;
      done.skipped += some.length - changed;
      await onProgress?.({ ...done });
    }
    const { next } = found;
    if (next === null || isOneStep || done.changed + done.skipped >= limit) return { ...done, next };
    position = next;
    await rest();
  }
}

/** An id that is not exact would be that of another task. */
const exactIds = (tasks: readonly TaskBeginning[]): number[] =>
  tasks.filter(({ exactId }) => exactId === null).map(({ id }) => id);

/** The tasks that are as they were found: one that has been retried since then, and has completed, is not to run again. */
async function unchangedAmong(
  store: Pick<TaskStore, "taskProgress">,
  tasks: readonly TaskBeginning[],
): Promise<number[]> {
  const states = await store.taskProgress(exactIds(tasks));
  const generations = new Map(states.map(({ id, generationId }) => [id, generationId]));
  return exactIds(tasks.filter(({ id, generationId }) => generations.get(id) === generationId));
}

/**
 * Retries tasks in one transaction, or one by one when that fails: another writer may take the unique key of one of them
 * between the look and the change.
 */
function retryEach(store: { look: LookStore }): BulkAction {
  return async (ids, still) => {
    try {
      return await store.look.retryEach(ids, still);
    } catch {
      const changed: number[] = [];
      for (const id of ids) changed.push(...(await store.look.retryEach([id], still).catch(noneIfDuplicate)));
      return changed;
    }
  };
}

function noneIfDuplicate(error: unknown): number[] {
  if (!(error instanceof DuplicateTaskError)) throw error;
  return [];
}
