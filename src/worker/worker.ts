/** The worker: registers itself, keeps its slots filled, and leaves nothing behind when it stops. */
import { randomBytes } from "node:crypto";
import { after, limited, repeat, type Timer } from "../base/options/durations.ts";
import {
  type ReadWorkerOptions,
  readStopOptions,
  readWorkerOptions,
  type StopOptions,
  type WorkerOptions,
} from "../base/options/options.ts";
import { thisProcess } from "../base/runtime/process-identity.ts";
import { registeredNames, registrationOf, type TaskDefinition } from "../base/tasks/registry.ts";
import { engineOf, type QueueEngine } from "../queue/internals.ts";
import type { Queue } from "../queue/queue.ts";
import { Ears } from "./change-listener.ts";
import { Slots } from "./dispatcher.ts";
import { WorkerTeller } from "./events.ts";
import { Upkeep } from "./maintenance.ts";

/** Milliseconds that a stop goes on trying to write what has ended, once its grace is over and the database fails. */
const lastTries = 5_000;

/** Milliseconds after a failed try to register anew. */
const registerAgain = 1_000;

/** A worker between its start and its stop. */
interface Run {
  id: string;
  slots: Slots;
  ears: Ears;
  upkeep: Upkeep;
  /** What takes the start back, in the order of the start. */
  undo: (() => unknown)[];
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
  /** Starts and stops happen one after the other, in the order of their calls; this is the last of them. */
  #last: { kind: "start" | "stop"; done: Promise<void>; over: boolean } = stopped();
  /** When the grace of the stop that was asked for ends, on the clock of `performance.now()`. */
  #graceEnds = Number.POSITIVE_INFINITY;
  #graceTimer: Timer | undefined;
  #registering = false;

