/**
 * Follows the tasks of a queue by looking at them again and again: what has another generation than at the look before
 * has changed. Of several changes between two looks, those that the row still tells of are seen.
 */
import type { CountFilter, Queue, Task } from "../../index.ts";
import type { TaskEvent } from "./task-events.ts";

/** Tasks that are read at each look: the newest, which change most. */
const window = 200;
/** Older unfinished tasks that are looked at each time, by turns, beside all that run. */
const slice = 500;
/** Older unfinished tasks that are kept in mind; what is beyond is seen when it runs. */
const mostKept = 10_000;

type Known = Pick<Task, "generationId" | "status" | "startedAt" | "retryCount">;

export class Follower {
  readonly #queue: Queue;
  readonly #filter: CountFilter;
  readonly #known = new Map<number, Known>();
  #newest = 0;
  /** All tasks above this id were known after the last look: what is there unknown has come since, whatever its id. */
  #floor = Number.NEGATIVE_INFINITY;
  /** Ids of older unfinished tasks, the one that was looked at longest ago first. */
  #turn: number[] = [];

  constructor(queue: Queue, filter: CountFilter) {
    this.#queue = queue;
    this.#filter = filter;
  }

  /** Takes note of what there is: changes are told from here on. */
  async begin(): Promise<void> {
    const newest = await this.#queue.listTasks({ ...this.#filter, limit: window });
    this.#newest = newest[0]?.id ?? 0;
    this.#floor = floorOf(newest);
    for (const task of newest) this.#known.set(task.id, pick(task));
    let after: number | undefined;
    while (this.#known.size < mostKept) {
      const page = await this.#page({ status: ["pending", "scheduled", "running"] }, after);
      // What is newer than the newest came meanwhile: the first look tells of it.
      for (const task of page) if (task.id <= this.#newest) this.#known.set(task.id, pick(task));
      if (page.length < window) break;
      after = page.at(-1)?.id;
    }
  }

  /** What has changed since the last look, oldest first. */
  async look(): Promise<TaskEvent[]> {
    const recent = await this.#recent();
    const running = await this.#page({ status: "running" });
    const seen = new Map([...recent, ...running].map((task) => [task.id, task]));
    const events: TaskEvent[] = [];
    for (const id of this.#older(seen)) events.push(...(await this.#lookAt(id)));
    for (const task of seen.values()) events.push(...this.#changed(task));
    this.#newest = Math.max(this.#newest, recent[0]?.id ?? 0);
    this.#floor = floorOf(recent);
    this.#forget(new Set(recent.slice(0, window).map(({ id }) => id)));
    return events.sort((a, b) => a.time.getTime() - b.time.getTime() || a.task.id - b.task.id);
  }

  #page(more: CountFilter, after?: number): Promise<Task[]> {
    return this.#queue.listTasks({
      ...this.#filter,
      ...more,
      limit: window,
      ...(after === undefined ? {} : { after }),
    });
  }

  /** The newest tasks, as far back as the newest one of the last look. */
  async #recent(): Promise<Task[]> {
    const recent = await this.#page({});
    for (let last = recent.at(-1); recent.length % window === 0 && last && last.id > this.#newest; ) {
      const page = await this.#page({}, last.id);
      if (page.length === 0) break;
      recent.push(...page);
      last = recent.at(-1);
    }
    return recent;
  }

  /** Of the known tasks that were not just read: those that ran, and some of those that wait. */
  #older(seen: ReadonlyMap<number, Task>): number[] {
    const [ran, waiting]: [number[], Set<number>] = [[], new Set()];
    for (const [id, { status }] of this.#known) {
      if (seen.has(id)) continue;
      if (status === "running") ran.push(id);
      else waiting.add(id);
    }
    const kept = this.#turn.filter((id) => waiting.delete(id));
    this.#turn = [...kept, ...waiting];
    const now = this.#turn.splice(0, slice);
    this.#turn.push(...now);
    return [...ran, ...now];
  }

  async #lookAt(id: number): Promise<TaskEvent[]> {
    const task = await this.#queue.getTask(id);
    if (task) return this.#changed(task);
    this.#known.delete(id);
    return [];
  }

  #changed(task: Task): TaskEvent[] {
    const known = this.#known.get(task.id);
    this.#known.set(task.id, pick(task));
    return changesOf(known, task, task.id > this.#floor);
  }

  /** What has ended is kept only while it is among the newest: a retry of it is seen then. */
  #forget(recent: ReadonlySet<number>): void {
    for (const [id, { status }] of this.#known)
      if (!recent.has(id) && !unfinished.has(status)) this.#known.delete(id);
  }
}

/** Transactions on a server commit in any order: a task may come to be seen after one with a higher id. */
function floorOf(newest: readonly Task[]): number {
  return newest[window - 1]?.id ?? Number.NEGATIVE_INFINITY;
}

const unfinished = new Set<string>(["pending", "scheduled", "running"]);

/** Without its payload. */
function pick({ generationId, status, startedAt, retryCount }: Task): Known {
  return { generationId, status, startedAt, retryCount };
}

const written: Known = { generationId: 0, status: "pending", startedAt: null, retryCount: 0 };

/** What a task has been through since it was known, as far as its row tells. */
export function changesOf(before: Known | undefined, task: Task, isNew: boolean): TaskEvent[] {
  if (before?.generationId === task.generationId) return [];
  // An old one that was not in mind: when it last changed is not known, but what runs has not been told of.
  if (!before && !isNew && task.status !== "running") return [];
  const known = before ?? written;
  const events: TaskEvent[] = [];
  if (isNew && !before) events.push({ time: task.createdAt, event: "enqueued", task });
  const started = task.startedAt !== null && task.startedAt.getTime() !== known.startedAt?.getTime();
  if (started && task.startedAt) events.push({ time: task.startedAt, event: "started", task });
  const event = eventOf(known, task, started);
  if (event) events.push({ time: task.finishedAt ?? task.updatedAt, event, task });
  return events;
}

/** Where it has come to, unless that was told by how it began. */
function eventOf(known: Known, task: Task, started: boolean): string | undefined {
  const ran = started || known.status === "running";
  switch (task.status) {
    case "running":
      return undefined;
    case "scheduled":
      if (task.retryCount > known.retryCount) return "retrying";
      return ran ? "snoozed" : undefined;
    case "pending":
      if (known === written && !started) return undefined;
      if (known.status === "scheduled" && !started) return "due";
      if (ran) return task.retryCount > known.retryCount ? "rescued" : "interrupted";
      return "retried";
    default:
      return task.status;
  }
}
