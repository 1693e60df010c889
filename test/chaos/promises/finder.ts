/** What the promises are made of: each finds the cases in which it was broken. */
import type { Entry } from "../../fixtures/ledger.ts";
import type { Move } from "../audit.ts";
import type { AttemptRow, History } from "../history.ts";

export interface Expected {
  /** All has come to rest: no task is pending, scheduled or running. Default true. */
  ended?: boolean;
  /** The ids of workers that are alive in the end: only they may hold a task, or have a row. */
  living?: readonly string[];
  /** Bytes that the write-ahead log may have. Default 64 MiB. */
  wal?: number;
  /** Which errors that a process told of belong to the scenario. Default: none. */
  allowed?: (entry: Entry) => boolean;
  /** Tasks that the scenario has purged. Default: none. */
  mayBeDeleted?: (task: number) => boolean;
  /** Workers whose process may have been killed; any other is dead when its lease is over, no sooner. Default: all. */
  mayDie?: (worker: string) => boolean;
  /** Whether a claim may have lost its answer: what it took is handed back, and was never started. Default: no. */
  unanswered?: boolean;
  /** Attempts that may fail otherwise than planned. Default: none. */
  mayFail?: (attempt: AttemptRow) => boolean;
}

export type Finder = (history: History, expected: Expected) => unknown[];

export type Promises = Readonly<Record<string, Finder>>;

const finished = new Set(["completed", "failed", "cancelled"]);

export const isFinished = (status: string | null): boolean => status !== null && finished.has(status);
export const isClaim = ({ wasStatus, status }: Move): boolean =>
  wasStatus === "pending" && status === "running";
export const endsAttempt = ({ wasStatus, status }: Move): boolean =>
  wasStatus === "running" && status !== "running";
export const isCharged = ({ wasRetries, retries }: Move): boolean => (retries ?? 0) > (wasRetries ?? 0);
export const isFinish = ({ wasStatus, status }: Move): boolean =>
  !isFinished(wasStatus) && isFinished(status);
export const isReset = ({ wasStatus, status }: Move): boolean =>
  isFinished(wasStatus) && status === "pending";

/** Back to where it was before the claim, and nothing charged: an interruption, or a snooze. */
export const isRefund = (move: Move): boolean =>
  (move.status === "pending" || move.status === "scheduled") && !isCharged(move);

/** An attempt is a task and the generation that its claim gave it. */
export const key = ({ task, generation }: { task?: number; generation?: number | null }): string =>
  `${task}:${generation}`;

/** The attempt that a move has ended. */
export const keyOfEnded = ({ task, wasGeneration }: Move): string => key({ task, generation: wasGeneration });

/** The process of a worker, whose id is host:pid:random. */
export const processOf = (worker: string | null): number => Number(worker?.split(":").at(-2));

/** Those whose task and generation were there before. */
export function repeated<T extends { task?: number; generation?: number | null }>(items: readonly T[]): T[] {
  const seen = new Set<string>();
  return items.filter((item) => {
    const again = seen.has(key(item));
    seen.add(key(item));
    return again;
  });
}
