/**
 * Follows all tasks that match, by looks: a task whose generation, progress or lines differ from what was told has an event. A look
 * reads the newest tasks, those that run, and in rotation the others that it remembers.
 */

import { groupBy, mapById } from "../../base/values/group-by.ts";
import { toTask } from "../../base/values/records.ts";
import { FollowedTask, type SeenTasks } from "../../queue/followed-task.ts";
import type { TaskFilter, TaskProgress } from "../../store.ts";
import { isFinished, type TaskBeginning, type TaskRecord, type TaskStatus } from "../../task.ts";
import type { FullStore } from "../store.ts";
import type { TasksEvent } from "./methods.ts";

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

/** A task that is remembered: how far its events were told, and what is told of it once it is deleted. */
interface Known {
  followed: FollowedTask;
  func: string;
  queueName: string;
  status: TaskStatus;
}

type FollowStore = Pick<FullStore, "look" | "taskProgress" | "get" | "logs" | "transfer">;

const stateOf = ({ id, generationId, status, progress, progressNote }: TaskRecord): TaskProgress => ({
  ...{ id, generationId, status, progress, progressNote },
});

export class FollowedTasks {
  readonly #store: FollowStore;
  readonly #filter: TaskFilter;
  readonly #statuses: readonly TaskStatus[] | undefined;
  /** The least recently read one first. */
  readonly #known = new Map<number, Known>();
  #newest = 0;
  /** The last look has read all tasks above this id, so an unknown one above it is new. On a server, a lower id may come later. */
  #complete = Number.NEGATIVE_INFINITY;
  /** Lines up to this one were there before. */
  #line = 0;

  constructor(store: FollowStore, { status, ...filter }: TaskFilter) {
    this.#store = store;
    this.#filter = filter;
    this.#statuses = status;
  }

