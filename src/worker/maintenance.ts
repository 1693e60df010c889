/** What keeps a queue healthy, done by every worker: dead workers' tasks freed, due tasks promoted, old ones pruned. */

import { shared } from "../base/runtime/process-globals.ts";
import { livenessOf } from "../base/runtime/process-identity.ts";
import { inRootContext } from "../base/runtime/root-context.ts";
import type { Retention, Store, WorkerRecord } from "../store.ts";

/** Milliseconds. A death that can be seen is seen at the next sweep; the promise is one second. */
const sweepEvery = 400;
/** While there is no other worker. One that comes is heard of; should that hint be lost, this is how late. */
const lonelySweepEvery = 2_000;
/** What a suspect has to beat in, once it is known that it can: its heartbeat tries every 20 ms, on a server every 100 at most. */
const lastChance = { silent: 200, sessionEnded: 300 };
/** Of a look that was due before it ended. */
const shortestSleep = 20;
const orphansEvery = 5_000;
const pruneEvery = 30_000;
/** No timer runs longer: a clock that jumps, or a hint that is lost, costs at most this. */
const longestSleep = 60_000;

/** Rows in one transaction of upkeep: others wait that long at most. */
const promoteBatch = 500;
const pruneBatch = 500;

/** The workers of this thread that have not stopped: whoever reads this is alive, and so are they. */
const living = shared("living", () => new Set<string>());

export interface UpkeepHost {
  readonly store: Pick<Store, "workers" | "beat" | "rescue" | "rescueOrphans" | "promote" | "prune">;
  readonly workerId: string;
  readonly lease: number;
  readonly retention: Retention;
  /** Tasks became pending. */
  onWork(): void;
  onRescued(workerId: string, tasks: number): void;
  report(error: unknown, where: string): void;
}

export class Upkeep {
  readonly #host: UpkeepHost;
  readonly #deaths: Deaths;
  readonly #chores: Chore[];
  readonly #promotion: Chore;
  readonly #sweeping: Chore;

  constructor(host: UpkeepHost) {
    this.#host = host;
    living.add(host.workerId);
    this.#deaths = new Deaths();
    this.#promotion = this.#chore("promoting due tasks", () => this.#promote());
    this.#sweeping = this.#chore("looking for dead workers", () => this.#sweep());
    this.#chores = [
      this.#sweeping,
      this.#promotion,
      this.#chore("looking for orphaned tasks", () => this.#rescueOrphans()),
      this.#chore("pruning finished tasks", () => this.#prune()),
    ];
  }

  #chore(name: string, run: () => Promise<number>): Chore {
    return new Chore(run, (error) => this.#host.report(error, name));
  }

  start(): void {
    for (const chore of this.#chores) chore.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#chores.map((chore) => chore.stop()));
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
    for (const { id, beat } of await this.#deaths.among(workers, () => store.beat(workerId))) {
      this.#freed(id, await store.rescue(id, beat));
    }
    const usual = workers.some(({ id }) => !living.has(id)) ? sweepEvery : lonelySweepEvery;
    return Math.max(shortestSleep, Math.min(usual, this.#deaths.nextLook));
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

/** What was last seen of a worker. Times are on the clock of the one who looks. */
interface Seen {
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
export class Deaths {
  readonly #now: () => number;
  readonly #seen = new Map<string, Seen>();
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
  async among(workers: readonly WorkerRecord[], write: () => Promise<unknown>): Promise<WorkerRecord[]> {
    for (const id of this.#seen.keys())
      if (!workers.some((worker) => worker.id === id)) this.#seen.delete(id);
    const others = workers.filter(({ id }) => !living.has(id));
    this.#nextLook = Number.POSITIVE_INFINITY;
    const silent = others.filter((worker) => this.#isSilent(worker));
    this.#lastLook = this.#now();
    const dead = others.filter((worker) => livenessOf(worker) === "dead" || this.#hadItsChance(worker));
    const suspects = silent.filter((worker) => !dead.includes(worker));
    if (suspects.length > 0) await this.#suspect(suspects, write);
    return dead;
  }

  #isSilent(worker: WorkerRecord): boolean {
    const seen = this.#look(worker);
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
  #look({ id, beat, heartbeatAge }: WorkerRecord): Seen {
    const known = this.#seen.get(id);
    if (known?.beat === beat) return known;
    const now = this.#now();
    const longest = known === undefined ? 0 : Math.min(now - this.#lastLook, sweepEvery);
    const since = now - Math.min(Math.max(heartbeatAge, 0), longest);
    const seen = { beat, came: known !== undefined, since, couldBeatSince: undefined };
    this.#seen.set(id, seen);
    return seen;
  }

  #hadItsChance(worker: WorkerRecord): boolean {
    const since = this.#seen.get(worker.id)?.couldBeatSince;
    return since !== undefined && this.#now() - since >= chanceOf(worker);
  }

  async #suspect(suspects: readonly WorkerRecord[], write: () => Promise<unknown>): Promise<void> {
    await write();
    const now = this.#now();
    for (const worker of suspects) {
      const seen = this.#seen.get(worker.id) as Seen;
      seen.couldBeatSince ??= now;
      this.#nextLook = Math.min(this.#nextLook, chanceOf(worker) - (now - seen.couldBeatSince));
    }
  }
}

function chanceOf({ sessionLives }: WorkerRecord): number {
  return sessionLives === false ? lastChance.sessionEnded : lastChance.silent;
}

/** Something done again and again, one run at a time: the run says when the next one is due. */
class Chore {
  readonly #run: () => Promise<number>;
  readonly #report: (error: unknown) => void;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #again = false;
  #stopped = true;
  /** Milliseconds until the next run, at most. */
  #longest = Number.POSITIVE_INFINITY;
  /** When the next run is due, on the clock of `performance.now()`. */
  #due = 0;

  constructor(run: () => Promise<number>, report: (error: unknown) => void) {
    this.#run = run;
    this.#report = report;
  }

  start(): void {
    this.#stopped = false;
    this.now();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  /** Runs in this tick's end, or once more after the run that is under way. */
  now(): void {
    if (this.#stopped) return;
    if (this.#running) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    this.#running = inRootContext(() =>
      new Promise((resolve) => setImmediate(resolve)).then(() => this.#once()),
    );
  }

  /** Runs within this many milliseconds, after the run that is under way. */
  within(delay: number): void {
    this.#longest = Math.min(this.#longest, delay);
    if (!this.#stopped && !this.#running && this.#due > performance.now() + delay) this.#runIn(delay);
  }

  #runIn(delay: number): void {
    clearTimeout(this.#timer);
    this.#due = performance.now() + delay;
    this.#timer = setTimeout(() => this.now(), delay).unref();
  }

  async #once(): Promise<void> {
    this.#again = false;
    this.#longest = Number.POSITIVE_INFINITY;
    let next = 1_000;
    try {
      if (!this.#stopped) next = await this.#run();
    } catch (error) {
      this.#report(error);
    }
    this.#running = undefined;
    if (this.#stopped) return;
    if (this.#again) this.now();
    else this.#runIn(Math.min(next, this.#longest));
  }
}
