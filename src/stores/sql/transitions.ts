/**
 * How a running task leaves its worker: it ends, or it is released. Each task that ends goes through `endTasks`, whether
 * a worker settles it, an operator cancels it, a handler completes it in its own transaction, or a rescue charges its last
 * retry. Each change names the generation that was read; false: the task has moved on, and nothing was changed.
 */
import {
  type Attempted,
  type Ended,
  type Ending,
  type HoldUp,
  holdingUp,
  isPartOfEnd,
  mayBeHeldUp,
  type Release,
} from "./endings.ts";
import { attemptKind, functionsOf, taskKind } from "./failure-kinds.ts";
import { changes, insertedIds, type Program, rewindCursors } from "./program.ts";
import type { Statements } from "./statements.ts";

/** Runs in the transaction in which tasks end, with those that have a parent or may have one. */
export type OnEnd = (ended: readonly Ending[]) => Program<void>;

/** Whether another task waits for this one, or may. */
export const mayHaveParent = ({ parentId }: Pick<Attempted, "parentId">): boolean => parentId !== null;

export class Transitions {
  readonly #s: Statements;
  /** What else has to happen when such tasks end: it wakes their parents. */
  onEnd: OnEnd | undefined;
  /** Undefined: nothing holds an end up. */
  holdUp: HoldUp | undefined;

  constructor(s: Statements) {
    this.#s = s;
  }

  /** Ends tasks. One statement on a server when all have completed, which is the hot path; three at most. */
  *endTasks(endings: readonly Ending[]): Program<boolean[]> {
    if (!endings.every(isCompleted)) return (yield* this.endOrHold(endings)).map(Boolean);
    const ended = yield* changes(this.#s.complete, endings);
    yield* this.#tellParents(endings, ended);
    return ended;
  }

  /** The same, and says which tasks are to end later. */
  endOrHold(endings: readonly Ending[]): Program<Ended[]> {
    const [some, record] = [endings.filter(mayBeHeldUp), (held: readonly Ending[]) => this.#record(held)];
    return holdingUp(endings, some, this.holdUp, (others) => this.#endMixed(others), record);
  }

  *#tellParents(endings: readonly Ending[], ended: readonly boolean[]): Program<void> {
    if (!this.onEnd || !endings.some(mayHaveParent)) return;
    const heard = endings.filter((ending, i) => ended[i] && mayHaveParent(ending));
    if (heard.length > 0) yield* this.onEnd(heard);
  }

  *#endMixed(endings: readonly Ending[]): Program<boolean[]> {
    const failed = endings.filter(({ kind }) => kind === "failed");
    const funcOf = yield* functionsOf(this.#s, failed);
    const paramsOf = (ending: Ending) => ({ ...finishParams(ending), failure: taskKind(ending, funcOf) });
    const ended = yield* inGroups(endings, isCompleted, (some, completed) =>
      completed ? changes(this.#s.complete, some) : changes(this.#s.finish, some.map(paramsOf)),
    );
    yield* this.#record(endings.filter((_, i) => ended[i]));
    yield* this.#tellParents(endings, ended);
    return ended;
  }

  /** Makes tasks pending or scheduled again. Two statements at most on a server, however many they are. */
  *releaseTasks(releases: readonly Release[]): Program<boolean[]> {
    const [some, record] = [releases.filter(isPartOfEnd), (held: readonly Release[]) => this.#record(held)];
    if (some.length === 0) return yield* this.#release(releases);
    const act = (others: readonly Release[]) => this.#release(others);
    return (yield* holdingUp(releases, some, this.holdUp, act, record)).map(Boolean);
  }

  *#release(releases: readonly Release[]): Program<boolean[]> {
    const released = yield* changes(this.#s.release, releases.map(releaseParams));
    yield* this.#record(releases.filter((_, i) => released[i]));
    if (releases.some(({ status }, i) => status === "pending" && released[i])) yield* rewindCursors();
    return released;
  }

  /** Records the attempts that did not complete. */
  *#record(attempted: readonly Attempted[]): Program<void> {
    const rows: Record<string, unknown>[] = [];
    const recorded = attempted.filter(({ attempt }) => attempt);
    const funcOf = yield* functionsOf(this.#s, recorded);
    for (const task of recorded) {
      const { id, generationId, workerId, startedAt, attempt } = task;
      rows.push({ id, generationId, workerId, startedAt, ...attempt, failure: attemptKind(task, funcOf) });
    }
    yield* insertedIds(this.#s.recordAttempt, rows);
  }
}

const isCompleted = ({ kind }: Ending): boolean => kind === "completed";

const finishParams = (ending: Ending) => {
  const { id, generationId, kind } = ending;
  return { id, generationId, status: kind, error: ending.kind === "completed" ? null : ending.error };
};

const releaseParams = ({ id, generationId, status, charge, delay, error, begun }: Release) => ({
  ...{ id, generationId, status, charge, delay, error, unbegun: begun === false ? 1 : 0 },
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