  /** @throws TypeError for wrong options; UnregisteredFunctionError for a function of `tasks` that is not registered */
  constructor(queue: Queue, options?: WorkerOptions<C>) {
    super();
    this.#engine = engineOf(queue);
    this.#options = readWorkerOptions(options);
    for (const fn of this.#options.tasks ?? []) refuseRemote(registrationOf(fn).definition);
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

  /**
   * Resolves when it is running. May be called again, also after a stop, which it waits for.
   * @throws DatabaseError, QueueClosedError
   */
  start(): Promise<void> {
    return this.#next("start", () => this.#start());
  }

  /** A call that asks for what was asked for last is that same call. */
  #next(kind: "start" | "stop", act: () => Promise<void>): Promise<void> {
    if (this.#last.kind !== kind) {
      const done = this.#last.done.catch(() => undefined).then(act);
      const last = { kind, done, over: false };
      this.#last = last;
      const end = () => {
        last.over = true;
      };
      done.then(end, end);
    }
    return this.#last.done;
  }

  async #start(): Promise<void> {
    this.#engine.checkOpen();
    const run = this.#newRun();
    this.#run = run;
    try {
      await this.#begin(run);
    } catch (error) {
      await this.#unwind(run);
      // What failed can be asked for again.
      if (this.#last.kind === "start") this.#last = stopped();
      throw error;
    }
    run.upkeep.start();
    run.slots.lookForWork();
  }

  #newRun(): Run {
    const id = `${thisProcess().host}:${process.pid}:${randomBytes(4).toString("hex")}`;
    const onChange = () => {
      slots.lookForWork();
      // After the turn that this asks for: what there is to run goes first.
      setImmediate(() => upkeep.lookAround());
    };
    const ears: Ears = new Ears((listener) => this.#engine.store.watch(listener), onChange);
    const slots = this.#newSlots(id, ears, () => upkeep.lookForDue());
    const upkeep = this.#newUpkeep(id);
    return { id, slots, ears, upkeep, undo: [] };
  }

  #newSlots(workerId: string, ears: Ears, onScheduled: () => void): Slots {
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
      onScheduled,
      onClaim: (more) => (more ? ears.busy() : ears.idle()),
      tellStarted: (record) => this.tellStarted(record),
      tellSettled: (record, outcome) => this.tellSettled(record, outcome),
      tellError: (error, where) => this.tellError(error, where),
    });
  }

  /** What it frees may be another worker's of this process, and what it ends may be awaited here: no watch tells of that. */
  #newUpkeep(workerId: string): Upkeep {
    const { store, hints, options } = this.#engine;
    return new Upkeep({
      store,
      workerId,
      lease: this.#options.lease,
      retention: options.retention,
      onWork: () => hints.work(),
      onRescued: (dead, tasks) => {
        hints.ended();
        this.tellRescued(dead, tasks);
      },
      report: (error, where) => this.tellError(error, where),
    });
  }

  async #begin({ id, slots, ears, upkeep, undo }: Run): Promise<void> {
    const { store, hints, beforeClose } = this.#engine;
    const { lease, pollInterval } = this.#options;
    const stop = () => this.stop({ grace: 0 });
    beforeClose.add(stop);
    undo.push(() => beforeClose.delete(stop));
    undo.push(() => upkeep.stop());
    await this.#register(id);
    undo.push(async () => {
      if ((await store.unregister(id)) > 0) hints.work();
    });
    undo.push(await store.keepAlive(id, lease / 3, () => this.#onDeclaredDead()));
    const onWork = (later: boolean) => {
      slots.lookForWork();
      if (later) upkeep.lookForDue();
    };
    undo.push(repeat(pollInterval, () => onWork(true)));
    undo.push(
      hints.onWork(onWork),
      hints.onMoved((ids) => slots.standings.check(ids)),
      () => ears.close(),
    );
    ears.listen();
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
    if (!run || this.#registering || this.#last.kind === "stop") return;
    this.#registering = true;
    try {
      await run.slots.standings.check();
      const known = await this.#engine.store.workers();
      const stillRuns = this.#run === run && this.#last.kind === "start";
      if (stillRuns && !known.some(({ id }) => id === run.id)) await this.#register(run.id);
      run.slots.lookForWork();
    } catch (error) {
      this.tellError(error, "registering the worker again");
      // The next heartbeat, or the next claim, finds the row missing again.
      await new Promise((resolve) => setTimeout(resolve, registerAgain).unref());
    } finally {
      this.#registering = false;
    }
  }

  // ---- stop ----------------------------------------------------------------------------------

  /**
   * Claims nothing more, and resolves when what was running has ended. What has not after `grace` is handed back at once,
   * uncharged, its signal aborted. May be called again with a shorter `grace`, which then counts.
   */
  async stop(options?: StopOptions): Promise<void> {
    const { grace } = readStopOptions(options);
    if (this.#last.kind === "stop" && this.#last.over) return;
    const done = this.#next("stop", () => this.#stop());
    this.#shortenGrace(grace);
    await done;
  }

  #shortenGrace(grace: number): void {
    this.#graceEnds = Math.min(this.#graceEnds, performance.now() + grace);
    if (this.#run) this.#awaitGrace(this.#run);
  }

  #awaitGrace({ slots }: Run): void {
    slots.stopClaiming();
    this.#graceTimer?.clear();
    const left = this.#graceEnds - performance.now();
    const end = () => {
      slots.interrupt();
      this.#graceTimer = after(lastTries, () => slots.abandon());
    };
    if (left <= 0) end();
    else this.#graceTimer = after(left, end);
  }

  async #stop(): Promise<void> {
    const run = this.#run;
    if (run) {
      this.#awaitGrace(run);
      await run.slots.drained();
      this.#graceTimer?.clear();
      await this.#unwind(run);
      this.#graceTimer?.clear();
    }
    this.#graceEnds = Number.POSITIVE_INFINITY;
  }

  /** Each step has the time of the last tries, no more: a database that stays locked cannot hold up a stop. */
  async #unwind(run: Run): Promise<void> {
    for (const step of run.undo.splice(0).reverse()) {
      try {
        await limited(lastTries, step);
      } catch (error) {
        this.tellError(error, "stopping the worker");
      }
    }
    this.#run = undefined;
  }

  // ---- idle ----------------------------------------------------------------------------------

  /** Resolves when nothing of its queues is pending or running, in any process; what is scheduled does not count. */
  async idle(): Promise<void> {
    const { store } = this.#engine;
    for (;;) {
      while (this.inflight > 0) await this.#run?.slots.turnEnd();
      this.#engine.checkOpen();
      if (await store.idle(this.#options.queueName)) return;
      await (this.#run?.slots.turnEnd(idlePoll) ?? new Promise((resolve) => setTimeout(resolve, idlePoll)));
    }
  }
}

/** Milliseconds between looks at work that other processes do. */
const idlePoll = 100;

function refuseRemote({ name, fn }: TaskDefinition): void {
  if (fn === undefined)
    throw new TypeError(`new Worker: tasks: "${name}" is a remoteTask, which another program runs`);
}

function stopped() {
  return { kind: "stop" as const, done: Promise.resolve(), over: true };
}
