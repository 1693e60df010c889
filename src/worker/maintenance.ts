/** What keeps a queue healthy, done by every worker: dead workers' tasks freed, due tasks promoted, old ones pruned. */

import type { Retention, Store } from "../store.ts";
import { FailureDetector, living, sweepEvery } from "./failure-detector.ts";
import { PeriodicJob } from "./periodic-job.ts";

/** While there is no other worker. One that comes is heard of; should that hint be lost, this is how late. */
const sweepAloneEvery = 2_000;
/** Of a look that was due before it ended. */
const shortestSleep = 20;
const orphansEvery = 5_000;
const pruneEvery = 30_000;
/** No timer runs longer: a clock that jumps, or a hint that is lost, costs at most this. */
const longestSleep = 60_000;

/** Rows in one transaction of upkeep: others wait that long at most. */
const promoteBatch = 500;
const pruneBatch = 500;

export interface MaintenanceHost {
  readonly store: Pick<Store, "workers" | "heartbeat" | "rescue" | "rescueOrphans" | "promote" | "prune">;
  readonly workerId: string;
  readonly lease: number;
  readonly retention: Retention;
  /** Tasks became pending. */
  onWork(): void;
  onRescued(workerId: string, tasks: number): void;
  report(error: unknown, where: string): void;
}

export class Maintenance {
  readonly #host: MaintenanceHost;
  readonly #failureDetector: FailureDetector;
  readonly #jobs: PeriodicJob[];
  readonly #promotion: PeriodicJob;
  readonly #sweeping: PeriodicJob;

  constructor(host: MaintenanceHost) {
    this.#host = host;
    living.add(host.workerId);
    this.#failureDetector = new FailureDetector();
    this.#promotion = this.#job("promoting due tasks", () => this.#promote());
    this.#sweeping = this.#job("looking for dead workers", () => this.#sweep());
    this.#jobs = [
      this.#sweeping,
      this.#promotion,
      this.#job("looking for orphaned tasks", () => this.#rescueOrphans()),
      this.#job("pruning finished tasks", () => this.#prune()),
    ];
  }

  #job(name: string, run: () => Promise<number>): PeriodicJob {
    return new PeriodicJob(run, (error) => this.#host.report(error, name));
  }

  start(): void {
    for (const chore of this.#jobs) chore.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#jobs.map((chore) => chore.stop()));
    living.delete(this.#host.workerId);
  }

  /** A task was put off: it may be due sooner than the next one known. */
  lookForDue(): void {
    this.#promotion.now();
  }

  /** Something was written elsewhere: a task may be put off, and a worker may have come. */
  lookAround(): void {
    this.lookForDue();
    this.#sweeping.within(sweepEvery);
  }

  async #sweep(): Promise<number> {
    const { store, workerId } = this.#host;
    const workers = await store.workers();
    for (const { id, beat } of await this.#failureDetector.findDead(workers, () =>
      store.heartbeat(workerId),
    )) {
      this.#freed(id, await store.rescue(id, beat));
    }
    const usual = workers.some(({ id }) => !living.has(id)) ? sweepEvery : sweepAloneEvery;
    return Math.max(shortestSleep, Math.min(usual, this.#failureDetector.nextLook));
  }

  async #rescueOrphans(): Promise<number> {
    const { store, lease } = this.#host;
    this.#freed("unknown", await store.rescueOrphans(lease));
    return orphansEvery;
  }

  #freed(workerId: string, tasks: number): void {
    if (tasks === 0) return;
    this.#host.onRescued(workerId, tasks);
    this.#host.onWork();
  }

  async #promote(): Promise<number> {
    const { promoted, nextDue } = await this.#host.store.promote(promoteBatch);
    if (promoted > 0) this.#host.onWork();
    return Math.min(nextDue ?? longestSleep, longestSleep);
  }

  async #prune(): Promise<number> {
    const removed = await this.#host.store.prune(this.#host.retention, pruneBatch);
    return removed < pruneBatch ? pruneEvery : 0;
  }
}
