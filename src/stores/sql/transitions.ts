/** The state changes that several operations share. Each names the generation it read; false: somebody else was first. */
import type { AttemptRecord, TaskVersion } from "../../store.ts";
import type { FinishedStatus } from "../../task.ts";
import { count, insertedIds, type Program } from "./program.ts";
import type { Statements } from "./statements.ts";

export interface Release {
  /** Retries charged. */
  charge: 0 | 1;
  /** Milliseconds; null: at once. */
  delay: number | null;
  error: string | null;
}

/** An attempt that did not end well, of the generation that its task had. */
export interface Recorded extends TaskVersion {
  workerId: string | null;
  startedAt: number | null;
  attempt: AttemptRecord;
}

export function transitions(s: Statements) {
  return {
    *finish(
      held: TaskVersion,
      status: FinishedStatus,
      result: string | null,
      error: string | null,
    ): Program<boolean> {
      const { id, generationId } = held;
      return (yield* count(s.finish, { id, generationId, status, result, error })) > 0;
    },

    *release(held: TaskVersion, status: "pending" | "scheduled", how: Release): Program<boolean> {
      const { id, generationId } = held;
      return (yield* count(s.release, { id, generationId, status, ...how })) > 0;
    },

    /** Keeps attempts that did not end well. */
    *record(ended: readonly Recorded[]): Program<void> {
      const rows = ended.map(({ id, generationId, workerId, startedAt, attempt }) => ({
        ...{ id, generationId, workerId, startedAt },
        ...attempt,
      }));
      yield* insertedIds(s.recordAttempt, rows);
    },
  };
}
