/** A load of workers and enqueuers, which a scenario kills, pauses or otherwise disturbs. */
import { deepStrictEqual } from "node:assert/strict";
import type { EnqueuerOptions } from "../fixtures/enqueuer.ts";
import type { Child, ChildOptions, Harness, StartOptions } from "../fixtures/harness.ts";
import { audit, type Move } from "./audit.ts";
import { drain, stopAll } from "./drain.ts";
import { type History, historyOf } from "./history.ts";
import { processOf } from "./promises/finder.ts";

export interface LoadOptions {
  workers: number;
  enqueuers: number;
  worker?: ChildOptions;
  enqueuing?: Partial<EnqueuerOptions>;
  /** How its processes are started. */
  how?: () => StartOptions;
}

export class Load {
  readonly workers: Child[] = [];
  readonly enqueuers: Child[] = [];
  /** The processes of killed workers, and when they were killed. */
  readonly killed = new Map<number, number>();
  /** The options that each worker process was started with. */
  readonly hows = new Map<number, StartOptions>();
  readonly #harness: Harness;
  readonly #options: LoadOptions;

  private constructor(harness: Harness, options: LoadOptions) {
    this.#harness = harness;
    this.#options = options;
  }

  /** Creates the audit, and resolves when each worker is ready and the first task has started. */
  static async start(harness: Harness, options: LoadOptions): Promise<Load> {
    await audit(harness.database);
    const load = new Load(harness, options);
    for (let n = 0; n < options.enqueuers; n += 1) load.startEnqueuer();
    await Promise.all(Array.from({ length: options.workers }, () => load.addWorker()));
    await harness.eventLog.until("start");
    return load;
  }

  startEnqueuer(): void {
    const { enqueuing, how } = this.#options;
    const options: EnqueuerOptions = { count: Number.MAX_SAFE_INTEGER, pause: 60, ...enqueuing };
    this.enqueuers.push(this.#harness.start("enqueuer.ts", [options], how?.()));
  }

  /** Does not wait until the worker is ready: it may be killed before. */
  startWorker(): void {
    const { worker = {}, how } = this.#options;
    this.workers.push(this.#harness.start("worker.ts", [worker], how?.()));
  }

  async addWorker(): Promise<Child> {
    const how = this.#options.how?.() ?? {};
    const worker = await this.#harness.worker(this.#options.worker, how);
    this.hows.set(worker.pid, how);
    this.workers.push(worker);
    return worker;
  }

  /** Kills the worker with this pid, or a random one. */
  async killWorker(random: () => number, pid?: number): Promise<Child> {
    const any = Math.floor(this.workers.length * random());
    const index = pid === undefined ? any : this.workers.findIndex((worker) => worker.pid === pid);
    const [victim] = this.workers.splice(index, 1) as [Child];
    this.killed.set(victim.pid, await victim.kill());
    return victim;
  }

  async killEnqueuer(random: () => number): Promise<void> {
    const [victim] = this.enqueuers.splice(Math.floor(this.enqueuers.length * random()), 1) as [Child];
    await victim.kill();
  }

  /** Stops the enqueuers, waits until all tasks have ended, and stops the workers. */
  async drain(): Promise<History> {
    await stopAll(this.enqueuers);
    await drain(this.#harness);
    await stopAll(this.workers);
    return historyOf(this.#harness);
  }

  /** @throws Error when a live worker was rescued */
  demandNoFalseRescue({ moves, entries }: History): void {
    const wronged = moves.filter((move) => isCrash(move) && !this.killed.has(pidOf(move)));
    deepStrictEqual(wronged, [], "only killed workers are rescued");
    const lost = entries.filter(({ what }) => what === "lost");
    deepStrictEqual(lost, [], "no live worker loses a task");
  }
}

/** A rescue: charged, and pending again at once. A failed attempt becomes scheduled, by its backoff. */
export const isCrash = ({ wasStatus, status, wasRetries, retries }: Move): boolean =>
  wasStatus === "running" && status === "pending" && (retries ?? 0) > (wasRetries ?? 0);

/** The process that holds, or held, a task. */
export const pidOf = ({ worker }: Pick<Move, "worker">): number => processOf(worker);
