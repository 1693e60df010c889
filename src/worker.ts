/** The worker: registers itself, keeps its slots filled, and leaves nothing behind when it stops. */
import { randomBytes } from "node:crypto";
import { after, type Timer } from "./durations.ts";
import { thisProcess } from "./host.ts";
import {
  type ReadWorkerOptions,
  readStopOptions,
  readWorkerOptions,
  type StopOptions,
  type WorkerOptions,
} from "./options.ts";
import { engineOf, type Queue, type QueueEngine } from "./queue.ts";
import { registeredNames, registrationOf } from "./registry.ts";
import { Slots } from "./slots.ts";
import { Upkeep } from "./upkeep.ts";
import { WorkerTeller } from "./worker-events.ts";

/** Milliseconds between looks at whether the running tasks are still its own: a cancel is heard of within this. */
const standingsEvery = 400;

/** Milliseconds that a stop goes on trying to write what has ended, once its grace is over and the database fails. */
const lastTries = 5_000;

/** A worker between its start and its stop. */
interface Run {
  id: string;
  slots: Slots;
  upkeep: Upkeep;
  /** What takes the start back, in the order of the start. */
  undo: (() => unknown)[];
  grace: { endsAt: number; timer: Timer | undefined };
}

/**
 * Runs the tasks of one or several queues. It installs no signal handlers: that is the app's business, or the CLI's.
 *
 * Events: see `WorkerEvents`. A listener that throws is reported and changes nothing.
 */
export class Worker<C = unknown> extends WorkerTeller {
  readonly #engine: QueueEngine;
  readonly #options: ReadWorkerOptions;
  #run: Run | undefined;
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  /** @throws TypeError for wrong options; UnregisteredFunctionError for a function of `tasks` that is not registered */
  constructor(queue: Queue, options?: WorkerOptions<C>) {
    super();
    this.#engine = engineOf(queue);
    this.#options = readWorkerOptions(options);
    for (const fn of this.#options.tasks ?? []) registrationOf(fn);
  }

  /** What `worker_id` and `dbq_workers` call it; undefined while it is not running. */
  get id(): string | undefined {
    return this.#run?.id;
  }

  /** How many tasks it is running. */
  get inflight(): number {
    return this.#run?.slots.inflight ?? 0;
  }

  // ---- start ---------------------------------------------------------------------------------

  /** Resolves when it is running; may be called again, also after a stop. @throws DatabaseError, QueueClosedError */
  async start(): Promise<void> {
    await this.#stopping;
    if (this.#run && !this.#starting) return;
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    await this.#starting;
  }

  async #start(): Promise<void> {
    const run = this.#newRun();
    this.#run = run;
    try {
      await this.#begin(run);
    } catch (error) {
      await this.#unwind(run);
      this.#run = undefined;
      throw error;
    }
    run.upkeep.start();
    run.slots.lookForWork();
  }

  #newRun(): Run {
    const id = `${thisProcess().host}:${process.pid}:${randomBytes(4).toString("hex")}`;
    const slots = this.#newSlots(id);
    return {
      id,
      slots,
      upkeep: this.#newUpkeep(id, slots),
      undo: [],
      grace: { endsAt: Number.POSITIVE_INFINITY, timer: undefined },
    };
  }

