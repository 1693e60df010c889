/** The seam for statistics: a worker, a drain and a Manager tell a meter of each attempt that has ended. */
import type { AttemptRecord, Outcome, OutcomeKind } from "../store.ts";
import type { TaskRecord } from "../task.ts";

/** What a meter reads of a task, as its claim left it. */
export type MeteredTask = Pick<
  TaskRecord,
  "id" | "func" | "queueName" | "createdAt" | "waitUntil" | "startedAt" | "generationId"
>;

export interface Meter {
  /**
   * The database has accepted this outcome of an attempt. Called for every task: it must be quick, and never throws.
   * @param ranMs how long the function ran, in milliseconds; undefined: it was not called, or nobody knows
   */
  ended(task: MeteredTask, kind: OutcomeKind, ranMs: number | undefined): void;
  /** The same attempt has failed, and this is its record. It never throws. */
  failed(task: MeteredTask, attempt: AttemptRecord): void;
  /** Resolves when all is written, or has failed. */
  close(): Promise<void>;
}

export interface MeterHost {
  readonly workerId: string;
  report(error: unknown, where: string): void;
}

/** What one feature counts: it is not called for anything else. */
export type MeterPart = Partial<Meter> & Pick<Meter, "close">;

/** Opens a feature's part of the meter of one worker, from its start to its stop. */
export type OpenMeter = (host: MeterHost) => MeterPart;

/** Without parts it counts nothing. */
export function meterOf(parts: readonly MeterPart[]): Meter {
  return {
    ended: all(parts.flatMap((part) => part.ended?.bind(part) ?? [])),
    failed: all(parts.flatMap((part) => part.failed?.bind(part) ?? [])),
    close: async () => {
      await Promise.all(parts.map((part) => part.close()));
    },
  };
}

/** One function by itself is called as it is: it is called for every task. */
function all<A extends unknown[]>(each: readonly ((...args: A) => void)[]): (...args: A) => void {
  const [one, second] = each;
  if (one && !second) return one;
  return (...args) => {
    for (const call of each) call(...args);
  };
}

/** Tells a meter of an attempt whose outcome the database has accepted. */
export function meterOutcome(
  meter: Meter,
  task: MeteredTask,
  outcome: Outcome,
  ranMs: number | undefined,
): void {
  meter.ended(task, outcome.kind, ranMs);
  meterFailure(meter, task, outcome);
}

/** Tells a meter that an attempt has failed. While the end of its task is held up, it has ended all the same. */
export function meterFailure(meter: Meter, task: MeteredTask, outcome: Outcome): void {
  if ((outcome.kind === "failed" || outcome.kind === "retry") && outcome.attempt)
    meter.failed(task, outcome.attempt);
}
