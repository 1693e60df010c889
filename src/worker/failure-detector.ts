/** Decides which workers are dead. */
import { processGlobal } from "../base/runtime/process-globals.ts";
import { livenessOf } from "../base/runtime/process-identity.ts";
import type { WorkerRecord } from "../store.ts";

/** Milliseconds between sweeps. A death that can be seen is seen at the next one; the promise is one second. */
export const sweepEvery = 400;

/** What a suspect has to beat in, once it is known that it can: its heartbeat tries every 20 ms, on a server every 100 at most. */
const confirmTimeout = { silent: 200, sessionEnded: 300 };

/** The workers of this thread that have not stopped: whoever reads this is alive, and so are they. */
export const living = processGlobal("living", () => new Set<string>());

/** What was last seen of a worker. Times are on the clock of the one who looks. */
interface Observation {
  beat: number;
  /** Whether it was seen to come, and not only to be there. */
  came: boolean;
  /** When it beat: it has stood still since. */
  since: number;
  /** Since when it is known that it could beat if it lived. */
  couldBeatSince: number | undefined;
}

/**
 * Tells which workers are dead: by their process where it can be seen, else by their heartbeat.
 *
 * A heartbeat is judged by how long this process has seen it stand still, on a clock that never jumps; its age by the
 * database's clock only shortens the wait, by what cannot be wrong by much. Stillness makes a suspect, not a corpse: while
 * somebody holds the write lock, or the machine sleeps, nobody can beat. So a write has to succeed first, and a suspect
 * who does not beat within `lastChance` of it is dead. On a server, the end of a worker's session makes a suspect at once.
 */
export class FailureDetector {
  readonly #now: () => number;
  readonly #seen = new Map<string, Observation>();
  #lastLook = Number.NEGATIVE_INFINITY;
  #nextLook = Number.POSITIVE_INFINITY;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Milliseconds from the last look until the next one may tell more. */
  get nextLook(): number {
    return this.#nextLook;
  }

  /** `write`: makes a write of no consequence, and resolves when it has happened. */
  async findDead(workers: readonly WorkerRecord[], write: () => Promise<unknown>): Promise<WorkerRecord[]> {
    for (const id of this.#seen.keys())
      if (!workers.some((worker) => worker.id === id)) this.#seen.delete(id);
    const others = workers.filter(({ id }) => !living.has(id));
    this.#nextLook = Number.POSITIVE_INFINITY;
    const silent = others.filter((worker) => this.#isSilent(worker));
    this.#lastLook = this.#now();
    const dead = others.filter((worker) => livenessOf(worker) === "dead" || this.#isConfirmed(worker));
    const suspects = silent.filter((worker) => !dead.includes(worker));
    if (suspects.length > 0) await this.#suspect(suspects, write);
    return dead;
  }

  #isSilent(worker: WorkerRecord): boolean {
    const seen = this.#observe(worker);
    // It held a lock that ends with its session: unless it comes back, its process is dead.
    if (worker.sessionLives === false) return true;
    const still = this.#now() - seen.since;
    // A living worker beats every third of its lease: half a lease of stillness has missed one. A beat that was seen to
    // come is not that old, whatever a clock says that was stepped since.
    const old = !seen.came && worker.heartbeatAge >= worker.lease;
    const needed = old ? worker.lease / 2 : worker.lease;
    if (still >= needed) return true;
    this.#nextLook = Math.min(this.#nextLook, needed - still);
    return false;
  }

  /** A beat that is new came after the look before this one; how much after, the database's clock says. */
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

  async #suspect(suspects: readonly WorkerRecord[], write: () => Promise<unknown>): Promise<void> {
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
