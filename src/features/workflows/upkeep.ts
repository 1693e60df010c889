/** The job of every worker that ends waits: those whose time is over, and those whose end no process of dbq has written. */

import { performance } from "../../base/runtime/timers.ts";
import type { WithParts } from "../../base/tasks/part.ts";
import { type Job, type JobHost, longestSleep } from "../../worker/periodic-job.ts";
import { nextWaitDue, type WorkflowStore, waitsDue } from "./contract.ts";

/** Waits of one transaction. */
const batch = 200;
/** Milliseconds between two looks for waits that are over without their task having heard of it. */
const repairEvery = 5_000;
/** Waits that one such look reads. */
const repairBatch = 500;

export class WaitUpkeep implements Job {
  readonly name = "ending the waits of workflows";
  readonly #store: WorkflowStore;
  readonly #host: JobHost;
  #repairedAt = performance.now();
  #after = 0;
  /** Whether the last look for due work has found a wait. */
  #hasWaits = false;

  constructor(store: WorkflowStore, host: JobHost) {
    this.#store = store;
    this.#host = host;
  }

  dueIn(found: WithParts): number | undefined {
    this.#hasWaits = waitsDue.of(found) ?? false;
    if (!this.#hasWaits) return undefined;
    const nextWait = nextWaitDue.of(found) ?? Number.POSITIVE_INFINITY;
    return Math.max(0, Math.min(nextWait, this.#repairedAt + repairEvery - performance.now()));
  }

  /** @returns 0 if it has ended waits: there may be more */
  async run(): Promise<number> {
    if (!this.#hasWaits) return longestSleep;
    let ended = await this.#store.endDue(batch);
    if (performance.now() - this.#repairedAt >= repairEvery) ended += await this.#repair();
    if (ended === 0) return repairEvery;
    this.#host.onWork();
    return 0;
  }

  async #repair(): Promise<number> {
    this.#repairedAt = performance.now();
    const { woken, last } = await this.#store.repair(this.#after, repairBatch);
    this.#after = last ?? 0;
    return woken;
  }
}
