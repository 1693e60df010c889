/** The worker: registers itself, runs a dispatcher and the maintenance, and unregisters when it stops. */
import { randomBytes } from "node:crypto";
import {
  type ReadWorkerOptions,
  readStopOptions,
  readWorkerOptions,
  type StopOptions,
  type WorkerOptions,
} from "../base/options/options.ts";
import { thisProcess } from "../base/runtime/process-identity.ts";
import {
  after,
  limited,
  performance,
  repeat,
  setImmediate,
  setTimeout,
  type Timer,
} from "../base/runtime/timers.ts";
import {
  definitionNamed,
  registeredNames,
  registrationOf,
  type TaskDefinition,
} from "../base/tasks/registry.ts";
import { traced, traces } from "../events.ts";
import { internalsOf, type QueueInternals } from "../queue/internals.ts";
import type { Queue } from "../queue/queue.ts";
import { ChangeListener } from "./change-listener.ts";
import { Dispatcher } from "./dispatcher.ts";
import { WorkerEmitter } from "./events.ts";
import { type Executors, openExecutors } from "./executor.ts";
import { Maintenance, type MaintenanceHost, promoteBatch } from "./maintenance.ts";
import { openJobs } from "./periodic-job.ts";
import { warnOfUnservedQueues } from "./unserved-queues.ts";

/** Milliseconds for which a stop retries to settle once its grace is over; also the limit of each step of a stop. */
const finalWriteMs = 5_000;

/** Milliseconds after a failed try to register again. */
const registerAgainMs = 1_000;

/** Milliseconds between two checks of `idle` for the work of other processes. */
const idlePollMs = 100;

/** A worker between its start and its stop. */
interface Run {
  id: string;
  dispatcher: Dispatcher;
  changeListener: ChangeListener;
  maintenance: Maintenance;
  /** The steps that undo the start, in the order of the start: a stop runs them backwards. */
  undo: (() => unknown)[];
}

/**
 * Runs the tasks of one or several queues of a database. Installs no signal handlers: stop it in your own.
 *
 * It is an `EventEmitter`: `worker.on("failed", (task) => …)`, with the events of `WorkerEvents`. A listener that throws is
 * reported and changes nothing.
 */
export class Worker<C = unknown> extends WorkerEmitter {
  readonly #queue: Queue;
  readonly #internals: QueueInternals;
  readonly #options: ReadWorkerOptions;
  /** The names of the functions that it runs; undefined: all that are registered. */
  readonly #names: readonly string[] | undefined;
  #run: Run | undefined;
  /** Starts and stops run one after another, in the order of their calls. This is the last one that was asked for. */
  #last: { kind: "start" | "stop"; done: Promise<void>; over: boolean } = stopped();
  /** When the grace of the current stop ends, on the clock of `performance.now()`. */
  #graceEnds = Number.POSITIVE_INFINITY;
  #graceTimer: Timer | undefined;
  #registering = false;

  /** @throws TypeError for a wrong option; UnregisteredFunctionError for an unregistered function in `tasks` */
  constructor(queue: Queue, options?: WorkerOptions<C>) {
    super();
    this.#queue = queue;
    this.#internals = internalsOf(queue);
    this.#options = readWorkerOptions(options);
    this.#names = this.#options.tasks?.map((fn) => nameOfLocal(registrationOf(fn).definition));
  }

  /** Its id in `dbq_workers` and in the column `worker_id`; undefined while it is stopped. */
  get id(): string | undefined {
    return this.#run?.id;
  }

  /** How many tasks it runs, with those whose outcome is not written yet. */
  get inflight(): number {
    return this.#run?.dispatcher.inflight ?? 0;
  }

  // ---- start ---------------------------------------------------------------------------------

  /**
   * Resolves when the worker is registered and claims tasks. May be called again; after `stop`, it waits for that
   * first.
   * @throws DatabaseError when the database cannot be written to; QueueClosedError
   */
  start(): Promise<void> {
    return this.#next("start", () => this.#start());
  }

