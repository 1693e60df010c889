/**
 * A worker without timers: it makes a Worker's calls to the store one at a time, so that each process runs the same
 * statements in the same order. It writes the same events to the event log as a real worker in these tests.
 */

import { thisProcess } from "../../../src/base/runtime/process-identity.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import type { FullStore } from "../../../src/features/store.ts";
import type { CallOptions, Queue } from "../../../src/index.ts";
import type { Outcome, OutcomeKind } from "../../../src/store.ts";
import type { TaskRecord } from "../../../src/task.ts";
import { eventOf } from "../../../src/worker/events.ts";
import { chore, type Plan } from "../../fixtures/tasks.ts";
import type { LogEvent } from "./operation.ts";

export const storeOf = (queue: Queue): FullStore => internalsOf(queue).store;

export class ManualWorker {
  readonly id: string;
  readonly store: FullStore;
  readonly #pid: number;
  readonly #queue: Queue;
  readonly #log: LogEvent;

  /** Runs as this process, or as one that is dead. */
  constructor(name: string, queue: Queue, log: LogEvent, pid = process.pid) {
    this.id = `${thisProcess().host}:${pid}:${name}`;
    this.#pid = pid;
    this.store = storeOf(queue);
    this.#queue = queue;
    this.#log = log;
  }

  async register(): Promise<void> {
    const worker = { id: this.id, queueNames: ["default"], concurrency: 16, lease: 60_000 };
    await this.store.register({ ...worker, ...thisProcess(), pid: this.#pid });
  }

  async claim(limit: number): Promise<TaskRecord[]> {
    return await this.turn([], limit);
  }

  /** Enqueues tasks of a higher priority, and claims them. */
  async hold(count: number, plan: Plan = "return", options: CallOptions = {}): Promise<TaskRecord[]> {
    const first = chore.with({ priority: 9, ...options });
    await this.#queue.enqueueTasks(Array.from({ length: count }, () => [first, 0, plan] as const));
    return await this.claim(count);
  }

  async turn(outcomes: readonly Outcome[], limit: number): Promise<TaskRecord[]> {
    const claim =
      limit > 0 ? { workerId: this.id, queueNames: ["default"], funcs: ["chore"], limit } : undefined;
    const { settled, claimed } = await this.store.settleAndClaim({ outcomes, claim });
    for (const [i, outcome] of outcomes.entries()) {
      if (settled[i] !== true) throw new Error(`the outcome of task ${outcome.id} was not accepted`);
      this.logOutcome(outcome);
    }
    for (const { id, generationId } of claimed)
      this.#log("start", { task: id, generation: generationId, pid: this.#pid });
    return claimed;
  }

  /** Logs that an outcome was accepted. */
  logOutcome({ kind, id, generationId }: Outcome): void {
    this.#log(eventOf[kind], { task: id, generation: generationId + 1 });
  }
}

const delay = 20;

/** The outcome of one attempt of a task. */
export function outcome(record: TaskRecord, kind: OutcomeKind, result = '"by hand"'): Outcome {
  const { id, generationId, workerId, startedAt } = record;
  const held = { id, generationId, workerId, startedAt };
  const [errorName, errorMessage] = ["Error", "as planned"];
  const error = JSON.stringify({ name: errorName, message: errorMessage });
  const attempt = { outcome: "failed" as const, errorName, errorMessage, errorStack: null, errorCause: null };
  switch (kind) {
    case "completed":
      return { ...held, kind, result };
    case "failed":
      return { ...held, kind, error, attempt };
    case "cancelled":
      return { ...held, kind, error, attempt: { ...attempt, outcome: kind } };
    case "retry":
      return { ...held, kind, error, attempt, delay };
    case "snoozed":
      return { ...held, kind, delay };
    case "interrupted":
      return { ...held, kind };
  }
}
