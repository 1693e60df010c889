/**
 * Follows the tasks of a queue by polling: a task whose generation differs from the last poll's has changed. Of several
 * changes between two polls, the follower reports those that the row still shows.
 */
import type { CountFilter } from "../../base/options/options.ts";
import type { ListedTask } from "../../base/values/records.ts";
import type { Task } from "../../task.ts";
import { getBeginning, listBeginnings } from "../operate/listed.ts";
import type { Queue } from "../queue.ts";
import { FollowedLogs } from "./followed-logs.ts";

/** A change of a task. */
export interface TaskChange {
  /** When it happened. */
  time: Date;
  /** `enqueued`, `started`, `due`, `retrying`, `retried`, `snoozed`, `rescued`, `interrupted`, the final status, or `log`. */
  event: string;
  /** The line, where the event is `log`. */
  message?: string;
  /** The task as it is now: it may have changed again since. */
  task: Task;
}

/** Options of a `TaskFollower`. */
export interface FollowOptions {
  /** Whether it reports the lines that tasks log, too, as events named `log`. @default false */
  logs?: boolean;
}

/** Tasks that each poll reads: the newest, which change most. */
const pageSize = 200;
/** Older unfinished tasks that each poll reads, in rotation, beside all that run. */
const rotationSize = 500;
/** Older unfinished tasks that are remembered. A task beyond them is seen when it runs. */
const mostRemembered = 10_000;

const unfinished = ["pending", "scheduled", "running", "waiting"] as const;

type KnownState = Pick<Task, "generationId" | "status" | "startedAt" | "retryCount">;

/** A list after this id has no ids that JavaScript would round: tasks that have such ids are not followed. */
const afterAll = Number.MAX_SAFE_INTEGER;

/**
 * Reports the changes of a queue's tasks: call `start`, then `poll` as often as you like. Of several changes of a task
 * between two polls, it reports those that the row still shows.
 */
export class TaskFollower {
  readonly #queue: Queue;
  readonly #filter: CountFilter;
  readonly #logs: FollowedLogs | undefined;
  readonly #known = new Map<number, KnownState>();
  #newest = 0;
  /**
   * The last poll read all tasks above this id, so an unknown task above it is new. Transactions on a server commit in any
   * order: a task may become visible after one with a higher id.
   */
  #complete = Number.NEGATIVE_INFINITY;
  /** Ids of older unfinished tasks, the least recently read one first. */
  #rotation: number[] = [];

  /** @param filter the tasks that it follows; all without one */
  constructor(queue: Queue, filter: CountFilter = {}, { logs = false }: FollowOptions = {}) {
    this.#queue = queue;
    this.#filter = filter;
    this.#logs = logs ? new FollowedLogs(queue) : undefined;
  }

  /** Reads the tasks as they are: `poll` reports changes from here on. @throws DatabaseError */
  async start(): Promise<void> {
    await this.#logs?.start();
    const newest = await this.#page({}, afterAll);
    this.#newest = newest[0]?.id ?? 0;
    this.#complete = completeAbove(newest);
    this.#remember(newest);
    let after: number | undefined = afterAll;
    while (this.#known.size < mostRemembered) {
      const page = await this.#page({ status: [...unfinished] }, after);
      // A task with a higher id was enqueued meanwhile: the first poll reports it.
      this.#remember(page.filter(({ id }) => id <= this.#newest));
      if (page.length < pageSize) break;
      after = page.at(-1)?.id;
    }
  }

  /** The changes since the last poll, oldest first. @throws DatabaseError */
  async poll(): Promise<TaskChange[]> {
    const recent = await this.#recent();
    const running = (await this.#page({ status: "running" })).filter(({ id }) => typeof id === "number");
    const seen = new Map([...recent, ...running].map((task) => [task.id, task]));
    const older = await this.#readOlder(seen);
    const read = [...older, ...seen.values()];
    const changes = await this.#whole(read.flatMap((task) => this.#changesOf(task)));
    this.#newest = Math.max(this.#newest, recent[0]?.id ?? 0);
    this.#complete = completeAbove(recent);
    this.#forgetFinished(new Set(recent.slice(0, pageSize).map(({ id }) => id)));
    // Tasks that have changed are read before their lines: a task that has ended has no later ones.
    const changed = changes.map(({ task }) => task);
    const logging = read.filter(({ status }) => status === "running");
    const lines = (await this.#logs?.of([...logging, ...changed])) ?? [];
    for (const { line, task } of lines)
      changes.push({ time: line.at, event: "log", message: line.message, task });
    return changes.sort(inOrder);
  }

  /** The changes with all of the arguments and the result of their tasks, of which a poll reads the beginnings alone. */
  async #whole(changes: readonly TaskChange[]): Promise<TaskChange[]> {
    const whole: TaskChange[] = [];
    for (const change of changes) {
      const { cut, ...task }: ListedTask = change.task;
      const now = cut && (await this.#queue.getTask(task.id));
      const json = Object.fromEntries(
        Object.keys(cut ?? {}).map((name) => [name, now?.[name as keyof Task]]),
      );
      whole.push(now ? { ...change, task: { ...task, ...json } } : change);
    }
    return whole;
  }

  #page(more: CountFilter, after?: number): Promise<Task[]> {
    return listBeginnings(this.#queue, {
      ...this.#filter,
      ...more,
      limit: pageSize,
      ...(after === undefined ? {} : { after }),
    });
  }

