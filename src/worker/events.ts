/** The events of a worker, and the diagnostics channels that carry the same. */

import { EventEmitter } from "node:events";
import { type Clock, systemClock } from "../base/runtime/clock.ts";
import { toTask } from "../base/values/records.ts";
import { DatabaseMovedError } from "../errors.ts";
import {
  claimedChannel,
  crashedChannel,
  guarded,
  report,
  rescuedChannel,
  settledChannel,
} from "../events.ts";
import type { Crash, Outcome, OutcomeKind } from "../store.ts";
import type { Task, TaskRecord } from "../task.ts";
import { type Meter, meterOutcome } from "./meter.ts";

/** The events of a worker. `started` has the task as it was claimed, the others as its accepted outcome left it. */
export interface WorkerEvents {
  /** An attempt begins. */
  started: [task: Task];
  /** The function returned, and its result is stored. */
  completed: [task: Task];
  /** The attempt failed, and the task will not be retried. Also when the attempt ended with its worker, and this one freed the task. */
  failed: [task: Task];
  /** The attempt failed and will be retried; the same of a task that this worker freed. */
  retrying: [task: Task];
  /** The handler threw `CancelTask`, or `cancelTask` was called in any process during the attempt. */
  cancelled: [task: Task];
  /** The handler threw `SnoozeTask`: the task runs again later, and no retry is charged. */
  snoozed: [task: Task];
  /** The task was handed back: the worker stopped, or the task was claimed ahead and no slot became free in time. */
  interrupted: [task: Task];
  /** The task was purged or rescued during the attempt: the attempt's outcome was not accepted. */
  lost: [task: Task];
  /** This worker declared another one dead and freed its tasks. */
  rescued: [dead: { workerId: string; tasks: number }];
  /**
   * An error that no caller can receive: no task is lost by it. `where` says what dbq was doing. Without a listener it goes
   * to `dbq:error`, or is a process warning.
   */
  error: [error: unknown, where: string];
}

/** The event of each outcome. */
export const eventOf: Readonly<Record<OutcomeKind, keyof WorkerEvents>> = {
  completed: "completed",
  failed: "failed",
  retry: "retrying",
  cancelled: "cancelled",
  snoozed: "snoozed",
  interrupted: "interrupted",
};

/** Publishes a claim that brought tasks. `began`: milliseconds since 1970. */
export function publishClaim(
  { workerId, queueNames }: { workerId: string; queueNames: readonly string[] },
  began: number,
  claimed: readonly TaskRecord[],
): void {
  if (claimed.length === 0 || !claimedChannel.hasSubscribers) return;
  claimedChannel.publish({ tasks: claimed, queueNames, workerId, startedAt: began, endedAt: Date.now() });
}

function publishSettled(record: TaskRecord, kind: OutcomeKind): void {
  if (settledChannel.hasSubscribers) settledChannel.publish({ task: toTask(record), kind, accepted: true });
}

/** Tells the channels and the meter of crashes that a rescue of this process has charged. */
export function publishCrashes(crashes: readonly Crash[], meter: Meter): void {
  for (const { record, outcome } of crashes) {
    meterOutcome(meter, record, outcome, undefined);
    publishSettled(record, outcome.kind);
    if (crashedChannel.hasSubscribers) crashedChannel.publish({ task: toTask(record), kind: outcome.kind });
  }
}

/** A task as the crash of its worker left it, for events. It is due at once if it runs again. */
export const crashedTask = ({ record, outcome }: Crash, clock = systemClock): Task =>
  toTask(settledRecord(record, outcome, clock.now()));

/** A typed emitter. A listener that throws changes nothing for the worker or the other listeners. */
export class WorkerEmitter extends EventEmitter<WorkerEvents> {
  /** Every later call fails with the same error; it is reported once. */
  #databaseMoved: DatabaseMovedError | undefined;

  /** @internal */
  protected reportStarted(record: TaskRecord): void {
    this.#emitTask("started", () => toTask(record));
  }

  /** @internal */
  protected reportSettled(record: TaskRecord, outcome: Outcome, clock: Clock = systemClock): void {
    this.#emitTask(eventOf[outcome.kind], () => toTask(settledRecord(record, outcome, clock.now())));
    publishSettled(record, outcome.kind);
  }

  /** @internal The event of the outcome, by the worker that freed the task of a dead one. */
  protected reportCrash(crash: Crash, clock: Clock = systemClock): void {
    this.#emitTask(eventOf[crash.outcome.kind], () => crashedTask(crash, clock));
  }

  /** @internal `cancelled`: the row, when the task was cancelled during the attempt. */
  protected reportLost(record: TaskRecord, cancelled: TaskRecord | undefined): void {
    const kind = cancelled ? "cancelled" : "lost";
    this.#emitTask(kind, () => toTask(cancelled ?? record));
    if (settledChannel.hasSubscribers)
      settledChannel.publish({ task: toTask(cancelled ?? record), kind, accepted: false });
  }

  /** @internal */
  protected reportRescued(workerId: string, tasks: number): void {
    rescuedChannel.publish({ workerId, tasks });
    this.#emit("rescued", { workerId, tasks });
  }

  /** @internal */
  protected reportError(error: unknown, where: string): void {
    if (error instanceof DatabaseMovedError) {
      if (error === this.#databaseMoved) return;
      this.#databaseMoved = error;
    }
    if (this.listenerCount("error") > 0) this.#emit("error", error, where);
    else report(error, where);
  }

  #emitTask(event: keyof WorkerEvents, task: () => Task): void {
    if (this.listenerCount(event) > 0) this.#emit(event as "completed", task());
  }

  /** A listener that throws is reported, and the other listeners are called. */
  #emit<E extends keyof WorkerEvents>(event: E, ...args: WorkerEvents[E]): void {
    for (const listener of (this as EventEmitter).rawListeners(event)) {
      // A listener of "error" that throws must not cause another "error" event.
      const onError = event === "error" ? report : this.reportError.bind(this);
      guarded(`a listener of the worker's "${event}"`, () => listener.apply(this, args), onError);
    }
  }
}

/** The record as the accepted outcome left its row. `now`: by this process's clock. */
function settledRecord(record: TaskRecord, outcome: Outcome, now: number): TaskRecord {
  const settled = { ...record, generationId: record.generationId + 1, updatedAt: now };
  switch (outcome.kind) {
    case "completed":
      return { ...settled, status: "completed", result: outcome.result, error: null, finishedAt: now };
    case "failed":
    case "cancelled":
      return { ...settled, status: outcome.kind, error: outcome.error, finishedAt: now };
    case "retry":
      return {
        ...settled,
        status: "scheduled",
        error: outcome.error,
        retryCount: record.retryCount + 1,
        waitUntil: now + outcome.delay,
      };
    case "snoozed":
      return { ...settled, status: "scheduled", waitUntil: now + outcome.delay };
    case "interrupted":
      return { ...settled, status: "pending" };
  }
}
