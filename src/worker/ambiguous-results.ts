/** Claims and settles whose answer was lost: what they may have done, and how the worker finds out. */

import { performance } from "../base/runtime/timers.ts";
import { errorOf } from "../base/values/records.ts";
import { LostGenerationError, TaskCancelledError } from "../errors.ts";
import type { Outcome, OutcomeKind, TaskState, TaskVersion, WorkerStore } from "../store.ts";
import type { TaskRecord, TaskStatus } from "../task.ts";
import type { RunningAttempt } from "./attempt.ts";

/** Outcomes that were sent to the database without an answer: they may be settled. */
const unanswered = new WeakMap<RunningAttempt, Outcome>();

export function recordUnanswered(attempt: RunningAttempt, outcome: Outcome): void {
  unanswered.set(attempt, outcome);
}

/** The outcome that may be settled already: by a call without an answer, or in the function's own transaction. */
export function possibleOutcome(attempt: RunningAttempt): Outcome | undefined {
  return unanswered.get(attempt) ?? attempt.completedWithin;
}

const statusesAfter: Readonly<Record<OutcomeKind, readonly TaskStatus[]>> = {
  completed: ["completed"],
  failed: ["failed"],
  cancelled: ["cancelled"],
  retry: ["scheduled", "pending"],
  snoozed: ["scheduled", "pending"],
  interrupted: ["pending"],
};

/** Whether the task was changed, and not by this attempt. `state`: undefined when the task does not exist any more. */
export function isLost(attempt: RunningAttempt, state: TaskState | undefined): boolean {
  const claimed = attempt.record.generationId;
  if (state?.generationId === claimed) return false;
  const possible = possibleOutcome(attempt);
  if (!possible || state?.generationId !== claimed + 1) return true;
  return !statusesAfter[possible.kind].includes(state.status);
}

/** The reason of a lost task's abort signal. `cancelled`: the row, which has the reason of the cancel. */
export function lossReason(
  { id, generationId }: TaskRecord,
  state: TaskState | undefined,
  cancelled: TaskRecord | undefined,
): Error {
  return state === undefined || cancelled || state.status === "cancelled"
    ? new TaskCancelledError(id, cancelReason(cancelled?.error))
    : new LostGenerationError(id, generationId);
}

/** Why a task was cancelled, as `cancelTask` was told. `error`: of its row; undefined if that is gone. */
export function cancelReason(error: string | null | undefined): string | undefined {
  return typeof error === "string" ? errorOf(error).message : undefined;
}

const keyOf = ({ id, generationId }: TaskVersion): string => `${id}:${generationId}`;

/** Milliseconds for which a claim without an answer may still be committed. */
const doubtMs = 300_000;
/** Milliseconds between two checks, while there is doubt and otherwise. */
const checkEveryMs = { inDoubt: 1_000, otherwise: 30_000 };

/**
 * Finds tasks that are the worker's in the database although it does not run them. A server may commit a claim after its
 * answer was given up on, when it waited for a disk or a lock. And a server that crashes, or a standby that takes over, may
 * have lost a settlement that it had answered. Nobody runs or rescues such a task while this worker lives, so it is handed
 * back.
 */
export class UnknownClaims {
  readonly #store: Pick<WorkerStore, "heldBy" | "settleAndClaim">;
  readonly #workerId: string;
  readonly #owned: readonly Iterable<{ readonly record: TaskVersion }>[];
  /** A cycle has failed since the last check: it may have claimed tasks without an answer. */
  #unanswered = false;
  /** Tasks that the database does not let go. */
  readonly #refused = new Set<string>();
  #doubtUntil = Number.NEGATIVE_INFINITY;
  #nextCheck = performance.now() + checkEveryMs.otherwise;

  /** `owned`: the attempts, or other holders of a task, that the worker knows it owns; and the tasks that cannot be settled. */
  constructor(
    store: Pick<WorkerStore, "heldBy" | "settleAndClaim">,
    workerId: string,
    ...owned: readonly Iterable<{ readonly record: TaskVersion }>[]
  ) {
    this.#store = store;
    this.#workerId = workerId;
    this.#owned = owned;
  }

  /** Call it after a failed cycle: the server may have committed its claim, or may have been down and lost what it had answered. */
  failed(): void {
    this.#unanswered = true;
    this.#nextCheck = 0;
  }

  /** Whether `handBack` looks: a cycle has failed, or the next check is due. */
  get isDue(): boolean {
    return performance.now() >= this.#nextCheck;
  }

  /** Hands back the tasks that the worker claimed without an answer. Call it only while no claim is under way. */
  async handBack(): Promise<void> {
    if (!this.isDue) return;
    const now = performance.now();
    if (this.#unanswered) this.#doubtUntil = now + doubtMs;
    const known = new Set(this.#refused);
    for (const owned of this.#owned) for (const { record } of owned) known.add(keyOf(record));
    const held = await this.#store.heldBy(this.#workerId);
    const unknown = held.filter((task) => !known.has(keyOf(task)));
    const outcomes = unknown.map(
      (task): Outcome => ({
        ...task,
        workerId: this.#workerId,
        startedAt: null,
        kind: "interrupted",
        begun: false,
      }),
    );
    if (outcomes.length > 0) {
      const { refused = [] } = await this.#store.settleAndClaim({ outcomes, claim: undefined });
      for (const [outcome, { stored }] of refused) if (!stored) this.#refused.add(keyOf(outcome));
    }
    this.#unanswered = false;
    this.#nextCheck = now + checkEveryMs[now < this.#doubtUntil ? "inDoubt" : "otherwise"];
  }
}
