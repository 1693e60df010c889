/** The sweep: finds dead workers, and rescues their tasks. */
import type { Crash, WorkerRecord, WorkerStore } from "../store.ts";
import { type FailureDetector, living, sweepEvery } from "./failure-detector.ts";
import type { Job } from "./periodic-job.ts";
import { KeptTasks } from "./pruning.ts";

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

/** What the database may refuse, as a report names it. */
const refused = "free";

export interface SweepHost {
  readonly store: Pick<WorkerStore, "workers" | "heartbeat" | "rescue">;
  readonly workerId: string;
  /** Tasks became pending, or may have room under a limit. */
  onWork(hasEnded?: boolean): void;
  onRescued(workerId: string, tasks: number): void;
  /** These tasks were charged with the crash of their worker. */
  readonly onCrashes?: ((crashes: readonly Crash[]) => void) | undefined;
  report(error: unknown, where: string): void;
}

/** Finds dead workers and rescues their tasks. */
export class Sweep implements Job {
  readonly name = "looking for dead workers";
  readonly #host: SweepHost;
  readonly #detector: FailureDetector;
  readonly #onSwept: () => void;
  readonly #kept: KeptTasks;

  constructor(host: SweepHost, detector: FailureDetector, onSwept: () => void) {
    this.#host = host;
    this.#detector = detector;
    this.#onSwept = onSwept;
    this.#kept = new KeptTasks((error) => host.report(error, this.name), refused);
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
      const { store, onCrashes } = this.#host;
      const freed = await store.rescue(id, beat, undefined, onCrashes, this.#kept.add);
      this.#kept.tell();
      if (freed === "busy") return true;
      // It may have freed a place under a limit and died before it could notify anyone.
      if (freed === 0) this.#host.onWork();
      else announce(this.#host, id, freed);
    } catch (error) {
      this.#host.report(error, this.name);
    }
    return false;
  }
}

/** Frees tasks that run under workers without a row. */
export const orphanRescue = (
  host: SweepHost & { readonly store: Pick<WorkerStore, "rescueOrphans">; readonly lease: number },
): Job => {
  const name = "looking for orphaned tasks";
  const kept = new KeptTasks((error) => host.report(error, name), refused);
  return {
    name,
    async run() {
      announce(host, "unknown", await host.store.rescueOrphans(host.lease, host.onCrashes, kept.add));
      kept.tell();
      return orphansEvery;
    },
  };
};

/** Reports a rescue, if it freed tasks. */
function announce(host: SweepHost, workerId: string, tasks: number): void {
  if (tasks === 0) return;
  host.onRescued(workerId, tasks);
  host.onWork();
}
