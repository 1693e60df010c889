/** A look at a queue for people: reads over connections of its own, in bounded time, and the actions that people took. */
import { readCountFilter } from "../../base/options/options.ts";
import { isMissingPackage } from "../../base/runtime/packages.ts";
import type { ScheduleChanges, ScheduleTiming } from "../../base/tasks/schedule.ts";
import { groupBy } from "../../base/values/group-by.ts";
import { type ListedTask, toListedTask, toTask } from "../../base/values/records.ts";
import { storable } from "../../base/values/storable.ts";
import type { Task, TaskRecord } from "../../task.ts";
import type { CrashedAttempt } from "../causes/contract.ts";
import type { Cause } from "../causes/methods.ts";
import type { FailuresInTime } from "../failures/contract.ts";
import type { BriefLook, HealthLook } from "../inspect/methods.ts";
import type { LimitsOfTask, TaskPlace } from "../limits/contract.ts";
import type { AuditEntry, Note, TaskEdit } from "../look/contract.ts";
import type { BulkResult } from "../look/methods.ts";
import { actOnAll, type BulkAction, type BulkKind, bulkAction, type Walk } from "../operate/bulk.ts";
import { countTo, type FindOptions, type Found, findTasks } from "../operate/find.ts";
import { listBeginnings, listedCharacters } from "../operate/listed.ts";
import { internalsOf, type Queue } from "../queue.ts";
import type { FunctionCount } from "../stats/contract.ts";
import type { FullStore } from "../store.ts";
import type { RunWait } from "../workflows/methods.ts";

/** Characters of a column of `dbq_audit`. */
const longestNoted = 255;

/** The list of workflows looks at so many steps, at so many waits, and at so many tasks that have these waits. */
const [mostSteps, mostWaits, mostWaiting] = [500, 10_000, 200];
/** Waits of a task that are listed. */
const waitsOfEach = 10;

/** Recorded attempts that a look for dead workers goes through. */
export const mostRecorded = 2_000;

/** A wait as it is stored, whose deadline is in milliseconds since 1970. */
type StoredWait = Omit<RunWait, "deadline"> & { deadline: number | null };

const toRunWait = ({ kind, target, deadline }: StoredWait): RunWait => ({
  kind,
  target,
  deadline: deadline === null ? null : new Date(deadline),
});

/** A text as such a column can hold it. */
const fitting = (text: string): string => [...storable(text)].slice(0, longestNoted).join("");

/** How an action treats many tasks. An edit has `changes`; the others have none. */
interface OnMany {
  reason?: string | undefined;
  changes?: TaskEdit | undefined;
}

function actionOn(
  queue: Queue,
  kind: BulkKind | "edit",
  { reason = "cancelled in the dashboard", changes = {} }: OnMany,
): BulkAction {
  const { store, wakeups } = internalsOf(queue);
  if (kind !== "edit") return bulkAction({ store, wakeups }, kind, reason);
  return async (ids, still) => {
    const changed = await store.look.editEach(ids, changes, still);
    wakeups.workAdded(true);
    return changed;
  };
}

/** The columns whose JSON a look shows as it is stored. */
type JsonColumn = "args" | "kwargs" | "result" | "meta";

/** A page of tasks. */
export type FoundTasks = Omit<Found, "tasks"> & { tasks: ListedTask[] };

/** The app lacks a package that only this answer needs. */
export class Unavailable extends Error {}

/** A look at a queue. `reader` is the queue over connections that only read. */
export class Look {
  readonly queue: Queue;
  readonly reader: Queue;
  readonly #reads: FullStore;

  /** @throws DatabaseError; TypeError for what is not a queue */
  static async open(queue: Queue): Promise<Look> {
    return new Look(queue, await internalsOf(queue).shared.reader());
  }

  private constructor(queue: Queue, reader: Queue) {
    this.queue = queue;
    this.reader = reader;
    this.#reads = internalsOf(reader).store;
  }

