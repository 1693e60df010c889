/** The background work of every worker: it rescues the tasks of dead workers, promotes due tasks and prunes old ones. */
import type { Retention, WorkerRecord, WorkerStore } from "../store.ts";
import { FailureDetector, living, ProcessWatch, processesEvery, sweepEvery } from "./failure-detector.ts";
import { type Job, longestSleep, PeriodicJob } from "./periodic-job.ts";

/** Milliseconds between sweeps while there is no other worker. A change notification tells of a new one sooner. */
const sweepAloneEvery = 2_000;
/** The least number of milliseconds between sweeps, when the failure detector asks for one at once. */
const shortestSleep = 20;
/** Milliseconds until the next sweep when another process was rescuing a dead worker: it may die before it has finished. */
const busySweepAfter = 100;
/**
 * Dead workers that one process rescues at once. One after the other, the next sweep waited for all of them; more would
 * take the connections of the pool from the claims.
 */
const rescuesAtOnce = 2;

const orphansEvery = 5_000;
const pruneEvery = 30_000;

/** Tasks that one transaction promotes or prunes: other transactions wait that long at most. */
export const promoteBatch = 500;
const pruneBatch = 500;

export interface MaintenanceHost {
  readonly store: Pick<
    WorkerStore,
    "workers" | "heartbeat" | "rescue" | "rescueOrphans" | "promote" | "prune"
  >;
  readonly workerId: string;
  readonly lease: number;
  readonly retention: Retention;
  /** Tasks became pending. */
  onWork(): void;
  onRescued(workerId: string, tasks: number): void;
  report(error: unknown, where: string): void;
}

/** Runs a list of jobs. A feature adds its own to the built-in ones by `addJob`. */
export class Maintenance {
  readonly #host: MaintenanceHost;
  readonly #jobs: PeriodicJob[];
  readonly #promotion: PeriodicJob;
  readonly #sweeping: PeriodicJob;

  /** @param jobs run beside the built-in ones, from the start of the worker to its stop */
  constructor(host: MaintenanceHost, jobs: readonly Job[] = []) {
    this.#host = host;
    living.add(host.workerId);
    const periodic = (job: Job) => new PeriodicJob(job, (error, name) => host.report(error, name));
    const detector = new FailureDetector();
    const processes = periodic(new ProcessWatch(detector, () => this.#sweeping.now()));
    this.#sweeping = periodic(new Sweep(host, detector, () => processes.within(processesEvery.least)));
    this.#promotion = periodic(promotion(host));
    this.#jobs = [
      this.#sweeping,
      processes,
      this.#promotion,
      ...[orphanRescue(host), pruning(host), ...jobs].map(periodic),
    ];
  }

  start(): void {
    for (const job of this.#jobs) job.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#jobs.map((job) => job.stop()));
    living.delete(this.#host.workerId);
  }

  /** A task was scheduled: it may be due sooner than the next one known. */
  lookForDue(): void {
    this.#promotion.now();
  }

  /** Another process has written: it may have scheduled a task, or registered a worker. */
  lookAround(): void {
    this.lookForDue();
    this.#sweeping.within(sweepEvery);
  }
}

/** Finds dead workers and rescues their tasks. */
class Sweep implements Job {
  readonly name = "looking for dead workers";
  readonly #host: MaintenanceHost;
  readonly #detector: FailureDetector;
  readonly #onSwept: () => void;

  constructor(host: MaintenanceHost, detector: FailureDetector, onSwept: () => void) {
    this.#host = host;
    this.#detector = detector;
    this.#onSwept = onSwept;
  }

  async run(): Promise<number> {
    const { store, workerId } = this.#host;
    const workers = await store.workers();
    const { dead, suspects } = this.#detector.judge(workers);
    this.#onSwept();
    // At the same time: under load, the write that the suspects need takes as long as a rescue.
    const rescuing = this.#rescueAll(dead);
    try {
      await this.#detector.confirm(suspects, () => store.heartbeat(workerId));
    } finally {
      await rescuing;
    }
    const usual = workers.some(({ id }) => !living.has(id)) ? sweepEvery : sweepAloneEvery;
    const longest = (await rescuing) ? busySweepAfter : usual;
    return Math.max(shortestSleep, Math.min(longest, this.#detector.nextLook));
  }

  /** @returns whether another process is rescuing one of them */
  async #rescueAll(dead: readonly WorkerRecord[]): Promise<boolean> {
    const left = [...dead];
    let busy = false;
    const rescueSome = async () => {
      for (let next = left.shift(); next; next = left.shift()) if (await this.#rescue(next)) busy = true;
    };
    await Promise.all(Array.from({ length: rescuesAtOnce }, rescueSome));
    return busy;
  }

  /** Never throws: the other dead workers are rescued all the same. */
  async #rescue({ id, beat }: WorkerRecord): Promise<boolean> {
    try {
      const freed = await this.#host.store.rescue(id, beat);
      if (freed === "busy") return true;
      announce(this.#host, id, freed);
    } catch (error) {
      this.#host.report(error, this.name);
    }
    return false;
  }
}

const orphanRescue = (host: MaintenanceHost): Job => ({
  name: "looking for orphaned tasks",
  async run() {
    announce(host, "unknown", await host.store.rescueOrphans(host.lease));
    return orphansEvery;
  },
});

function announce(host: MaintenanceHost, workerId: string, tasks: number): void {
  if (tasks === 0) return;
  host.onRescued(workerId, tasks);
  host.onWork();
}

const promotion = (host: MaintenanceHost): Job => ({
  name: "promoting due tasks",
  async run() {
    const { promoted, nextDue } = await host.store.promote(promoteBatch);
    if (promoted > 0) host.onWork();
    return Math.min(nextDue ?? longestSleep, longestSleep);
  },
});

const pruning = ({ store, retention }: MaintenanceHost): Job => ({
  name: "pruning finished tasks",
  async run() {
    const removed = await store.prune(retention, pruneBatch);
    return removed < pruneBatch ? pruneEvery : 0;
  },
});
