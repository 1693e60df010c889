/** The background work of every worker: it rescues the tasks of dead workers, promotes due tasks and prunes old ones. */
import { type Clock, systemClock } from "../base/runtime/clock.ts";
import { internalsOf } from "../queue/internals.ts";
import type { CoreQueue } from "../queue/queue.ts";
import type { Retention, WorkerStore } from "../store.ts";
import { FailureDetector, living, ProcessWatch, processesEvery, sweepEvery } from "./failure-detector.ts";
import { openJobs } from "./feature.ts";
import type { Running } from "./lifecycle.ts";
import { type Job, type JobHost, PeriodicJob } from "./periodic-job.ts";
import { promotion } from "./promotion.ts";
import { pruning } from "./pruning.ts";
import { orphanRescue, Sweep, type SweepHost } from "./sweep.ts";

export interface MaintenanceHost extends SweepHost, JobHost {
  readonly store: SweepHost["store"] & Pick<WorkerStore, "rescueOrphans" | "promote" | "prune" | "freeKeys">;
  readonly lease: number;
  readonly retention: Retention;
  /** @default the host's */
  readonly clock?: Clock | undefined;
}

/**
 * The maintenance that a worker, a drain or a Manager of this queue runs. Watches do not report our own writes, so local
 * workers and awaits are woken here too.
 * @param jobs run beside the built-in ones and those of features
 */
export function maintenanceOf(
  queue: CoreQueue,
  of: Pick<MaintenanceHost, "workerId" | "lease" | "code" | "onRescued" | "onCrashes" | "report">,
  jobs: readonly Job[] = [],
): Maintenance {
  const { store, wakeups, options } = internalsOf(queue);
  const host: MaintenanceHost = {
    ...of,
    store,
    retention: options.retention,
    clock: options.clock,
    onWork: (hasEnded) => wakeups.workFound(hasEnded),
    onRescued: (dead, tasks) => {
      wakeups.taskEnded();
      of.onRescued(dead, tasks);
    },
  };
  return new Maintenance(host, [...jobs, ...openJobs(queue, host)]);
}

/** Runs a list of jobs. A feature adds its own to the built-in ones by `addFeature`. */
export class Maintenance {
  readonly #host: MaintenanceHost;
  readonly #jobs: PeriodicJob[];
  readonly #promotion: PeriodicJob;
  readonly #sweeping: PeriodicJob;
  /** What the jobs have begun. */
  readonly running: readonly Running[];

  /** @param jobs run beside the built-in ones, from the start of the worker to its stop */
  constructor(host: MaintenanceHost, jobs: readonly Job[] = []) {
    this.#host = host;
    living.add(host.workerId);
    const { clock = systemClock } = host;
    const periodic = (job: Job) => new PeriodicJob(job, (error, name) => host.report(error, name), clock);
    const detector = new FailureDetector(() => clock.monotonic());
    const processes = periodic(new ProcessWatch(detector, () => this.#sweeping.now()));
    this.#sweeping = periodic(new Sweep(host, detector, () => processes.within(processesEvery.least)));
    this.running = jobs.flatMap(({ running }) => running ?? []);
    const others = jobs.map(periodic);
    this.#promotion = periodic(promotion(host, others));
    const upkeep = [orphanRescue(host), pruning(host)].map(periodic);
    this.#jobs = [this.#sweeping, processes, this.#promotion, ...upkeep, ...others];
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