  /** The newest tasks that match the filter of `countTasks`. @throws TypeError for a wrong filter; DatabaseError */
  async find(filter: unknown, options: FindOptions): Promise<FoundTasks> {
    const { tasks, ...rest } = await findTasks(this.#reads, readCountFilter(filter), {
      ...options,
      characters: listedCharacters,
    });
    return { ...rest, tasks: tasks.map(toListedTask) };
  }

  /** The answer of `queue.health()`, with the pending tasks that it has counted. @throws DatabaseError */
  async health(): Promise<HealthLook> {
    return await internalsOf(this.reader).shared.healthLook();
  }

  /** The same without the counts of scheduled and failed tasks. @throws DatabaseError */
  async brief(): Promise<BriefLook> {
    return await internalsOf(this.reader).shared.briefLook();
  }

  /** The causes, by a look that was had already. @throws DatabaseError */
  async causes(look: BriefLook): Promise<Cause[]> {
    return await internalsOf(this.reader).shared.causesOf(look);
  }

  /** The newest running tasks. @throws DatabaseError */
  async running(limit: number): Promise<ListedTask[]> {
    return await listBeginnings(this.reader, { status: "running", limit });
  }

  /** As `get`, with the first `characters` of each JSON column. @throws DatabaseError */
  async getBeginning(
    id: number,
    characters: number,
  ): Promise<{ task: ListedTask; json: Pick<TaskRecord, JsonColumn | "rootId"> } | undefined> {
    const [record] = await this.#reads.look.get([id], characters);
    return record && { task: toListedTask(record), json: record };
  }

  /** A task, and its JSON as the database has it, where numbers beyond 2^53 are exact. @throws DatabaseError */
  async get(id: number): Promise<{ task: Task; json: Pick<TaskRecord, JsonColumn | "rootId"> } | undefined> {
    const [record] = await this.#reads.get([id]);
    return record && { task: toTask(record), json: record };
  }

  /** How many attempts of each function ended since this time, by outcome. @throws DatabaseError */
  readonly outcomes = async (since: Date): Promise<FunctionCount[]> =>
    await this.#reads.stats.counts(since.getTime());

  /** The attempts that ended with their worker within so many milliseconds, of the attempts that were recorded last. @throws DatabaseError */
  async crashes(within: number): Promise<CrashedAttempt[]> {
    return await this.#reads.causes.crashes(within, mostRecorded);
  }

  /** How many attempts ended with each of these kinds of failures, by parts of a time. @throws DatabaseError */
  async failureTimes(ids: readonly string[], from: number, step: number): Promise<FailuresInTime[]> {
    return await this.#reads.failures.times(ids, from, step);
  }

  /** The newest tasks that wait, newest first: those with ids below `before`. @throws DatabaseError */
  async waiting(before: number | undefined): Promise<ListedTask[]> {
    const ids = await this.#reads.workflows.lastWaiting(mostWaits, before);
    const found = await this.#beginnings(ids.slice(0, mostWaiting));
    return found.filter(({ status }) => status === "waiting");
  }

  /**
   * The tasks at the roots of the workflows that stored a step last, and of these that wait, newest first.
   * @param before only steps with ids below this
   * @returns `next`: the `before` of the next page; undefined: there are no older steps
   * @throws DatabaseError
   */
  async lastWorkflows(
    waiting: readonly ListedTask[],
    limit: number,
    before: number | undefined,
  ): Promise<{ tasks: ListedTask[]; next: number | undefined }> {
    const { tasks, last } = await this.#reads.workflows.lastActive(mostSteps, before);
    const stepOf = new Map(tasks.map(({ taskId, stepId }) => [taskId, stepId]));
    const active = await this.#beginnings(tasks.map(({ taskId }) => taskId));
    const rootOf = ({ id, rootId }: ListedTask): number => rootId ?? id;
    const roots = new Set<number>();
    const taken = active.findIndex((task) => roots.add(rootOf(task)).size > limit);
    const next = taken < 0 ? last : stepOf.get(active[taken - 1]?.id ?? 0);
    for (const task of waiting) roots.add(rootOf(task));
    const found = await this.#beginnings([...roots].slice(0, limit));
    return { tasks: found.sort((a, b) => b.id - a.id), next };
  }

  /** The tasks that wait for this event, oldest first. @throws DatabaseError */
  async waitingFor(event: string, limit: number, after: number | undefined): Promise<ListedTask[]> {
    const found = await this.#beginnings(await this.#reads.workflows.waitingFor(event, limit, after));
    return found.sort((a, b) => a.id - b.id);
  }

  /** What each of these tasks waits for, `waitsOfEach` at most. @throws DatabaseError */
  async waitsOf(tasks: readonly Pick<Task, "id">[]): Promise<Map<number, RunWait[]>> {
    const ids = tasks.map(({ id }) => id);
    const waits = await this.#reads.workflows.firstWaits(ids, waitsOfEach);
    const byTask = groupBy(waits, ({ taskId }) => taskId);
    return new Map([...byTask].map(([id, all]) => [id, all.map(toRunWait)]));
  }

  /** In the order of the ids. */
  async #beginnings(ids: readonly number[]): Promise<ListedTask[]> {
    if (ids.length === 0) return [];
    const found = (await this.#reads.look.get(ids, listedCharacters)).map(toListedTask);
    const byId = new Map(found.map((task) => [task.id as number, task]));
    return ids.flatMap((id) => byId.get(id) ?? []);
  }

  /** What limits and pauses have to do with this task. @throws DatabaseError */
  async limitsOf(task: TaskPlace): Promise<LimitsOfTask> {
    return await this.#reads.limits.about(task);
  }

  /** How many tasks match, up to `cap`; `complete`: there are no more. @throws as `find` */
  async count(
    filter: unknown,
    options: { cap: number; budget: number; text?: string | undefined },
  ): Promise<{ count: number; complete: boolean }> {
    return await countTo(this.#reads, readCountFilter(filter), options);
  }

  /** Those of these ids of which there is a task. @throws DatabaseError */
  async existing(ids: readonly number[]): Promise<number[]> {
    const found = new Set((await this.#reads.taskProgress(ids)).map(({ id }) => id));
    return ids.filter((id) => found.has(id));
  }

  /** The queue for one action of a person, which its changes keep in their transactions. */
  noting(note: Note): Queue {
    const { store, shared, wakeups } = internalsOf(this.queue);
    const [actor, reason] = [note.actor, note.reason].map((text) => (text === null ? null : fitting(text)));
    const kept = { ...note, actor: actor ?? null, reason: reason ?? null, target: fitting(note.target) };
    const queue = shared.over(store.noting(kept));
    const own = internalsOf(queue).wakeups;
    own.onWorkAdded((later) => wakeups.workAdded(later));
    own.onTaskChanged((ids) => wakeups.taskChanged(ids));
    return queue;
  }

  /** Acts on these tasks in one transaction. @throws DatabaseError */
  async act(
    queue: Queue,
    kind: BulkKind | "edit",
    ids: readonly number[],
    on: OnMany = {},
  ): Promise<BulkResult> {
    const changed = await actionOn(queue, kind, on)(ids);
    return { changed: changed.length, skipped: ids.length - changed.length };
  }

  /** Acts on the tasks that match, newest first, in small transactions. @throws as `find` */
  async actOnAll(
    queue: Queue,
    kind: BulkKind | "edit",
    filter: unknown,
    { reason, changes, ...walk }: Walk & OnMany,
  ): Promise<BulkResult & { next: number | null }> {
    const { store } = internalsOf(queue);
    const action = actionOn(queue, kind, { reason, changes });
    return await actOnAll(store, readCountFilter(filter), action, walk);
  }

  /** The last actions about this target, or about any; newest first. @throws DatabaseError */
  async notes(target: string | undefined, limit: number): Promise<AuditEntry[]> {
    return await this.#reads.look.audits(target, limit);
  }

  /** What Prometheus reads. @throws Unavailable without the package prom-client; DatabaseError */
  async metrics(): Promise<string> {
    try {
      return await internalsOf(this.reader).shared.metrics();
    } catch (error) {
      if (error instanceof TypeError && isMissingPackage(error.cause)) throw new Unavailable(error.message);
      throw error;
    }
  }

  /** The next times of a schedule, if it had this timing. @throws TypeError for a wrong one; DatabaseError */
  async scheduleTimes(name: string, timing: ScheduleTiming | ScheduleChanges, most: number): Promise<Date[]> {
    return await internalsOf(this.reader).shared.scheduleTimes(name, timing, most);
  }

  /** Closes the connections of the reader. */
  async close(): Promise<void> {
    await this.reader.close();
  }
}
