/**
 * Follows all tasks that match, by looks: a task whose generation, progress or lines differ from what was told has an event. A look
 * reads the newest tasks, those that run, and in rotation the others that it remembers.
 */

import type { TaskEvent } from "../../base/tasks/history.ts";
import { groupBy, mapById } from "../../base/values/group-by.ts";
import { toTask } from "../../base/values/records.ts";
import { FollowedTask, type SeenTasks } from "../../queue/followed-task.ts";
import type { StoredLogLine, TaskFilter, TaskProgress } from "../../store.ts";
import { isFinished, type Task, type TaskBeginning, type TaskRecord, type TaskStatus } from "../../task.ts";
import type { FullStore } from "../store.ts";
import type { DeletedTask } from "./methods.ts";

/** Tasks of one page of the newest. */
const pageSize = 200;
/** Tasks that run, of which a look reads so many. */
const mostRunning = 1_000;
/** Other tasks that a look asks for by their ids, in rotation. */
const rotationSize = 1_000;
/** Tasks that are remembered. */
const mostKnown = 10_000;
/** Log lines that one look reads. */
const linesPerLook = 1_000;
/** Characters of arguments and results that a list reads: none is told by it. */
const noCharacters = 1;
/** A list after this id has no ids that JavaScript would round. */
const afterAll = Number.MAX_SAFE_INTEGER;

const unfinished = ["pending", "scheduled", "running", "waiting"] as const;

/** A task as it was when its status was told last. */
export type KnownTask = Pick<TaskRecord, "func" | "queueName" | "status" | "startedAt" | "retryCount">;

/** A task that is remembered: how far its events were told, and what is told of it once it is deleted. */
interface Known {
  followed: FollowedTask;
  /** Whether it was enqueued after the follower's start, as far as that is known. */
  isNew: boolean;
  last: KnownTask;
}

/** What a look tells of one task. */
export interface ToldTask {
  events: readonly TaskEvent[];
  /** The task as it is now. */
  task: Task;
  /** As it was when its status was told last; undefined: this look is the first one to tell something of it. */
  before: KnownTask | undefined;
  /** Whether it was enqueued after the follower's start, as far as that is known. */
  isNew: boolean;
}

/** What one look has found. */
export interface TasksLook {
  deleted: readonly DeletedTask[];
  told: readonly ToldTask[];
  /** There is more to read at once. */
  more: boolean;
}

type FollowStore = Pick<FullStore, "look" | "taskProgress" | "get" | "logs" | "transfer">;

const stateOf = ({ id, generationId, status, progress, progressNote }: TaskRecord): TaskProgress => ({
  ...{ id, generationId, status, progress, progressNote },
});

function knownTask({ func, queueName, status, startedAt, retryCount }: TaskRecord): KnownTask {
  return { func, queueName, status, startedAt, retryCount };
}

export class FollowedTasks {
  readonly #store: FollowStore;
  readonly #filter: TaskFilter;
  readonly #statuses: readonly TaskStatus[] | undefined;
  readonly #tellsLines: boolean;
  /** The least recently read one first. */
  readonly #known = new Map<number, Known>();
  #newest = 0;
  /** The last look has read all tasks above this id, so an unknown one above it is new. On a server, a lower id may come later. */
  #complete = Number.NEGATIVE_INFINITY;
  /** Lines up to this one were there before. */
  #line = 0;

  /** @param tellsLines whether it tells what the tasks log, too */
  constructor(store: FollowStore, { status, ...filter }: TaskFilter, tellsLines = true) {
    this.#store = store;
    this.#filter = filter;
    this.#statuses = status;
    this.#tellsLines = tellsLines;
  }