  /** Repeated calls share the pending start or stop. */
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
    this.#internals.checkOpen();
    let run: Run | undefined;
    try {
      run = this.#newRun();
      this.#run = run;
      await this.#begin(run);
    } catch (error) {
      if (run) await this.#undo(run);
      // The next call tries again, instead of sharing this failure.
      if (this.#last.kind === "start") this.#last = stopped();
      throw error;
    }
    run.undo.push(this.#warnOfUnservedQueues());
    run.maintenance.start();
    run.dispatcher.lookForWork();
  }

  #newRun(): Run {
    const id = `${thisProcess().host}:${process.pid}:${randomBytes(4).toString("hex")}`;
    const onChange = () => {
      dispatcher.lookForWork();
      // After the cycle that this requests: running tasks goes first.
      setImmediate(() => maintenance.lookAround());
    };
    const changeListener: ChangeListener = new ChangeListener(
      (listener) => this.#internals.store.watch(listener),
      onChange,
    );
    const executors = openExecutors(this.#queue);
    const dispatcher = this.#newDispatcher(id, executors, changeListener, () => maintenance.lookForDue());
    const maintenance = this.#newMaintenance(id);
    return { id, dispatcher, changeListener, maintenance, undo: [() => executors.close()] };
  }

  #newDispatcher(
    workerId: string,
    executors: Executors,
    changeListener: ChangeListener,
    onScheduled: () => void,
  ): Dispatcher {
    const { store, wakeups, options } = this.#internals;
    const { concurrency, queueName, context } = this.#options;
    return new Dispatcher({
      store,
      wakeups,
      workerId,
      queueNames: queueName,
      concurrency,
      context,
      maxPayload: options.maxPayload,
      executorOf: (definition) => executors.executorOf(definition),
      funcs: () => this.#funcs(),
      onDeclaredDead: () => this.#onDeclaredDead(),
      onScheduled,
      onClaim: (more) => {
        wakeups.taskNoted();
        if (more) changeListener.busy();
        else changeListener.idle();
      },
      reportStarted: (record) => this.reportStarted(record),
      reportSettled: (record, outcome) => this.reportSettled(record, outcome),
      reportLost: (record, cancelled) => this.reportLost(record, cancelled),
      reportError: (error, where) => this.reportError(error, where),
    });
  }

  /** Watches do not report our own writes, so local workers and awaits are woken here too. */
  #newMaintenance(workerId: string): Maintenance {
    const { store, wakeups, options } = this.#internals;
    const host: MaintenanceHost = {
      store,
      workerId,
      lease: this.#options.lease,
      retention: options.retention,
      onWork: () => wakeups.workAdded(),
      onRescued: (dead, tasks) => {
        wakeups.taskEnded();
        this.reportRescued(dead, tasks);
      },
      report: (error, where) => this.reportError(error, where),
    };
    return new Maintenance(host, openJobs(this.#queue, host));
  }

  async #begin({ id, dispatcher, changeListener, maintenance, undo }: Run): Promise<void> {
    const { store, wakeups, beforeClose } = this.#internals;
    const { lease, pollInterval } = this.#options;
    const stop = () => this.stop({ grace: 0 });
    beforeClose.add(stop);
    undo.push(() => beforeClose.delete(stop));
    undo.push(() => maintenance.stop());
    await this.#register(id);
    undo.push(async () => {
      if ((await store.unregister(id)) > 0) wakeups.workAdded();
    });
    undo.push(await store.keepAlive(id, lease / 3, () => this.#onDeclaredDead()));
    const onWork = (later: boolean) => {
      dispatcher.lookForWork();
      if (later) maintenance.lookForDue();
    };
    undo.push(repeat(pollInterval, () => onWork(true)));
    undo.push(
      wakeups.onWorkAdded(onWork),
      wakeups.onTaskChanged((ids) => dispatcher.ownership.check(ids)),
      () => changeListener.close(),
    );
    changeListener.listen();
  }

  async #register(id: string): Promise<void> {
    const { queueName, concurrency, lease } = this.#options;
    await this.#internals.store.register({ id, queueNames: queueName, concurrency, lease, ...thisProcess() });
  }

  #warnOfUnservedQueues(): () => void {
    return warnOfUnservedQueues({
      store: this.#internals.store,
      queueNames: this.#options.queueName,
      definitions: () => this.#funcs().flatMap((name) => definitionNamed(name) ?? []),
      report: (error, where) => this.reportError(error, where),
    });
  }

