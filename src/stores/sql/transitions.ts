/**
 * How a running task leaves its worker: it ends, or it is released. Each task that ends goes through `endTasks`, whether
 * a worker settles it, an operator cancels it, a handler completes it in its own transaction, or a rescue charges its last
 * retry. Each change names the generation that was read; false: the task has moved on, and nothing was changed.
 */
import type { AttemptRecord, Outcome, TaskVersion } from "../../store.ts";
import { changes, insertedIds, type Program, rewindCursors } from "./program.ts";
import type { Statements } from "./statements.ts";

/** For the row in `dbq_attempts`; without an `attempt`, none is written. */
type Attempted = TaskVersion & {
  workerId: string | null;
  startedAt: number | null;
  /** As in `Outcome`, as the next two. */
  parentId?: number | null | undefined;
  rootId?: number | null | undefined;
  ending?: Outcome["ending"];
  attempt?: AttemptRecord | undefined;
};

/** How a task ends. */
export type Ending = Attempted &
  (
    | { kind: "completed"; result: string | null }
    /** `stillRuns`: another program than its worker ends it while its function runs. */
    | { kind: "failed" | "cancelled"; error: string; stillRuns?: boolean }
  );

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

/**
 * Runs in the transaction in which tasks are to fail, to be cancelled or to be released, with those whose end may have to wait.
 * Gives those that a feature has held up, and for each whether the task was still at its generation.
 */
export type HoldUp = (
  tasks: readonly (Ending | Release)[],
) => Program<ReadonlyMap<Ending | Release, boolean>>;

/** Whether a task has ended; "held up": it is to end later. */
export type Ended = boolean | "held up";

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
  *endOrHold(endings: readonly Ending[]): Program<Ended[]> {
    const held = yield* this.#held(endings.filter(mayBeHeldUp));
    const others = held.size === 0 ? endings : endings.filter((ending) => !held.has(ending));
    const ended = yield* this.#endMixed(others);
    yield* this.#tellParents(others, ended);
    if (held.size === 0) return ended;
    const ends = new Map(others.map((ending, i) => [ending, ended[i] === true]));
    return endings.map((ending) => (held.get(ending) ? "held up" : ends.get(ending) === true));
  }

  *#tellParents(endings: readonly Ending[], ended: readonly boolean[]): Program<void> {
    if (!this.onEnd || !endings.some(mayHaveParent)) return;
    const heard = endings.filter((ending, i) => ended[i] && mayHaveParent(ending));
    if (heard.length > 0) yield* this.onEnd(heard);
  }

  *#held(tasks: readonly (Ending | Release)[]): Program<ReadonlyMap<Ending | Release, boolean>> {
    if (tasks.length === 0 || !this.holdUp) return new Map();
    const held = yield* this.holdUp(tasks);
    yield* this.#record([...held].flatMap(([task, isAccepted]) => (isAccepted ? [task] : [])));
    return held;
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
    const ending = releases.filter((release) => release.ending === "goes on");
    if (ending.length > 0) return yield* this.#releaseEnding(releases, ending);
    const released = yield* changes(this.#s.release, releases.map(releaseParams));
    yield* this.#record(releases.filter((_, i) => released[i]));
    if (releases.some(({ status }, i) => status === "pending" && released[i])) yield* rewindCursors();
    return released;
  }

  /** A task whose end is held up does not go back to the queue. */
  *#releaseEnding(all: readonly Release[], ending: readonly Release[]): Program<boolean[]> {
    const held = yield* this.#held(ending);
    const others = all.filter((release) => !held.has(release)).map((one) => ({ ...one, ending: undefined }));
    const released = others.length === 0 ? [] : yield* this.releaseTasks(others);
    return all.map((release) => held.get(release) ?? released.shift() === true);
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

/** Also one whose end is no more held up: the feature forgets it. */
const mayBeHeldUp = (ending: Ending): boolean =>
  !isCompleted(ending) && (ending.rootId !== null || ending.ending !== undefined);

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
