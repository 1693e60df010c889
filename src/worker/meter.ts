/** The seam for statistics: a worker, a drain and a Manager tell a meter of each attempt that has ended. */
import type { OutcomeKind } from "../store.ts";
import type { TaskRecord } from "../task.ts";

/** What a meter reads of a task, as its claim left it. */
export type MeteredTask = Pick<
  TaskRecord,
  "func" | "queueName" | "createdAt" | "waitUntil" | "startedAt" | "generationId"
>;

export interface Meter {
  /**
   * The database has accepted this outcome of an attempt. Called for every task: it must be quick, and never throws.
   * @param ranMs how long the function ran, in milliseconds; undefined: it was not called, or nobody knows
   */
  ended(task: MeteredTask, kind: OutcomeKind, ranMs: number | undefined): void;
  /** Resolves when all is written, or has failed. */
  close(): Promise<void>;
}

export interface MeterHost {
  readonly workerId: string;
  report(error: unknown, where: string): void;
}

/** Counts nothing: the queue has no statistics. */
export const noMeter: Meter = { ended: () => undefined, close: () => Promise.resolve() };

/** Opens the meter of one worker, from its start to its stop. */
export type OpenMeter = (host: MeterHost) => Meter;
