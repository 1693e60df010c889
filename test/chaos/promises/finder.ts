/** The building blocks of the promises: each promise is a function that finds the cases in which it was broken. */
import type { Entry } from "../../fixtures/event-log.ts";
import type { Move } from "../audit.ts";
import type { AttemptRow, History } from "../history.ts";

export interface Expected {
  /** Whether all tasks must have finished. Default true. */
  ended?: boolean;
  /** The ids of workers that are alive at the end: only they may hold a task or have a row. */
  living?: readonly string[];
  /** The limit of the write-ahead log in bytes. Default 64 MiB. */
  wal?: number;
  /** The reported errors that belong to the scenario. Default: none. */
  allowed?: (entry: Entry) => boolean;
  /** The tasks that the scenario has purged. Default: none. */
  mayBeDeleted?: (task: number) => boolean;
  /**
   * The workers whose process may have been killed by then, or whose session may have ended; any other is dead when its lease
   * is over, no sooner. Default: all.
   */
  mayDie?: (worker: string, at: number) => boolean;
  /**
   * Whether the answer of a claim may have been lost: its tasks are handed back and were never started. Default: no.
   */
  unanswered?: boolean;
  /** Whether tasks are claimed before their turn at a rate: some are handed back and were never started. Default: no. */
  beforeTurn?: boolean;
  /** The attempts that may fail otherwise than planned. Default: none. */
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

/** To a state before the claim, without a charge: an interruption, a snooze or a wait of a workflow. */
export const isRefund = (move: Move): boolean =>
  ["pending", "scheduled", "waiting"].includes(move.status ?? "") && !isCharged(move);

/** The key of an attempt: the task and the generation that its claim gave it. */
export const key = ({ task, generation }: { task?: number; generation?: number | null }): string =>
  `${task}:${generation}`;

/** The key of the attempt that a move has ended. */
export const keyOfEnded = ({ task, wasGeneration }: Move): string => key({ task, generation: wasGeneration });

/** The process in a worker's id, which is host:pid:random. */
export const processOf = (worker: string | null): number => Number(worker?.split(":").at(-2));

/** The items whose task and generation occurred before. */
export function repeated<T extends { task?: number; generation?: number | null }>(items: readonly T[]): T[] {
  const seen = new Set<string>();
  return items.filter((item) => {
    const again = seen.has(key(item));
    seen.add(key(item));
    return again;
  });
}
