/**
 * How a running task leaves its worker: it ends, or it is released. Each task that ends goes through `endTasks`, whether
 * a worker settles it, an operator cancels it, a handler completes it in its own transaction, or a rescue charges its last
 * retry. Each change names the generation that was read; false: the task has moved on, and nothing was changed.
 */
import type { AttemptRecord, TaskVersion } from "../../store.ts";
import { changes, insertedIds, type Program, rewindCursors } from "./program.ts";
import type { Statements } from "./statements.ts";

/** For the row in `dbq_attempts`; without an `attempt`, none is written. */
type Attempted = TaskVersion & {
  workerId: string | null;
  startedAt: number | null;
  /** As in `Outcome`. */
  parentId?: number | null | undefined;
  attempt?: AttemptRecord | undefined;
};

/** How a task ends. */
export type Ending = Attempted &
  ({ kind: "completed"; result: string | null } | { kind: "failed" | "cancelled"; error: string });

/** How a task goes back to the queue. */
export type Release = Attempted & {
  status: "pending" | "scheduled";
  /** Retries to charge. */
  charge: 0 | 1;
  /** Milliseconds until it is due; null: now. */
  delay: number | null;
  /** The reason; null keeps the error that the task has. */
  error: string | null;
};

/** Runs in the transaction in which tasks end, with those that have a parent or may have one. */
export type OnEnd = (ended: readonly Ending[]) => Program<void>;

/** Whether another task waits for this one, or may. */
export const mayHaveParent = ({ parentId }: Pick<Attempted, "parentId">): boolean => parentId !== null;

export class Transitions {
  readonly #s: Statements;
  /** What else has to happen when such tasks end: it wakes their parents. */
  onEnd: OnEnd | undefined;

  constructor(s: Statements) {
    this.#s = s;
  }

  /** Ends tasks. One statement on a server when all have completed, which is the hot path; three at most. */
  *endTasks(endings: readonly Ending[]): Program<boolean[]> {
    const ended = endings.every(isCompleted)
      ? yield* changes(this.#s.complete, endings)
      : yield* this.#endMixed(endings);
    if (this.onEnd && endings.some(mayHaveParent)) {
      const heard = endings.filter((ending, i) => ended[i] && mayHaveParent(ending));
      if (heard.length > 0) yield* this.onEnd(heard);
    }
    return ended;
  }

  *#endMixed(endings: readonly Ending[]): Program<boolean[]> {
    const ended = yield* inGroups(endings, isCompleted, (some, completed) =>
      completed ? changes(this.#s.complete, some) : changes(this.#s.finish, some.map(finishParams)),
    );
    yield* this.#record(endings.filter((_, i) => ended[i]));
    return ended;
  }

  /** Makes tasks pending or scheduled again. Two statements at most on a server, however many they are. */
  *releaseTasks(releases: readonly Release[]): Program<boolean[]> {
    const released = yield* changes(this.#s.release, releases.map(releaseParams));
    yield* this.#record(releases.filter((_, i) => released[i]));
    if (releases.some(({ status }, i) => status === "pending" && released[i])) yield* rewindCursors();
    return released;
  }

  /** Records the attempts that did not complete. */
  *#record(attempted: readonly Attempted[]): Program<void> {
    const rows: Record<string, unknown>[] = [];
    for (const { id, generationId, workerId, startedAt, attempt } of attempted)
      if (attempt) rows.push({ id, generationId, workerId, startedAt, ...attempt });
    yield* insertedIds(this.#s.recordAttempt, rows);
  }
}

const isCompleted = ({ kind }: Ending): boolean => kind === "completed";

const finishParams = (ending: Ending) => {
  const { id, generationId, kind } = ending;
  return { id, generationId, status: kind, error: ending.kind === "completed" ? null : ending.error };
};

const releaseParams = ({ id, generationId, status, charge, delay, error }: Release) => ({
  ...{ id, generationId, status, charge, delay, error },
});

/** Groups the items by their key, acts on each group, first seen first, and returns the answers in the order of the items. */
export function* inGroups<T, K, A>(
  all: readonly T[],
  keyOf: (one: T) => K,
  act: (some: readonly T[], key: K) => Program<A[]>,
): Program<A[]> {
  const answers: A[] = [];
  const keys = all.map(keyOf);
  for (const key of new Set(keys)) {
    const places = [...all.keys()].filter((i) => keys[i] === key);
    const some = yield* act(
      places.map((i) => all[i] as T),
      key,
    );
    for (const [n, i] of places.entries()) answers[i] = some[n] as A;
  }
  return answers;
}
