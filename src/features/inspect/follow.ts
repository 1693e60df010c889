/** The changes of a queue's tasks by polling, each with a name that says what led to it. */
import { type CountFilter, readCountFilter } from "../../base/options/options.ts";
import type { Task } from "../../task.ts";
import { internalsOf, type Queue } from "../queue.ts";
import { FollowedTasks, type KnownTask, type ToldTask } from "./followed-tasks.ts";

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

/**
 * Reports the changes of a queue's tasks: call `start`, then `poll` as often as you like. Of several changes of a task
 * between two polls, it reports those that the row still shows.
 */
export class TaskFollower {
  readonly #checkOpen: () => void;
  readonly #tasks: FollowedTasks;

  /**
   * @param filter the tasks that it follows; all without one
   * @throws TypeError for a wrong filter
   */
  constructor(queue: Queue, filter: CountFilter = {}, { logs = false }: FollowOptions = {}) {
    const { store, checkOpen } = internalsOf(queue);
    this.#checkOpen = checkOpen;
    // A poll does not wait longer for the database than any request.
    this.#tasks = new FollowedTasks({ ...store, ...store.requests }, readCountFilter(filter), logs);
  }

  /** Reads the tasks as they are: `poll` reports changes from here on. @throws QueueClosedError, DatabaseError */
  async start(): Promise<void> {
    this.#checkOpen();
    await this.#tasks.start();
  }

  /** The changes since the last poll, oldest first. @throws QueueClosedError, DatabaseError */
  async poll(): Promise<TaskChange[]> {
    const changes: TaskChange[] = [];
    for (let more = true; more; ) {
      this.#checkOpen();
      const look = await this.#tasks.look();
      for (const told of look.told) changes.push(...changesIn(told));
      more = look.more;
    }
    return changes.sort(inOrder);
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

function changesIn(told: ToldTask): TaskChange[] {
  const { task } = told;
  return told.events.flatMap((event) => {
    if (event.type === "progress") return [];
    if (event.type !== "log") return statusChanges(told);
    return [{ time: event.line.at, event: "log", message: event.line.message, task }];
  });
}

/** A task as it was inserted. */
const inserted: Pick<KnownTask, "status" | "startedAt" | "retryCount"> = {
  status: "pending",
  startedAt: null,
  retryCount: 0,
};

/** The changes that have led to the task's present status. Of earlier ones, the row keeps its start alone. */
function statusChanges({ task, before, isNew }: ToldTask): TaskChange[] {
  const known = before ?? inserted;
  const changes: TaskChange[] = [];
  if (isNew && !before) changes.push({ time: task.createdAt, event: "enqueued", task });
  const started = task.startedAt !== null && task.startedAt.getTime() !== known.startedAt;
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
function latestEvent(known: typeof inserted, task: Task, started: boolean): string | undefined {
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