  /** Reads the tasks as they are: looks tell of changes from here on. */
  async start(): Promise<void> {
    this.#line = await this.#store.transfer.lastId("dbq_task_logs");
    const newest = await this.#list({}, pageSize, afterAll);
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

  /** @returns what has happened since the last look, and whether there is more to read at once */
  async look(): Promise<{ events: TasksEvent[]; more: boolean }> {
    const states = await this.#states();
    const moved = [...states.values()].filter((state) => this.#hasMoved(state)).map(({ id }) => id);
    const records = mapById(moved.length === 0 ? [] : await this.#store.get(moved));
    // The lines are read last, so that none is missing of a task that has ended.
    const logging = [...states.values()].filter(({ id, status }) => status === "running" || records.has(id));
    const asked = logging.map(({ id }) => ({ id, after: this.#followed(id)?.line ?? this.#line }));
    const found = asked.length === 0 ? [] : await this.#store.logs(asked, linesPerLook);
    const moreLines = found.length === linesPerLook;
    const lines = groupBy(found, ({ id }) => id);
    const told = [...new Set([...moved, ...lines.keys()])].sort((a, b) => a - b);
    const others = told.filter((id) => !records.has(id));
    const tasks = new Map([...records, ...mapById(others.length === 0 ? [] : await this.#store.get(others))]);
    const events = told.flatMap((id) =>
      this.#eventsOf(id, tasks.get(id), { states, records, lines, moreLines }),
    );
    this.#forget();
    return { events: [...this.#deleted.splice(0), ...events], more: moreLines };
  }

  // ---- what a look reads -------------------------------------------------------------------------

  readonly #deleted: TasksEvent[] = [];

  async #list(filter: TaskFilter, limit: number, after: number): Promise<TaskBeginning[]> {
    const page = await this.#store.look.list(filter, limit, after, noCharacters);
    return page.filter(({ id }) => typeof id === "number");
  }

  #matches({ func, queueName }: TaskBeginning): boolean {
    const { func: asked, queueName: askedQueue } = this.#filter;
    return (asked === undefined || asked === func) && (askedQueue === undefined || askedQueue === queueName);
  }

  /** The states of the newest tasks, of those that run, and of others that are known. */
  async #states(): Promise<Map<number, TaskProgress>> {
    const newest = await this.#newestTasks();
    const running = await this.#list({ ...this.#filter, status: ["running"] }, mostRunning, afterAll);
    for (const record of running) if (!this.#known.has(record.id)) this.#meet(record);
    const states = mapById([...newest.filter((record) => this.#matches(record)), ...running].map(stateOf));
    const asked = this.#others(states, newest.at(-1)?.id ?? Number.POSITIVE_INFINITY);
    for (const state of asked.length === 0 ? [] : await this.#store.taskProgress(asked))
      states.set(state.id, state);
    for (const id of asked) if (!states.has(id)) this.#tellDeleted(id);
    return states;
  }

  /** Back to the newest one of the last look, whether they match or not: a search for the newest that match might read all tasks. */
  async #newestTasks(): Promise<TaskBeginning[]> {
    const newest = await this.#list({}, pageSize, afterAll);
    for (let last = newest.at(-1); newest.length % pageSize === 0 && last && last.id > this.#newest; ) {
      const page = await this.#list({}, pageSize, last.id);
      if (page.length === 0) break;
      newest.push(...page);
      last = newest.at(-1);
    }
    const unknown = newest.filter((record) => !this.#known.has(record.id) && this.#matches(record));
    for (const record of unknown)
      if (record.id > this.#complete) this.#meet(record);
      else this.#remember(record);
    this.#newest = Math.max(this.#newest, newest[0]?.id ?? 0);
    this.#complete = completeAbove(newest.slice(0, pageSize));
    return newest;
  }

  /** Of the known tasks that were not read: those among the newest, which are gone, those that ran, and the next ones of the rotation. */
  #others(states: ReadonlyMap<number, TaskProgress>, lowest: number): number[] {
    const [first, rotation] = [[] as number[], [] as number[]];
    for (const [id, { status }] of this.#known) {
      if (states.has(id)) continue;
      if (status === "running" || id >= lowest) first.push(id);
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
  #meet({ id, func, queueName, status }: TaskBeginning): FollowedTask {
    const followed = new FollowedTask(id);
    followed.line = this.#line;
    this.#known.set(id, { followed, func, queueName, status });
    return followed;
  }

  /** A task as it was before. */
  #remember(record: TaskBeginning): void {
    const followed = this.#meet(record);
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

  /** Tasks that have ended are forgotten first, those that were not read for longest. */
  #forget(): void {
    for (const isLast of [false, true])
      for (const [id, { status }] of this.#known) {
        if (this.#known.size <= mostKnown) return;
        if (isLast || isFinished(status)) this.#known.delete(id);
      }
  }

  // ---- what is told ------------------------------------------------------------------------------

  #isWanted(status: TaskStatus): boolean {
    return this.#statuses === undefined || this.#statuses.includes(status);
  }

  #tellDeleted(id: number): void {
    const known = this.#known.get(id);
    this.#known.delete(id);
    if (known === undefined || !this.#isWanted(known.status)) return;
    const { func, queueName, status } = known;
    this.#deleted.push({ type: "deleted", task: { id, func, queueName, status } });
  }

  #eventsOf(id: number, record: TaskRecord | undefined, seen: SeenTasks): TasksEvent[] {
    const known = this.#known.get(id);
    // It was deleted meanwhile, which the next look tells.
    if (known === undefined || record === undefined) return [];
    const events = [...known.followed.eventsIn(seen)];
    const moved = seen.records.get(id);
    // Its last event comes once, after all of its lines.
    if (moved && isFinished(moved.status) && !seen.moreLines) known.followed.generation = moved.generationId;
    Object.assign(known, { func: record.func, queueName: record.queueName, status: record.status });
    const task = toTask(record);
    return events.map((event) => ({ ...event, task })).filter((event) => this.#isWanted(event.task.status));
  }
}

const completeAbove = (newest: readonly TaskBeginning[]): number =>
  newest[pageSize - 1]?.id ?? Number.NEGATIVE_INFINITY;
