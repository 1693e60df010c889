/** What a worker runs, and what is its own by the database: the two may come apart. */

import { LostGenerationError, TaskCancelledError } from "../errors.ts";
import type { Outcome, OutcomeKind, Store, TaskState } from "../store.ts";
import type { TaskRecord, TaskStatus } from "../task.ts";
import type { RunningAttempt } from "./attempt.ts";

/** Outcomes that the database was told, and did not say whether it took them: it may have. */
const unanswered = new WeakMap<RunningAttempt, Outcome>();

export function recordUnanswered(attempt: RunningAttempt, outcome: Outcome): void {
  unanswered.set(attempt, outcome);
}

/** What an attempt may have done to its task by itself, beside what was answered. */
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

/** The task moved on by a hand that was not this attempt's. */
export function isLost(attempt: RunningAttempt, standing: TaskState | undefined): boolean {
  const held = attempt.record.generationId;
  if (standing?.generationId === held) return false;
  const done = possibleOutcome(attempt);
  if (!done || standing?.generationId !== held + 1) return true;
  return !statusesAfter[done.kind].includes(standing.status);
}

/** What the signal of a task that was lost tells its handler. */
export function lossReason({ id, generationId }: TaskRecord, standing: TaskState | undefined): Error {
  return standing === undefined || standing.status === "cancelled"
    ? new TaskCancelledError(id)
    : new LostGenerationError(id, generationId);
}

/** Milliseconds in which a claim that has no answer may still be committed, and those between looks for it. */
const doubtful = 300_000;
const between = 1_000;

/**
 * A claim without an answer may have been made all the same, or be made yet: a server goes on with what it was asked though
 * nobody listens any more, and may be waiting for a disk or a lock. What the worker holds by it, and does not run, is handed
 * back: nobody else would ever free it.
 */
export class UnknownClaims {
  readonly #store: Pick<Store, "heldBy" | "settleAndClaim">;
  readonly #workerId: string;
  readonly #running: Iterable<RunningAttempt>;
  #underWay = false;
  #doubtUntil = Number.NEGATIVE_INFINITY;
  #nextLook = 0;

  /** `running`: what the worker knows that it holds. */
  constructor(
    store: Pick<Store, "heldBy" | "settleAndClaim">,
    workerId: string,
    running: Iterable<RunningAttempt>,
  ) {
    this.#store = store;
    this.#workerId = workerId;
    this.#running = running;
  }

  /** A claim begins. One that is never answered is in doubt from the next look on. */
  begin(): void {
    this.#underWay = true;
  }

  answered(): void {
    this.#underWay = false;
  }

  /** To be called when no claim is under way. */
  async handBack(): Promise<void> {
    const now = performance.now();
    if (this.#underWay) this.#doubtUntil = now + doubtful;
    if (now > this.#doubtUntil || (!this.#underWay && now < this.#nextLook)) return;
    const known = new Set(Array.from(this.#running, ({ record }) => `${record.id}:${record.generationId}`));
    const held = await this.#store.heldBy(this.#workerId);
    const unknown = held.filter(({ id, generationId }) => !known.has(`${id}:${generationId}`));
    const outcomes = unknown.map(
      (task): Outcome => ({ ...task, workerId: this.#workerId, startedAt: null, kind: "interrupted" }),
    );
    if (outcomes.length > 0) await this.#store.settleAndClaim({ outcomes, claim: undefined });
    this.#underWay = false;
    this.#nextLook = now + between;
  }
}
