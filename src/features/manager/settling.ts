/** Settles the attempts of agents: all that arrive in one turn of the event loop in one write. */

import { setImmediate } from "../../base/runtime/timers.ts";
import { defaultBackoff } from "../../base/tasks/backoff.ts";
import { waitsForStart } from "../../base/tasks/pending.ts";
import { checkSize, encode } from "../../base/values/codec.ts";
import { describeThrown, failureOf } from "../../base/values/thrown.ts";
import type {
  ClaimRequest,
  Outcome,
  Refusal,
  SettleAndClaim,
  SettleAndClaimResult,
  WorkerStore,
} from "../../store.ts";
import type { AgentAttempt, AgentTask } from "./contract.ts";
import type { Held, Session } from "./session.ts";
import { type SettledTask, toThrown } from "./wire.ts";

/** The outcome of an attempt, made of what the agent says and of the row as it was claimed. */
export function outcomeOf(told: SettledTask, held: Held, maxPayload: number): Outcome {
  const { id, generationId, workerId, startedAt, func, parentId } = held;
  const owner = { id, generationId, workerId, startedAt, func, parentId };
  switch (told.status) {
    case "completed":
      return completed(told, held, maxPayload);
    case "failed":
      return failed(toThrown(told.error), held, told.retry);
    case "cancelled":
      return { ...owner, kind: "cancelled", ...failureOf("cancelled", describeThrown(toThrown(told.error))) };
    case "snoozed":
    case "throttled":
      return { ...owner, kind: "snoozed", delay: told.delay };
    case "released":
      return { ...owner, kind: "interrupted" };
  }
}

function completed(told: SettledTask & { status: "completed" }, held: Held, maxPayload: number): Outcome {
  const { id, generationId, workerId, startedAt, parentId } = held;
  try {
    const result = encode(told.result, "result") ?? null;
    if (result !== null) checkSize(`the result of ${held.func}`, maxPayload, result);
    return { id, generationId, workerId, startedAt, parentId, kind: "completed", result };
  } catch (error) {
    return failed(error as Error, held, false);
  }
}

function failed(error: Error, held: Held, retry: boolean | { delay: number } | undefined): Outcome {
  const { id, generationId, workerId, startedAt, func, parentId, retryCount, maxRetries } = held;
  const owner = { id, generationId, workerId, startedAt, func, parentId };
  const failure = failureOf(error.name === "TimeoutError" ? "timeout" : "failed", describeThrown(error));
  if (retry === false || retryCount >= maxRetries) return { ...owner, kind: "failed", ...failure };
  const delay = typeof retry === "object" ? retry.delay : defaultBackoff(retryCount + 1);
  return { ...owner, kind: "retry", delay, ...failure };
}

/**
 * Whether the row changed because of this same settle, sent before, whose answer was lost. `attempts`: the recorded ones of the
 * task. They tell it from a rescue, which also sends a task back to the queue, but records a crash.
 */
export function wasSettled(
  told: SettledTask,
  row: AgentTask,
  session: Session,
  attempts: readonly AgentAttempt[],
): boolean {
  if (row.generationId <= told.generation) return false;
  const isNext = row.generationId === told.generation + 1;
  const isTheirs = session.owns(row.workerId);
  if (told.status === "completed") return isNext && isTheirs && row.status === "completed";
  const recorded = attempts.find(
    ({ taskId, generationId }) => taskId === told.id && generationId === told.generation,
  );
  if (recorded) {
    if (!session.owns(recorded.workerId)) return false;
    const ends = told.status === "failed" ? ["failed", "timeout"] : [told.status];
    return ends.includes(recorded.outcome);
  }
  if (!["snoozed", "throttled", "released"].includes(told.status)) return false;
  // Neither is recorded, and a rescue is: if the task has run again since, it was this settle that let it go.
  if (!isNext) return true;
  return isTheirs && waitsForStart(row.status);
}

interface Batch {
  outcomes: readonly Outcome[];
  resolve(settled: boolean[]): void;
  reject(error: unknown): void;
}

export class Settling {
  readonly #store: Pick<WorkerStore, "settleAndClaim">;
  readonly #report: (error: unknown, where: string) => void;
  readonly #refusals = new WeakMap<Outcome, Refusal>();
  /** The last task of which no change was accepted: it is found again after each lease, and reported once. */
  #stuck: string | undefined;
  #batches: Batch[] = [];
  /** Claims that are about to settle what waits. */
  #claims = 0;

  constructor(store: Pick<WorkerStore, "settleAndClaim">, report: (error: unknown, where: string) => void) {
    this.#store = store;
    this.#report = report;
  }

  /** What the database has stored for an accepted outcome: another one where it refused that for good. */
  storedFor(outcome: Outcome): Outcome {
    return this.#refusals.get(outcome)?.stored ?? outcome;
  }

  /** For each outcome, in order, whether it was accepted. */
  async settle(outcomes: readonly Outcome[]): Promise<boolean[]> {
    if (outcomes.length === 0) return [];
    return await new Promise((resolve, reject) => {
      this.#batches.push({ outcomes, resolve, reject });
      if (this.#batches.length === 1) setImmediate(() => void this.#write());
    });
  }

  /**
   * Claims, and in the same write settles these outcomes and those that wait: on Postgres this is one statement.
   * For each outcome, in order, whether it was accepted.
   */
  async claim(
    claim: ClaimRequest,
    outcomes: readonly Outcome[],
  ): Promise<{ result: SettleAndClaimResult; accepted: boolean[] }> {
    this.#claims += 1;
    const settled = this.settle(outcomes);
    settled.catch(() => undefined);
    // An agent may settle and claim at the same time, in two requests.
    await new Promise((resolve) => setImmediate(resolve));
    this.#claims -= 1;
    const result = await this.#cycle(claim);
    return { result, accepted: await settled };
  }

  async #write(): Promise<void> {
    if (this.#batches.length > 0 && this.#claims === 0) await this.#cycle(undefined).catch(() => undefined);
  }

  /** Rejects when the claim fails; the batches are answered all the same. */
  async #cycle(claim: ClaimRequest | undefined): Promise<SettleAndClaimResult> {
    const batches = this.#batches.splice(0);
    const outcomes = batches.flatMap((batch) => batch.outcomes);
    let result: SettleAndClaimResult;
    try {
      result = await this.#settleAndClaim({ outcomes, claim });
    } catch (error) {
      // A row that the database refuses must not block the rows of other agents.
      for (const batch of batches) await this.#writeOne(batch);
      throw error;
    }
    let at = 0;
    for (const { outcomes: own, resolve } of batches) {
      resolve(result.settled.slice(at, at + own.length));
      at += own.length;
    }
    if (result.failure !== undefined) throw result.failure;
    return result;
  }

  async #settleAndClaim(cycle: SettleAndClaim): Promise<SettleAndClaimResult> {
    const result = await this.#store.settleAndClaim(cycle);
    for (const [outcome, refusal] of result.refused ?? []) {
      this.#refusals.set(outcome, refusal);
      const task = `${outcome.id}:${outcome.generationId}`;
      if (refusal.stored || task !== this.#stuck)
        this.#report(refusal.error, `settling task ${outcome.id} of an agent`);
      if (!refusal.stored) this.#stuck = task;
    }
    return result;
  }

  async #writeOne({ outcomes, resolve, reject }: Batch): Promise<void> {
    try {
      resolve((await this.#settleAndClaim({ outcomes, claim: undefined })).settled);
    } catch (error) {
      reject(error);
    }
  }
}
