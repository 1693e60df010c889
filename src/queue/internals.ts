/** The package-private part of a queue, which the workers of its process share. */

import { show } from "../base/options/durations.ts";
import type { ReadQueueOptions } from "../base/options/options.ts";
import { processGlobal } from "../base/runtime/process-globals.ts";
import type { FullStore } from "../features/store.ts";
import type {
  Cause,
  CauseChange,
  CauseThresholdChanges,
  ReadCauseThresholds,
  WatchCausesOptions,
} from "./causes.ts";
import type { Prepared } from "./enqueue.ts";
import type { Failure, FailureOptions } from "./failures.ts";
import type { Health, HealthLook } from "./health.ts";
import type { ReencryptOptions, ReencryptResult } from "./reencrypt.ts";
import type { ScheduleFeature } from "./schedules.ts";
import type { FunctionStats, FunctionStatsFilter, StatsOptions, StatsPoint } from "./stats.ts";
import type { Wakeups } from "./wakeups.ts";
import type { TasksEvent, WatchTasksOptions } from "./watch-tasks.ts";
import type { WorkflowFeature } from "./workflows.ts";

/** What methods of a queue do that features have. `addFeature` in `src/worker/feature.ts` sets them. */
export interface QueueMethods {
  health(): Promise<Health>;
  /** The same, with what it has counted of pending tasks. */
  healthLook(): Promise<HealthLook>;
  stats(options?: StatsOptions): Promise<StatsPoint[]>;
  /**
   * The same queue over connections of its own, which write nothing: for people who look. A `Queue`, whose `close` leaves this
   * one open. @throws DatabaseError
   */
  reader(): Promise<object>;
  /** The same queue over another store of its database: a `Queue`, which is not closed. */
  over(store: FullStore): object;
  watchTasks(options?: WatchTasksOptions): AsyncGenerator<TasksEvent, void, undefined>;
  functionStats(filter?: FunctionStatsFilter): Promise<FunctionStats[]>;
  listFailures(options?: FailureOptions): Promise<Failure[]>;
  listCauses(): Promise<Cause[]>;
  watchCauses(options: WatchCausesOptions): AsyncGenerator<CauseChange, void, undefined>;
  causeThresholds(): Promise<ReadCauseThresholds>;
  setCauseThresholds(changes: CauseThresholdChanges): Promise<ReadCauseThresholds>;
  /** The metrics as Prometheus reads them. @throws TypeError without the package prom-client; DatabaseError */
  metrics(): Promise<string>;
  reencrypt(options?: ReencryptOptions): Promise<ReencryptResult>;
  /** `schedule` and its relatives. */
  readonly schedules: ScheduleFeature;
  /** `emitEvent` and its relatives. */
  readonly workflows: WorkflowFeature;
}

export interface QueueInternals {
  readonly store: FullStore;
  readonly wakeups: Wakeups;
  readonly options: ReadQueueOptions;
  /** Called when the queue closes, before its store is closed. */
  readonly beforeClose: Set<() => Promise<void>>;
  readonly methods: Partial<QueueMethods>;
  /** The features that have joined. Their type is the workers', whom this layer does not know. */
  readonly features: object[];
  /** @throws QueueClosedError */
  checkOpen(): void;
  /** Writes a task that was encoded before the queue was opened. @throws as `Queue.enqueueTask` */
  enqueue(prepared: Prepared): Promise<number>;
}

const internalsByQueue = processGlobal("engines", () => new WeakMap<object, QueueInternals>());

export function setInternals(queue: object, internals: QueueInternals): void {
  internalsByQueue.set(queue, internals);
}

/** The internals of a `Queue`, whose type is not named here, since `queue.ts` imports this file. @throws TypeError for other values */
export function internalsOf(queue: unknown): QueueInternals {
  // Callers without type checking may pass any value.
  const internals = typeof queue === "object" && queue !== null ? internalsByQueue.get(queue) : undefined;
  const advice = queue instanceof Promise ? ": await it first" : "";
  if (internals === undefined)
    throw new TypeError(`expected a Queue, as openQueue() gives it, got ${show(queue)}${advice}`);
  return internals;
}
