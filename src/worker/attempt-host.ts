/** What an attempt needs from whoever runs it: a worker, the test kit or an agent. */
import type { Clock } from "../base/runtime/clock.ts";
import type { TaskDefinition } from "../base/tasks/registry.ts";
import type { TransactionalStore } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import type { AttemptFeatures } from "./attempt-part.ts";
import type { Executor } from "./executor.ts";
import type { TaskLogs } from "./logs.ts";

/** What an attempt needs from its worker. */
export interface AttemptHost {
  readonly store: Pick<TransactionalStore, "within" | "synchronous">;
  readonly logs: TaskLogs;
  readonly context: unknown;
  readonly maxPayload: number;
  /** @default the host's */
  readonly clock?: Clock | undefined;
  executorOf(definition: TaskDefinition): Executor;
  /** Writes the `maxRetries` that the caller left to the worker. */
  fillDefaults(record: TaskRecord, maxRetries: number): Promise<void>;
  /** Records progress, to be written with the next batch. */
  noteProgress(record: TaskRecord, progress: number, note: string | null): void;
  /** Lets no task of this task's group, else function, start for so many milliseconds. Never rejects. */
  throttle(record: TaskRecord, delay: number): Promise<void>;
  /** What features may use. @default the attempt has no database */
  readonly features?: AttemptFeatures | undefined;
  /** The task is not this attempt's any more: looks why, and calls `lose`. Never rejects. */
  checkLoss(record: TaskRecord): Promise<void>;
  /** The worker cannot read the task, and hands it back. It takes no task of the function for a while. @default the task waits instead */
  setAside?(record: TaskRecord, error: Error): void;
  /** Whether a transaction of the function's own has completed the task. */
  isCompleted(record: TaskRecord): Promise<boolean>;
  /** Reports an error that changes nothing: a hook or a retry policy threw. */
  report(error: unknown, where: string): void;
}
