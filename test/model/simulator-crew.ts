/**
 * The processes of a schedule: starts, stops, kills and uses them, and tracks the promises that they still have to
 * settle.
 */
import { AwaitTimeoutError, Worker } from "../../src/index.ts";
import type { SimulatedProcess, Simulation } from "./simulator.ts";
import { newThread, type Thread } from "./simulator-clock.ts";
import { type DrawnPlan, drawnPlan, job } from "./simulator-tasks.ts";

/** Milliseconds; the shortest lease allowed, for all workers. */
export const lease = 1_000;

/** Milliseconds that a stop may take beyond its grace while calls fail: seven steps of five seconds each. */
const longestStop = 35_000;

/** Milliseconds within which an await must notice an end, whichever notifications it missed. */
const missedAfter = 1_000;

/** Milliseconds that a handler has after its task was taken away; a stop waits for it too. */
const lostHandler = 1_000;

/** The number of consecutive calls of a stop, at most; each takes time in both directions. */
const callsOfStop = 20;

interface Running {
  home: SimulatedProcess;
  worker: Worker;
  concurrency: number;
  stopping: boolean;
  /** Since when it has been running. */
  since: number;
}

/** Promises that must be settled at the end, by description. */
class Owed {
  readonly #open = new Map<number, { what: string; home: SimulatedProcess }>();
  #last = 0;

  add(home: SimulatedProcess, what: string, promise: Promise<unknown>): void {
    this.#last += 1;
    const n = this.#last;
    this.#open.set(n, { what, home });
    const settled = () => this.#open.delete(n);
    promise.then(settled, settled);
  }

  /** A killed process has nothing to settle. */
  open(): string[] {
    return [...this.#open.values()].filter(({ home }) => home.loop.alive).map(({ what }) => what);
  }
}

const outside = newThread("outside");

export class Crew {
  readonly simulation: Simulation;
  readonly owed = new Owed();
  /** The ids of acknowledged tasks. */
  readonly ids: number[] = [];
  readonly #homes: SimulatedProcess[] = [];
  readonly #workers = new Set<Running>();
  #ending = false;
  /** Until when a process was stopped while others ran. */
  readonly #silentUntil = new Map<SimulatedProcess, number>();
  /** The latest time until which any process is stopped or blocked. */
  #heldUntil = 0;

  constructor(simulation: Simulation) {
    this.simulation = simulation;
    simulation.judge.beats = (workerId) => this.#beats(workerId);
  }