  /** Read for each claim: functions may be registered, replaced or unregistered after the worker has started. */
  #funcs(): readonly string[] {
    return this.#names?.filter((name) => definitionNamed(name) !== undefined) ?? registeredNames();
  }

  /**
   * Another process rescued its tasks and deleted its row. Aborts the lost attempts, and registers again under the same
   * id.
   */
  async #onDeclaredDead(): Promise<void> {
    const run = this.#run;
    if (!run || this.#registering || this.#last.kind === "stop") return;
    this.#registering = true;
    try {
      await run.dispatcher.ownership.check();
      const known = await this.#internals.store.workers();
      const isStillWanted = this.#run === run && this.#last.kind === "start";
      if (isStillWanted && !known.some(({ id }) => id === run.id)) await this.#register(run.id);
      run.dispatcher.lookForWork();
    } catch (error) {
      this.reportError(error, "registering the worker again");
      // The next heartbeat, or the next claim, finds the row missing again.
      await new Promise((resolve) => setTimeout(resolve, registerAgainMs).unref());
    } finally {
      this.#registering = false;
    }
  }

  // ---- stop ----------------------------------------------------------------------------------

  /**
   * Claims no more tasks, and resolves when the running ones have ended. After `grace`, the signals of those that still
   * run are aborted, and the tasks are handed back without a retry charged. Call it again with a shorter `grace` to
   * hurry.
   * @throws TypeError for a wrong option
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
    if (this.#run) this.#startGrace(this.#run);
  }

  /**
   * Stops claiming; interrupts the attempts at the end of the grace, and gives them up if they cannot be settled then.
   */
  #startGrace({ dispatcher }: Run): void {
    dispatcher.stopClaiming();
    this.#graceTimer?.clear();
    const left = this.#graceEnds - performance.now();
    const end = () => {
      dispatcher.interrupt();
      this.#graceTimer = after(finalWriteMs, () => dispatcher.abandon());
    };
    if (left <= 0) end();
    else this.#graceTimer = after(left, end);
  }

  async #stop(): Promise<void> {
    const run = this.#run;
    if (run)
      await traced(
        traces.stop,
        () => ({ workerId: run.id }),
        () => this.#stopRun(run),
      );
    this.#graceEnds = Number.POSITIVE_INFINITY;
  }

  async #stopRun(run: Run): Promise<void> {
    this.#startGrace(run);
    await run.dispatcher.drained();
    this.#graceTimer?.clear();
    await this.#undo(run);
    this.#graceTimer?.clear();
  }

  /** Undoes the start. Each step has a time limit, so that a locked database cannot block a stop. */
  async #undo(run: Run): Promise<void> {
    for (const step of run.undo.splice(0).reverse()) {
      try {
        await limited(finalWriteMs, step);
      } catch (error) {
        this.reportError(error, "stopping the worker");
      }
    }
    this.#run = undefined;
  }

  // ---- idle ----------------------------------------------------------------------------------

  /**
   * Resolves when no task of its queues is pending, running or due, in any process. Tasks that are scheduled for later, such
   * as retries during their backoff, do not count.
   * @throws DatabaseError, QueueClosedError
   */
  async idle(): Promise<void> {
    const { store } = this.#internals;
    for (;;) {
      while (this.inflight > 0) await this.#run?.dispatcher.cycleEnd();
      this.#internals.checkOpen();
      if ((await store.idle(this.#options.queueName)) && !(await this.#promoteDue())) return;
      await (this.#run?.dispatcher.cycleEnd(idlePollMs) ??
        new Promise((resolve) => setTimeout(resolve, idlePollMs)));
    }
  }

  /** Makes scheduled tasks that are due pending, before the maintenance does. Returns whether there were any. */
  async #promoteDue(): Promise<boolean> {
    const { promoted } = await this.#internals.store.promote(promoteBatch);
    if (promoted > 0) this.#internals.wakeups.workAdded();
    return promoted > 0;
  }
}

/** @throws TypeError for a function that another program runs */
function nameOfLocal({ name, fn }: TaskDefinition): string {
  if (fn !== undefined) return name;
  throw new TypeError(`new Worker: tasks: "${name}" is a remoteTask, which another program runs`);
}

function stopped() {
  return { kind: "stop" as const, done: Promise.resolve(), over: true };
}
