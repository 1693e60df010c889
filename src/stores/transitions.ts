/** The state changes that several operations share. Each names the generation it read; false: somebody else was first. */
import type { AttemptRecord, Held } from "../store.ts";
import type { FinishedStatus } from "../task.ts";
import type { Statements } from "./statements.ts";
import { count, type Op } from "./steps.ts";

export interface Release {
  /** Retries charged. */
  charge: 0 | 1;
  /** Milliseconds; null: at once. */
  delay: number | null;
  error: string | null;
}

export function transitions(s: Statements) {
  return {
    *finish(held: Held, status: FinishedStatus, result: string | null, error: string | null): Op<boolean> {
      const { id, generationId } = held;
      return (yield* count(s.finish, { id, generationId, status, result, error })) > 0;
    },

    *release(held: Held, status: "pending" | "scheduled", how: Release): Op<boolean> {
      const { id, generationId } = held;
      return (yield* count(s.release, { id, generationId, status, ...how })) > 0;
    },

    /** Keeps an attempt that did not end well. */
    *record(
      run: Held & { workerId: string | null; startedAt: number | null },
      { outcome, errorName, errorMessage, errorStack }: AttemptRecord,
    ): Op<true> {
      const { id, generationId, workerId, startedAt } = run;
      const params = { id, generationId, workerId, startedAt, outcome, errorName, errorMessage, errorStack };
      yield* count(s.recordAttempt, params);
      return true;
    },
  };
}