  /** Reads the tasks as they are: looks tell of changes from here on. */
  async start(): Promise<void> {
    if (this.#tellsLines) this.#line = await this.#store.transfer.lastId("dbq_task_logs");
    const newest = await this.#list(this.#unlisted, pageSize, afterAll);
    this.#newest = newest[0]?.id ?? 0;
    this.#complete = completeAbove(newest);
    for (const record of newest) if (this.#matches(record)) this.#remember(record);
    for (let after: number | undefined = afterAll; after !== undefined && this.#known.size < mostKnown; ) {
      const page: TaskBeginning[] = await this.#list(
        { ...this.#filter, status: unfinished },
        pageSize,
        after,
      );
      for (const record of page) if (record.id <= this.#newest) this.#remember(record);
      after = page.length < pageSize ? undefined : page.at(-1)?.id;
    }
  }

  /** Looks once, and returns the tasks that have changed since the last look. */
  async look(): Promise<TasksLook> {
    const states = await this.#states();
    const moved = [...states.values()].filter((state) => this.#hasMoved(state)).map(({ id }) => id);
    const records = mapById(moved.length === 0 ? [] : await this.#store.get(moved));
    // The lines are read last, so that none is missing of a task that has ended.
    const logging = [...states.values()].filter(({ id, status }) => status === "running" || records.has(id));
    const asked = logging.map(({ id }) => ({ id, after: this.#followed(id)?.line ?? this.#line }));
    const found = await this.#lines(asked);
    const moreLines = found.length === linesPerLook;
    const lines = groupBy(found, ({ id }) => id);
    const ids = [...new Set([...moved, ...lines.keys()])].sort((a, b) => a - b);
    const others = ids.filter((id) => !records.has(id));
    const tasks = new Map([...records, ...mapById(others.length === 0 ? [] : await this.#store.get(others))]);
    const told = ids.flatMap((id) => this.#told(id, tasks.get(id), { states, records, lines, moreLines }));
    this.#forget();
    return { deleted: this.#deleted.splice(0), told, more: moreLines };
  }

  // ---- what a look reads -------------------------------------------------------------------------

  readonly #deleted: DeletedTask[] = [];

  async #lines(asked: readonly { id: number; after: number }[]): Promise<readonly StoredLogLine[]> {
    return this.#tellsLines && asked.length > 0 ? await this.#store.logs(asked, linesPerLook) : [];
  }

  async #list(filter: TaskFilter, limit: number, after: number): Promise<TaskBeginning[]> {
    const page = await this.#store.look.list(filter, limit, after, noCharacters);
    return page.filter(({ id }) => typeof id === "number");
  }

  /** What of the filter lists of the newest tasks have: a search for the newest of a function might read all tasks. */
  get #unlisted(): TaskFilter {
    const { func: _, queueName: __, ...others } = this.#filter;
    return others;
  }

  #matches({ func, queueName }: TaskBeginning): boolean {
    const { func: asked, queueName: askedQueue } = this.#filter;
    return (asked === undefined || asked === func) && (askedQueue === undefined || askedQueue === queueName);
  }

  /** The states of the newest tasks, of those that run, and of others that are known. */
  async #states(): Promise<Map<number, TaskProgress>> {
    const newest = await this.#newestTasks();
    const running = await this.#list({ ...this.#filter, status: ["running"] }, mostRunning, afterAll);
    for (const record of running) if (!this.#known.has(record.id)) this.#meet(record, false);
    const states = mapById([...newest.filter((record) => this.#matches(record)), ...running].map(stateOf));
    const asked = this.#others(states, newest.at(-1)?.id ?? Number.POSITIVE_INFINITY);
    for (const state of asked.length === 0 ? [] : await this.#store.taskProgress(asked))
      states.set(state.id, state);
    for (const id of asked) if (!states.has(id)) this.#tellDeleted(id);
    return states;
  }

  /** Back to the newest one of the last look. */
  async #newestTasks(): Promise<TaskBeginning[]> {
    const newest = await this.#list(this.#unlisted, pageSize, afterAll);
    for (let last = newest.at(-1); newest.length % pageSize === 0 && last && last.id > this.#newest; ) {
      const page = await this.#list(this.#unlisted, pageSize, last.id);
      if (page.length === 0) break;
      newest.push(...page);
      last = newest.at(-1);
    }
    const unknown = newest.filter((record) => !this.#known.has(record.id) && this.#matches(record));
    for (const record of unknown)
      if (record.id > this.#complete) this.#meet(record, true);
      else this.#remember(record);
    this.#newest = Math.max(this.#newest, newest[0]?.id ?? 0);
    this.#complete = completeAbove(newest.slice(0, pageSize));
    return newest;
  }

  /** Of the known tasks that were not read: those among the newest, which are gone, those that ran, and the next ones of the rotation. */
  #others(states: ReadonlyMap<number, TaskProgress>, lowest: number): number[] {
    const [first, rotation] = [[] as number[], [] as number[]];
    for (const [id, { last }] of this.#known) {
      if (states.has(id)) continue;
      if (last.status === "running" || id >= lowest) first.push(id);
      else if (rotation.length < rotationSize) rotation.push(id);
    }
    for (const id of rotation) {
      const known = this.#known.get(id) as Known;
      this.#known.delete(id);
      this.#known.set(id, known);
    }
    return [...first, ...rotation];
  }

  // ---- what is known ---------------------------------------------------------------------------

  /** A task of which nothing was told. */
  #meet(record: TaskBeginning, isNew: boolean): FollowedTask {
    const followed = new FollowedTask(record.id);
    followed.line = this.#line;
    this.#known.set(record.id, { followed, isNew, last: knownTask(record) });
    return followed;
  }

  /** A task as it was before. */
  #remember(record: TaskBeginning): void {
    const followed = this.#meet(record, false);
    followed.generation = record.generationId;
    [followed.progress, followed.note] = [record.progress, record.progressNote];
  }

  #followed(id: number): FollowedTask | undefined {
    return this.#known.get(id)?.followed;
  }

  #hasMoved({ id, generationId, progress, progressNote }: TaskProgress): boolean {
    const followed = this.#followed(id);
    if (followed === undefined) return false;
    if (followed.generation !== generationId) return true;
    return progress !== null && (progress !== followed.progress || progressNote !== followed.note);
  }

  /**
   * Tasks that have ended are forgotten first, and those that run last: a look meets each of these again, and would tell it anew. Of
   * others, those that were not read for longest.
   */
  #forget(): void {
    const inTurn = [isFinished, (status: TaskStatus) => status !== "running", () => true];
    for (const isOfTurn of inTurn)
      for (const [id, { last }] of this.#known) {
        if (this.#known.size <= mostKnown) return;
        if (isOfTurn(last.status)) this.#known.delete(id);
      }
  }

  // ---- what is told ------------------------------------------------------------------------------

  #isWanted(status: TaskStatus): boolean {
    return this.#statuses === undefined || this.#statuses.includes(status);
  }

  #tellDeleted(id: number): void {
    const known = this.#known.get(id);
    this.#known.delete(id);
    if (known === undefined || !this.#isWanted(known.last.status)) return;
    const { func, queueName, status } = known.last;
    this.#deleted.push({ id, func, queueName, status });
  }

  #told(id: number, record: TaskRecord | undefined, seen: SeenTasks): ToldTask[] {
    const known = this.#known.get(id);
    // It was deleted meanwhile, which the next look tells.
    if (known === undefined || record === undefined) return [];
    const { followed, isNew } = known;
    const before = followed.generation === undefined ? undefined : known.last;
    const events = [...followed.eventsIn(seen)];
    const moved = seen.records.get(id);
    // Its last event comes once, after all of its lines.
    if (moved && isFinished(moved.status) && !seen.moreLines) followed.generation = moved.generationId;
    if (events.some((event) => "task" in event)) known.last = knownTask(record);
    if (events.length === 0 || !this.#isWanted(record.status)) return [];
    return [{ events, task: toTask(record), before, isNew }];
  }
}

const completeAbove = (newest: readonly TaskBeginning[]): number =>
  newest[pageSize - 1]?.id ?? Number.NEGATIVE_INFINITY;