  /** The newest tasks, back to the newest one of the last poll. */
  async #recent(): Promise<Task[]> {
    const recent = await this.#page({}, afterAll);
    for (let last = recent.at(-1); recent.length % pageSize === 0 && last && last.id > this.#newest; ) {
      const page = await this.#page({}, last.id);
      if (page.length === 0) break;
      recent.push(...page);
      last = recent.at(-1);
    }
    return recent;
  }

  /** Of the known tasks that this poll has not read: all that were running, and the next ones of the rotation. */
  #older(seen: ReadonlyMap<number, Task>): number[] {
    const running: number[] = [];
    const waiting = new Set<number>();
    for (const [id, { status }] of this.#known) {
      if (seen.has(id)) continue;
      if (status === "running") running.push(id);
      else waiting.add(id);
    }
    const kept = this.#rotation.filter((id) => waiting.delete(id));
    this.#rotation = [...kept, ...waiting];
    const next = this.#rotation.splice(0, rotationSize);
    this.#rotation.push(...next);
    return [...running, ...next];
  }

  async #readOlder(seen: ReadonlyMap<number, Task>): Promise<Task[]> {
    const older: Task[] = [];
    for (const id of this.#older(seen)) {
      const task = await getBeginning(this.#queue, id);
      if (task) older.push(task);
      else this.#known.delete(id);
    }
    return older;
  }

  #changesOf(task: Task): TaskChange[] {
    const known = this.#known.get(task.id);
    this.#remember([task]);
    return changesBetween(known, task, task.id > this.#complete);
  }

  /** Without the payload. */
  #remember(tasks: readonly Task[]): void {
    for (const { id, generationId, status, startedAt, retryCount } of tasks)
      this.#known.set(id, { generationId, status, startedAt, retryCount });
  }

  /** A finished task is remembered only while it is among the newest: a retry of it is seen there. */
  #forgetFinished(recent: ReadonlySet<number>): void {
    for (const [id, { status }] of this.#known)
      if (!recent.has(id) && !unfinished.some((each) => each === status)) this.#known.delete(id);
  }
}

/** Of one task at one time: its start, then its lines, then what it led to. */
function inOrder(a: TaskChange, b: TaskChange): number {
  return a.time.getTime() - b.time.getTime() || a.task.id - b.task.id || rankOf(a) - rankOf(b);
}

const firstEvents = ["enqueued", "due", "started", "log"];

function rankOf({ event }: TaskChange): number {
  const rank = firstEvents.indexOf(event);
  return rank < 0 ? firstEvents.length : rank;
}

function completeAbove(newest: readonly Task[]): number {
  return newest[pageSize - 1]?.id ?? Number.NEGATIVE_INFINITY;
}

/** A task as it was inserted. */
const inserted: KnownState = { generationId: 0, status: "pending", startedAt: null, retryCount: 0 };

/** The changes of a task since it was last read, as far as its row shows them. */
function changesBetween(before: KnownState | undefined, task: Task, isNew: boolean): TaskChange[] {
  if (before?.generationId === task.generationId) return [];
  // An old task that was not remembered: when it changed is unknown. But its running has not been reported yet.
  if (!before && !isNew && task.status !== "running") return [];
  const known = before ?? inserted;
  const changes: TaskChange[] = [];
  if (isNew && !before) changes.push({ time: task.createdAt, event: "enqueued", task });
  const started = task.startedAt !== null && task.startedAt.getTime() !== known.startedAt?.getTime();
  const event = latestEvent(known, task, started);
  const time = task.finishedAt ?? task.updatedAt;
  if (started && task.startedAt) {
    // The start of a task that waits for its turn at a rate lies ahead: the task may end before.
    const isOver = event !== undefined && time < task.startedAt;
    changes.push({ time: isOver ? time : task.startedAt, event: "started", task });
  }
  if (event) changes.push({ time, event, task });
  return changes;
}

/** The change that led to the present status; `undefined` where `enqueued` or `started` says it. */
function latestEvent(known: KnownState, task: Task, started: boolean): string | undefined {
  const ran = started || known.status === "running";
  switch (task.status) {
    case "running":
      return undefined;
    case "scheduled":
      if (task.retryCount > known.retryCount) return "retrying";
      return ran ? "snoozed" : undefined;
    case "pending":
      if (known === inserted && !started) return undefined;
      if (known.status === "scheduled" && !started) return "due";
      if (ran) return task.retryCount > known.retryCount ? "rescued" : "interrupted";
      return "retried";
    default:
      return task.status;
  }
}