  /** Whether a worker sends heartbeats now, and has done so for some time. */
  #beats(workerId: string): boolean {
    const { mayFail, clock } = this.simulation;
    const running = [...this.#workers].find(({ worker }) => worker.id === workerId);
    if (mayFail || !running) return false;
    // Its first heartbeat comes when it runs, which may be long after its row was written.
    const since = Math.max(running.since, this.#silentUntil.get(running.home) ?? 0);
    return since + 2 * lease < clock.now;
  }

  /** Schedules a step, as part of a process or of none. */
  at(delay: number, run: () => void, home?: SimulatedProcess): void {
    this.simulation.clock.after(delay, home?.loop ?? outside, run);
  }

  // ---- queries -------------------------------------------------------------------------------

  /** Until when any process is stopped, blocked or cut off. */
  get troubledUntil(): number {
    const cuts = this.#homes.filter(({ loop }) => loop.alive).map(({ cutUntil }) => cutUntil);
    return Math.max(this.#heldUntil, ...cuts);
  }

  /** A random live process; a new one when there is none. */
  living(): SimulatedProcess {
    const living = this.#homes.filter(({ loop }) => loop.alive);
    return this.simulation.clock.oneOf(living.length > 0 ? living : [this.newHome(0)]);
  }

  /** The live processes with a running worker that is not being stopped. */
  serving(): SimulatedProcess[] {
    return [...new Set([...this.#workers].filter(({ stopping }) => !stopping).map(({ home }) => home))];
  }

  /** The total concurrency of the workers of these processes. */
  slotsOf(homes: readonly SimulatedProcess[]): number {
    const running = [...this.#workers].filter(({ home }) => homes.includes(home));
    return running.reduce((slots, { concurrency }) => slots + concurrency, 0);
  }

  /** The ids of the workers of a process. */
  workersOf(home: SimulatedProcess): string[] {
    return [...this.#workers].filter((running) => running.home === home).map(({ worker }) => worker.id ?? "");
  }

  // ---- processes and their workers -----------------------------------------------------------

  newHome(delay: number): SimulatedProcess {
    const { clock } = this.simulation;
    const home = this.simulation.newProcess(`P${this.#homes.length + 1}`);
    this.#homes.push(home);
    this.at(delay, () => this.startWorker(home), home);
    if (clock.chance(0.2)) this.at(delay, () => this.startWorker(home), home);
    return home;
  }

  startWorker(home: SimulatedProcess): void {
    const { judge, plans, starts, clock } = this.simulation;
    const { queue } = home;
    const concurrency = clock.oneOf([1, 2, 5]);
    const worker = new Worker(queue, {
      lease,
      pollInterval: clock.oneOf([200, 1_000, 5_000]),
      concurrency,
      queueName: ["default", "aside"],
      tasks: [job],
      context: { clock, judge, queue, plans, starts },
    });
    worker.on("error", (error, where) => clock.note(() => `  error while ${where}: ${error}`, home.name));
    this.#tryToStart({ home, worker, concurrency, stopping: false, since: 0 });
  }

  /** Retries, as an app would, until it runs. */
  #tryToStart(running: Running): void {
    const { home, worker } = running;
    const { clock } = this.simulation;
    clock.note("starts a worker", home.name);
    const started = worker.start().then(
      () => {
        running.since = clock.now;
        this.#workers.add(running);
        clock.note(`  runs ${worker.id}`, home.name);
        if (this.#ending) this.#stop(running, 0);
      },
      () => {
        if (!this.#ending) this.at(200, () => this.#tryToStart(running), home);
      },
    );
    this.owed.add(home, `a start in ${home.name}`, started);
  }

  stopWorkers(home: SimulatedProcess, grace: number): void {
    for (const running of this.#workers) if (running.home === home) this.#stop(running, grace);
  }

  #stop(running: Running, grace: number): void {
    const { home, worker } = running;
    if (running.stopping) return;
    running.stopping = true;
    const { clock, judge, conditions, mayFail } = this.simulation;
    clock.note(`stops ${worker.id} with a grace of ${grace} ms`, home.name);
    judge.stopping.add(worker.id ?? "");
    const begun = clock.now;
    const margin = mayFail ? longestStop : lostHandler + 2 * callsOfStop * Math.max(conditions.latency, 5);
    const stopped = worker.stop({ grace }).then(() => {
      this.#workers.delete(running);
      const held = Math.max(0, this.#heldUntil - begun);
      const took = clock.now - begun;
      judge.must(
        took <= grace + margin + held,
        () => `a stop with a grace of ${grace} ms took ${took} ms in ${home.name}`,
      );
    });
    this.owed.add(home, `a stop in ${home.name}`, stopped);
  }

  /** Stops all processes at the end. */
  end(): void {
    if (this.#ending) return;
    this.#ending = true;
    const { clock } = this.simulation;
    for (const running of this.#workers)
      this.at(0, () => this.#stop(running, clock.oneOf([0, 1_000])), running.home);
  }

  get ended(): boolean {
    return this.#ending && this.#workers.size === 0;
  }

  /** Whether a row in `dbq_workers` belongs to a live worker. */
  isAtWork(workerId: string): boolean {
    return [...this.#workers].some(({ worker }) => worker.id === workerId);
  }

  // ---- faults --------------------------------------------------------------------------------

  kill(home: SimulatedProcess): void {
    this.simulation.clock.note("IS KILLED", home.name);
    for (const thread of home.threads) thread.alive = false;
    for (const running of this.#workers) if (running.home === home) this.#workers.delete(running);
  }

  /** The machine sleeps with all processes: after waking, all of them have been silent. */
  sleep(): void {
    const { clock } = this.simulation;
    const ms = clock.between(lease / 2, 5 * lease);
    clock.note(`the machine sleeps for ${ms.toFixed(0)} ms`, "host");
    // A worker that was just silent for another reason, or has just begun, may already be suspected.
    const begun = Array.from(this.#workers, ({ home, since }) => [home, since] as const);
    for (const [home, until] of [...this.#silentUntil, ...begun])
      if (until + 2 * lease > clock.now) this.#silentUntil.set(home, clock.now + ms);
    clock.now += ms;
    this.#heldUntil = Math.max(this.#heldUntil, clock.now);
  }

  /** Cuts a process off from the store for a while. */
  cut(home: SimulatedProcess, ms: number): void {
    const { simulation } = this;
    const until = simulation.clock.now + ms;
    simulation.clock.note(`cannot reach the store until ${until.toFixed(0)}`, home.name);
    simulation.mayFail = true;
    home.cutUntil = until;
  }

  hold(home: SimulatedProcess, threads: readonly Thread[], what: string): void {
    const { clock } = this.simulation;
    const until = clock.now + clock.between(lease / 2, 3 * lease);
    clock.note(`${what} until ${until.toFixed(0)}`, home.name);
    for (const thread of threads) thread.heldUntil = Math.max(thread.heldUntil, until);
    if (threads.includes(home.heart)) this.#silentUntil.set(home, home.heart.heldUntil);
    this.#heldUntil = Math.max(this.#heldUntil, until);
  }

  // ---- enqueuers -----------------------------------------------------------------------------

  /** Enqueues a task, with a random plan unless one is given; `onId` gets its id when it is acknowledged. */
  enqueue(home: SimulatedProcess, given?: DrawnPlan, onId?: (id: number) => void): void {
    const run = () => {
      const { n, call, text } = given ?? drawnPlan(this.simulation.clock, this.simulation.plans);
      this.simulation.clock.note(`enqueues ${text}`);
      const enqueued = home.queue.enqueueTask(call, n);
      this.#acknowledge(
        home,
        enqueued.then((id) => [id]),
      );
      if (onId) enqueued.then(onId, () => undefined);
    };
    this.at(0, run, home);
  }

  enqueueMany(home: SimulatedProcess): void {
    const { clock, plans } = this.simulation;
    const run = () => {
      const drawn = Array.from({ length: 3 }, () => drawnPlan(clock, plans));
      clock.note(`enqueues together ${drawn.map(({ text }) => text).join(", ")}`);
      this.#acknowledge(home, home.queue.enqueueTasks(drawn.map(({ n, call }) => [call, n] as const)));
    };
    this.at(0, run, home);
  }

  #acknowledge(home: SimulatedProcess, enqueued: Promise<readonly number[]>): void {
    const { clock, judge } = this.simulation;
    const done = enqueued.then((ids) => {
      for (const id of ids) judge.acknowledged.add(id);
      this.ids.push(...ids);
      clock.note(`  acknowledged: ${ids.join(", ")}`, home.name);
      if (clock.chance(0.4)) this.#await(home, ids[0] as number);
    });
    this.owed.add(home, `an enqueue in ${home.name}`, done);
  }

  #await(home: SimulatedProcess, id: number): void {
    const { clock, judge } = this.simulation;
    const timeout = clock.oneOf([500, 10_000]);
    const ended = home.queue.awaitTaskCompletion(id, { timeout }).catch((error: unknown) => {
      const known = judge.endedFor(id);
      const missed = error instanceof AwaitTimeoutError && known > missedAfter && !this.simulation.mayFail;
      const excused = this.#heldUntil > clock.now - known - missedAfter;
      judge.must(!missed || excused, () => `task ${id} ended ${known} ms before an await of it gave up`);
    });
    this.owed.add(home, `an await of task ${id} in ${home.name}`, ended);
  }
}
