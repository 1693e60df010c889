/** The state changes that several operations share. Each names the generation it read; false: somebody else was first. */
import type { AttemptRecord, TaskVersion } from "../../store.ts";
import type { FinishedStatus } from "../../task.ts";
import { changes, count, insertedIds, type Program } from "./program.ts";
import type { Statements } from "./statements.ts";

export interface Release {
  /** Retries charged. */
  charge: 0 | 1;
  /** The reason; null leaves the one that the task has. */
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

    /** Finishes tasks that ran as `failed`: one statement on a server, however many they are. */
    *failAll(held: readonly (TaskVersion & { error: string })[]): Program<boolean[]> {
      return yield* changes(
        s.finish,
        held.map(({ id, generationId, error }) => ({
          ...{ id, generationId, status: "failed" satisfies FinishedStatus, result: null, error },
        })),
      );
    },

    /** Makes tasks that ran pending at once: one statement on a server, however many they are. */
    *releaseAll(held: readonly (TaskVersion & Release)[]): Program<boolean[]> {
      return yield* changes(
        s.release,
        held.map(({ id, generationId, charge, error }) => ({
          ...{ id, generationId, status: "pending", charge, delay: null, error },
        })),
      );
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
