/** Decides which workers are dead. */
import { processGlobal } from "../base/runtime/process-globals.ts";
import { isVisible, livenessOf } from "../base/runtime/process-identity.ts";
import { performance } from "../base/runtime/timers.ts";
import type { WorkerRecord } from "../store.ts";
import { type Job, longestSleep } from "./periodic-job.ts";

/** Milliseconds between sweeps. Where a sweep is the first to see a death, its tasks have to run within a second of it. */
export const sweepEvery = 400;

/**
 * Milliseconds in which a suspect has to send a heartbeat, from the moment when writes are known to succeed: a heartbeat that
 * fails is tried again after 20 ms, on a server after 100 at most.
 */
const confirmTimeout = { silent: 200, sessionEnded: 300 };

/** The ids of the workers of this thread that have not stopped. They are alive, since this thread runs. */
export const living = processGlobal("living", () => new Set<string>());

/** The last heartbeat that was seen of a worker. Times are on this process's monotonic clock. */
interface Observation {
  beat: number;
  /** Whether an earlier sweep saw another heartbeat, so that this one came in between. */
  came: boolean;
  /** When the heartbeat was sent, as far as is known. */
  since: number;
  /** Since when writes are known to succeed, so that a living worker could have sent a heartbeat. */
  couldBeatSince: number | undefined;
}

/**
 * Decides which workers are dead: by their process where this process can see it, else by their heartbeat.
 *
 * The time since a heartbeat is measured on this process's monotonic clock; the age by the database's clock only shortens
 * the wait, by an amount that a clock jump cannot falsify. A silent worker is suspected, not yet declared dead: while
 * another transaction has the write lock, or while the machine sleeps, no worker can send a heartbeat. So a write has to
 * succeed first, and a suspect that sends no heartbeat within `confirmTimeout` of it is dead. On a server, a worker is
 * suspected as soon as its session has ended.
 */
export class FailureDetector {
  readonly #now: () => number;
  readonly #seen = new Map<string, Observation>();
  #lastLook = Number.NEGATIVE_INFINITY;
  #nextLook = Number.POSITIVE_INFINITY;
  /** The workers that the last look found alive, and whose processes this one can see. */
  #visible: WorkerRecord[] = [];

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Milliseconds from the last look until the next one may decide more. */
  get nextLook(): number {
    return this.#nextLook;
  }

  /** The number of other processes that `aProcessEnded` looks at. */
  get visible(): number {
    return this.#visible.length;
  }

  /** Whether one of the visible processes has ended since the last look. True once for each. */
  aProcessEnded(): boolean {
    const before = this.#visible.length;
    this.#visible = this.#visible.filter((worker) => livenessOf(worker) !== "dead");
    return this.#visible.length < before;
  }

  /** Judges the workers, and has the suspects confirmed. Returns the dead ones. */
  async findDead(workers: readonly WorkerRecord[], write: () => Promise<unknown>): Promise<WorkerRecord[]> {
    const { dead, suspects } = this.judge(workers);
    await this.confirm(suspects, write);
    return dead;
  }

  /** Says which workers are dead, and which may be. The suspects have to be confirmed before the next call judges them. */
  judge(workers: readonly WorkerRecord[]): { dead: WorkerRecord[]; suspects: WorkerRecord[] } {
    for (const id of this.#seen.keys())
      if (!workers.some((worker) => worker.id === id)) this.#seen.delete(id);
    const others = workers.filter(({ id }) => !living.has(id));
    this.#nextLook = Number.POSITIVE_INFINITY;
    const silent = others.filter((worker) => this.#isSilent(worker));
    this.#lastLook = this.#now();
    const dead = others.filter((worker) => livenessOf(worker) === "dead" || this.#isConfirmed(worker));
    this.#visible = others.filter((worker) => isVisible(worker) && !dead.includes(worker));
    return { dead, suspects: silent.filter((worker) => !dead.includes(worker)) };
  }

  #isSilent(worker: WorkerRecord): boolean {
    const seen = this.#observe(worker);
    // It held a lock that ends with its session: unless it connects again, its process is dead.
    if (worker.sessionLives === false) return true;
    const still = this.#now() - seen.since;
    // A living worker sends a heartbeat every third of its lease, so half a lease of silence has missed one. A heartbeat
    // that came between two looks is not that old, even if the clock has been stepped since.
    const old = !seen.came && worker.heartbeatAge >= worker.lease;
    const needed = old ? worker.lease / 2 : worker.lease;
    if (still >= needed) return true;
    this.#nextLook = Math.min(this.#nextLook, needed - still);
    return false;
  }

  /** A new heartbeat was sent after the look before this one; the database's clock says how long after. */
  #observe({ id, beat, heartbeatAge }: WorkerRecord): Observation {
    const known = this.#seen.get(id);
    if (known?.beat === beat) return known;
    const now = this.#now();
    const longest = known === undefined ? 0 : Math.min(now - this.#lastLook, sweepEvery);
    const since = now - Math.min(Math.max(heartbeatAge, 0), longest);
    const seen = { beat, came: known !== undefined, since, couldBeatSince: undefined };
    this.#seen.set(id, seen);
    return seen;
  }

  #isConfirmed(worker: WorkerRecord): boolean {
    const since = this.#seen.get(worker.id)?.couldBeatSince;
    return since !== undefined && this.#now() - since >= confirmTimeoutOf(worker);
  }

  /**
   * Suspects that send no heartbeat from now on are dead after `confirmTimeout`. `write`: makes a write without effect, and
   * resolves when it has succeeded.
   */
  async confirm(suspects: readonly WorkerRecord[], write: () => Promise<unknown>): Promise<void> {
    if (suspects.length === 0) return;
    await write();
    const now = this.#now();
    for (const worker of suspects) {
      const seen = this.#seen.get(worker.id) as Observation;
      seen.couldBeatSince ??= now;
      this.#nextLook = Math.min(this.#nextLook, confirmTimeoutOf(worker) - (now - seen.couldBeatSince));
    }
  }
}

function confirmTimeoutOf({ sessionLives }: WorkerRecord): number {
  return sessionLives === false ? confirmTimeout.sessionEnded : confirmTimeout.silent;
}

/**
 * Milliseconds between looks whether a visible process has ended, and by how much more for each process: a look at one
 * takes 15 µs, so the looks take less than 1 % of a core.
 *
 * There is no such look for the sessions of workers on other hosts: it would be a query of `pg_locks` ten times a second
 * from each worker, idle or not. The sweeps of several processes come at different moments, and the end of a session has
 * to be confirmed for 300 ms anyway.
 */
export const processesEvery = { least: 100, each: 2 };

/** Asks for a sweep when a process of this host has ended that the last sweep saw. Asks no database. */
export class ProcessWatch implements Job {
  readonly name = "watching the processes of workers";
  readonly #detector: FailureDetector;
  readonly #onEnd: () => void;

  constructor(detector: FailureDetector, onEnd: () => void) {
    this.#detector = detector;
    this.#onEnd = onEnd;
  }

  async run(): Promise<number> {
    if (this.#detector.aProcessEnded()) this.#onEnd();
    const { visible } = this.#detector;
    return visible === 0 ? longestSleep : Math.max(processesEvery.least, processesEvery.each * visible);
  }
}
