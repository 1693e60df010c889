/** What a worker tells of: its events, and the same on the diagnostics channels. */
import { EventEmitter } from "node:events";
import { toTask } from "../base/values/records.ts";
import { DatabaseMovedError } from "../errors.ts";
import { guarded, report, rescuedChannel, settledChannel } from "../events.ts";
import type { Outcome, OutcomeKind } from "../store.ts";
import type { Task, TaskRecord } from "../task.ts";

/** The events of a worker: what the task was when it began, or the outcome that was accepted for it. */
export interface WorkerEvents {
  started: [task: Task];
  completed: [task: Task];
  failed: [task: Task];
  /** It failed, and will be tried again. */
  retrying: [task: Task];
  cancelled: [task: Task];
  snoozed: [task: Task];
  /** Handed back: the worker stopped first, or it was claimed ahead and found no slot, and never started. */
  interrupted: [task: Task];
  /** Somebody else had moved the task: what this worker did no longer counted. */
  lost: [task: Task];
  /** This worker found another one dead, and freed its tasks. */
  rescued: [dead: { workerId: string; tasks: number }];
  /** Something failed that no caller can be told of. Nothing is lost by it. Without a listener it is a process warning. */
  error: [error: unknown, where: string];
}

/** What each outcome is told as. */
export const eventOf: Readonly<Record<OutcomeKind, keyof WorkerEvents>> = {
  completed: "completed",
  failed: "failed",
  retry: "retrying",
  cancelled: "cancelled",
  snoozed: "snoozed",
  interrupted: "interrupted",
};

/** A typed emitter whose listeners cannot hurt it. */
export class WorkerEmitter extends EventEmitter<WorkerEvents> {
  /** What every later step fails of too is told once. */
  #moved: DatabaseMovedError | undefined;

  /** @internal */
  protected reportStarted(record: TaskRecord): void {
    this.#emitTask("started", () => toTask(record));
  }

  /** @internal Without an outcome, the task was lost. */
  protected reportSettled(record: TaskRecord, outcome: Outcome | undefined): void {
    const event = outcome ? eventOf[outcome.kind] : "lost";
    this.#emitTask(event, () => toTask(outcome ? settledRecord(record, outcome) : record));
    if (settledChannel.hasSubscribers) {
      settledChannel.publish({
        task: toTask(record),
        kind: outcome?.kind ?? "lost",
        accepted: outcome !== undefined,
      });
    }
  }

  /** @internal */
  protected reportRescued(workerId: string, tasks: number): void {
    rescuedChannel.publish({ workerId, tasks });
    this.#emit("rescued", { workerId, tasks });
  }

  /** @internal */
  protected reportError(error: unknown, where: string): void {
    if (error instanceof DatabaseMovedError) {
      if (error === this.#moved) return;
      this.#moved = error;
    }
    if (this.listenerCount("error") > 0) this.#emit("error", error, where);
    else report(error, where);
  }

  #emitTask(event: keyof WorkerEvents, task: () => Task): void {
    if (this.listenerCount(event) > 0) this.#emit(event as "completed", task());
  }

  /** A listener that throws is reported, and hurts nobody: the other listeners neither. */
  #emit<E extends keyof WorkerEvents>(event: E, ...args: WorkerEvents[E]): void {
    for (const listener of (this as EventEmitter).rawListeners(event)) {
      const tell = event === "error" ? report : this.reportError.bind(this);
      guarded(`a listener of the worker's "${event}"`, () => listener.apply(this, args), tell);
    }
  }
}

/** The record as an accepted outcome left it, by this process's clock. */
function settledRecord(record: TaskRecord, outcome: Outcome): TaskRecord {
  const now = Date.now();
  const moved = { ...record, generationId: record.generationId + 1, updatedAt: now };
  switch (outcome.kind) {
    case "completed":
      return { ...moved, status: "completed", result: outcome.result, error: null, finishedAt: now };
    case "failed":
    case "cancelled":
      return { ...moved, status: outcome.kind, error: outcome.error, finishedAt: now };
    case "retry":
      return {
        ...moved,
        status: "scheduled",
        error: outcome.error,
        retryCount: record.retryCount + 1,
        waitUntil: now + outcome.delay,
      };
    case "snoozed":
      return { ...moved, status: "scheduled", waitUntil: now + outcome.delay };
    case "interrupted":
      return { ...moved, status: "pending" };
  }
}