  #newSlots(workerId: string): Slots {
    const { store, hints, options } = this.#engine;
    const { concurrency, queueName, context } = this.#options;
    return new Slots({
      store,
      hints,
      workerId,
      queueNames: queueName,
      concurrency,
      context,
      maxPayload: options.maxPayload,
      funcs: () => this.#funcs(),
      onDeclaredDead: () => this.#onDeclaredDead(),
      tellStarted: (record) => this.tellStarted(record),
      tellSettled: (record, outcome) => this.tellSettled(record, outcome),
      tellError: (error, where) => this.tellError(error, where),
    });
  }

  #newUpkeep(workerId: string, slots: Slots): Upkeep {
    const { store, options } = this.#engine;
    return new Upkeep({
      store,
      workerId,
      lease: this.#options.lease,
      retention: options.retention,
      onWork: () => slots.lookForWork(),
      onRescued: (dead, tasks) => this.tellRescued(dead, tasks),
      report: (error, where) => this.tellError(error, where),
    });
  }

  async #begin({ id, slots, upkeep, undo, grace }: Run): Promise<void> {
    const { store, hints, beforeClose } = this.#engine;
    const { lease, pollInterval } = this.#options;
    undo.push(() => upkeep.stop());
    await this.#register(id);
    undo.push(() => store.unregister(id));
    undo.push(await store.keepAlive(id, lease / 3, () => this.#onDeclaredDead()));
    undo.push(repeat(pollInterval, () => slots.lookForWork()));
    undo.push(repeat(standingsEvery, () => slots.checkStandings()));
    const onChange = () => {
      slots.lookForWork();
      upkeep.lookForDue();
    };
    undo.push(
      hints.onWork(onChange),
      hints.onEnded((ids) => slots.checkStandings(ids)),
      store.watch(onChange),
    );
    const stop = () => this.stop({ grace: 0 });
    beforeClose.add(stop);
    undo.push(() => beforeClose.delete(stop));
    undo.push(() => grace.timer?.clear());
  }

  async #register(id: string): Promise<void> {
    const { queueName, concurrency, lease } = this.#options;
    await this.#engine.store.register({ id, queueNames: queueName, concurrency, lease, ...thisProcess() });
  }

  /** The functions may have been registered after the worker was started. */
  #funcs(): readonly string[] {
    const { tasks } = this.#options;
    return tasks ? tasks.map((fn) => registrationOf(fn).definition.name) : registeredNames();
  }

  /** Others have taken its tasks, and deleted its row: it goes on under the same name, with what is left. */
  async #onDeclaredDead(): Promise<void> {
    const run = this.#run;
    if (!run || this.#stopping) return;
    try {
      await run.slots.checkStandings();
      const known = await this.#engine.store.workers();
      if (!known.some(({ id }) => id === run.id) && !this.#stopping) await this.#register(run.id);
      run.slots.lookForWork();
    } catch (error) {
      this.tellError(error, "registering the worker again");
    }
  }

  // ---- stop ----------------------------------------------------------------------------------

  /**
   * Claims nothing more, and resolves when what was running has ended. What has not after `grace` is handed back at once,
   * uncharged, its signal aborted. May be called again with a shorter `grace`, which then counts.
   */
  async stop(options?: StopOptions): Promise<void> {
    const { grace } = readStopOptions(options);
    await this.#starting?.catch(() => undefined);
    if (!this.#run) return;
    this.#run.slots.stopClaiming();
    this.#shortenGrace(this.#run, grace);
    this.#stopping ??= this.#stop(this.#run).finally(() => {
      this.#stopping = undefined;
    });
    await this.#stopping;
  }

  #shortenGrace({ slots, grace }: Run, ms: number): void {
    const endsAt = performance.now() + ms;
    if (endsAt >= grace.endsAt) return;
    grace.endsAt = endsAt;
    grace.timer?.clear();
    const end = () => {
      slots.interrupt();
      grace.timer = after(lastTries, () => slots.abandon());
    };
    if (ms === 0) end();
    else grace.timer = after(ms, end);
  }

  async #stop(run: Run): Promise<void> {
    await run.slots.drained();
    await this.#unwind(run);
    this.#run = undefined;
  }

  async #unwind({ undo }: Run): Promise<void> {
    for (const step of undo.splice(0).reverse()) {
      try {
        await step();
      } catch (error) {
        this.tellError(error, "stopping the worker");
      }
    }
  }

  // ---- idle ----------------------------------------------------------------------------------

  /** Resolves when nothing of its queues is pending or running, in any process; what is scheduled does not count. */
  async idle(): Promise<void> {
    const { store } = this.#engine;
    while (this.inflight > 0 || !(await store.idle(this.#options.queueName))) {
      await (this.#run?.slots.turnEnd(idlePoll) ?? new Promise((resolve) => setTimeout(resolve, idlePoll)));
    }
  }
}

/** Milliseconds between looks at work that other processes do. */
const idlePoll = 100;

/** Returns what stops it. */
function repeat(every: number, fn: () => unknown): () => void {
  const timer = setInterval(fn, every);
  return () => clearInterval(timer);
}
