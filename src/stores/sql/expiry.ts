/** Tasks that expire: those whose first attempt has not started by a time that their enqueue has set. */
import type { TaskRecord } from "../../task.ts";
import type { Ending } from "./endings.ts";
import { type Program, rows } from "./program.ts";
import { toTaskRecord } from "./rows.ts";
import type { TaskOperations } from "./tasks.ts";
import type { Texts } from "./texts.ts";
import type { Transitions } from "./transitions.ts";

const errorOf = ({ expiresAt }: TaskRecord): string => {
  const message = `expired: no attempt had started by ${new Date(expiresAt ?? 0).toISOString()}`;
  return JSON.stringify({ name: "TaskExpired", message });
};

const expiry = (task: TaskRecord): Ending => ({ ...task, kind: "cancelled", error: errorOf(task) });

const isWaitingPart = ({ status, rootId }: TaskRecord) => status === "waiting" && rootId !== null;

/** What a claim may take of the tasks that it was about to take. */
export interface Unexpired<T> {
  live: readonly T[];
  /** The ids of those that it has ended. Absent: none. */
  expired?: readonly number[];
}

/** Ends the tasks that have expired, in the transaction of a claim. Without any that can expire, it asks the database nothing. */
export function* endExpired<T extends TaskRecord>(
  tasks: readonly T[],
  now: number,
  transitions: Transitions,
): Program<Unexpired<T>> {
  const isExpired = ({ expiresAt }: T) => expiresAt !== null && expiresAt <= now;
  const late = tasks.filter(isExpired);
  if (late.length === 0) return { live: tasks };
  const ended = yield* transitions.endTasks(late.map(expiry));
  return {
    live: tasks.filter((task) => !isExpired(task)),
    expired: late.flatMap(({ id }, i) => (ended[i] ? [id] : [])),
  };
}

/** What maintenance does about expired tasks, so that they end while no worker asks for them. */
export class ExpiryOperations {
  readonly #s: Texts["statements"];
  readonly #transitions: Transitions;
  readonly #tasks: TaskOperations;

  constructor({ statements }: Texts, transitions: Transitions, tasks: TaskOperations) {
    this.#s = statements;
    this.#transitions = transitions;
    this.#tasks = tasks;
  }

  /** The ids of expired tasks. @param passed as JSON, the ids of tasks to pass over */
  *overdue(limit: number, passed = "[]"): Program<number[]> {
    return (yield* this.#overdue(limit, passed)).map(({ id }) => id);
  }

  /** Ends expired tasks, and returns how many. @param among the ids of those to end. @default all */
  *end(limit: number, passed = "[]", among?: readonly number[]): Program<number> {
    const found = (yield* this.#overdue(limit, passed)).filter(({ id }) => among?.includes(id) !== false);
    const alone = found.filter((task) => !isWaitingPart(task));
    let ended = (yield* this.#transitions.endTasks(alone.map(expiry))).filter(Boolean).length;
    // What waits may have children.
    for (const task of found.filter(isWaitingPart))
      if ((yield* this.#tasks.cancel(task.id, errorOf(task)))?.changed) ended += 1;
    return ended;
  }

  *#overdue(limit: number, passed: string): Program<TaskRecord[]> {
    return (yield* rows(this.#s.overdue, { limit, passed })).map(toTaskRecord);
  }
}
