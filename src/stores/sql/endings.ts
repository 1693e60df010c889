/** How tasks leave their workers, and ends that a feature holds up: such as until the steps of a workflow are undone. */
import type { AttemptRecord, Outcome, TaskVersion } from "../../store.ts";
import type { Program } from "./program.ts";

/** For the row in `dbq_attempts`; without an `attempt`, none is written. */
export type Attempted = TaskVersion & {
  workerId: string | null;
  startedAt: number | null;
  /** As in `Outcome`, as the next four. */
  func?: string | undefined;
  failure?: string | null | undefined;
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
  /** As in `Outcome`. */
  begun?: boolean | undefined;
};

/** Whether a task has ended; "held up": it is to end later. */
export type Ended = boolean | "held up";

/**
 * Runs in the transaction in which tasks are to fail, to be cancelled or to be released, with those whose end may have to wait.
 * Gives those that a feature has held up, and for each whether the task was still at its generation.
 */
export type HoldUp = (
  tasks: readonly (Ending | Release)[],
) => Program<ReadonlyMap<Ending | Release, boolean>>;

/** Also one whose end is no more held up: the feature forgets it. What runs may have got a part of a feature since it was read. */
export const mayBeHeldUp = (ending: Ending): boolean =>
  ending.kind !== "completed" &&
  (ending.rootId !== null || ending.ending !== undefined || ending.stillRuns === true);

/** A task whose end is held up does not go back to the queue. */
export const isPartOfEnd = ({ ending }: Release): boolean => ending === "goes on";

/** Asks `holdUp` about some of the tasks, and lets `act` change the others. Gives the answers in the order of the tasks. */
export function* holdingUp<T extends Ending | Release, A>(
  tasks: readonly T[],
  some: readonly T[],
  holdUp: HoldUp | undefined,
  act: (others: readonly T[]) => Program<A[]>,
  record: (held: readonly T[]) => Program<void>,
): Program<(A | "held up" | false)[]> {
  const held = some.length > 0 && holdUp ? yield* holdUp(some) : new Map<Ending | Release, boolean>();
  if (held.size === 0) return yield* act(tasks);
  yield* record(tasks.filter((task) => held.get(task)));
  const others = tasks.filter((task) => !held.has(task));
  const answers = others.length === 0 ? [] : yield* act(others);
  const answerOf = new Map(others.map((task, i) => [task, answers[i] as A]));
  return tasks.map((task) => (held.get(task) ? "held up" : (answerOf.get(task) ?? false)));
}
