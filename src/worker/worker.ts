/** The worker: registers itself, runs a dispatcher and the maintenance, and unregisters when it stops. */
import { randomBytes } from "node:crypto";
import {
  type ReadWorkerOptions,
  readConcurrency,
  readStopOptions,
  readWorkerOptions,
  type StopOptions,
  type WorkerOptions,
} from "../base/options/options.ts";
import { thisProcess } from "../base/runtime/process-identity.ts";
import { repeat, setTimeout } from "../base/runtime/timers.ts";
import {
  definitionNamed,
  registrationOf,
  runnableNames,
  type TaskDefinition,
} from "../base/tasks/registry.ts";
import { traced, traces } from "../events.ts";
import { internalsOf, type QueueInternals } from "../queue/internals.ts";
import type { CoreQueue } from "../queue/queue.ts";
import { type ChangeListener, listenerOf, watchForWork } from "./change-listener.ts";
import type { ClaimPolicy } from "./claim-policy.ts";
import { Dispatcher } from "./dispatcher.ts";
import { publishCrashes, WorkerEmitter } from "./events.ts";
import type { Executors } from "./executor.ts";
import { attemptFeatures, openClaims, openExecutors, openMeter } from "./feature.ts";
import { Lifecycle, together } from "./lifecycle.ts";
import { type Maintenance, maintenanceOf } from "./maintenance.ts";
import { type Meter, meterFailure, meterOutcome } from "./meter.ts";
import { promoteBatch } from "./promotion.ts";
import { KeptTasks } from "./pruning.ts";
import { warnOfUnservedQueues } from "./unserved-queues.ts";

/** Milliseconds for which a stop retries to settle once its grace is over; also the limit of each step that undoes the start. */
const finalWriteMs = 5_000;

/** Milliseconds after a failed try to register again. */
const registerAgainMs = 1_000;

/** Milliseconds between two checks of `idle` for the work of other processes. */
const idlePollMs = 100;

/** A worker between its start and its stop. */
interface Run {
  id: string;
  dispatcher: Dispatcher;
  claims: ClaimPolicy;
  changeListener: ChangeListener;
  maintenance: Maintenance;
}

/** What a dispatcher of a run is made of. */
interface DispatcherParts extends Pick<Run, "claims" | "changeListener"> {
  executors: Executors;
  meter: Meter;
}

/**
 * Runs the tasks of one or several queues of a database. Installs no signal handlers: stop it in your own.
 *
 * It is an `EventEmitter`: `worker.on("failed", (task) => …)`, with the events of `WorkerEvents`. A listener that throws is
 * reported and changes nothing.
 */
export class Worker<C = unknown> extends WorkerEmitter {
  readonly #queue: CoreQueue;
  readonly #internals: QueueInternals;
  readonly #options: ReadWorkerOptions;
  /** The names of the functions that it runs; undefined: all that are registered. */
  readonly #names: readonly string[] | undefined;
  readonly #report = (error: unknown, where: string): void => this.reportError(error, where);
  #run: Run | undefined;
  readonly #lifecycle = new Lifecycle({
    of: "the worker",
    finalMs: finalWriteMs,
    report: this.#report,
  });
  #registering = false;

  /** @throws TypeError for a wrong option; UnregisteredFunctionError for an unregistered function in `tasks` */
  constructor(queue: CoreQueue, options?: WorkerOptions<C>) {
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

  /**
   * How many tasks run at the same time, from 1 to 100,000. May be set while it runs: with fewer slots, running tasks end as
   * they do, and none starts until there is a free one.
   * @throws TypeError for another value
   */
  get concurrency(): number {
    return this.#options.concurrency;
  }

  /** Holds at once for the tasks that are claimed next. */
  set concurrency(value: number) {
    this.#options.concurrency = readConcurrency(value, "worker.concurrency");
    const run = this.#run;
    if (!run) return;
    run.dispatcher.lookForWork();
    const written = this.#internals.store.resize(run.id, value);
    written.catch((error: unknown) => this.reportError(error, "writing the worker's concurrency"));
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
    return this.#lifecycle.start(() => this.#start());
  }

  async #start(): Promise<void> {
    this.#internals.checkOpen();
    const run = this.#newRun();
    this.#run = run;
    await this.#begin(run);
    this.#lifecycle.onStop(this.#warnOfUnservedQueues());
    run.maintenance.start();
    run.dispatcher.lookForWork();
  }

  #newRun(): Run {
    const id = `${thisProcess().host}:${process.pid}:${randomBytes(4).toString("hex")}`;
    const changeListener = listenerOf(
      (listener) => watchForWork(this.#internals.store, listener),
      () => dispatcher.lookForWork(),
      () => maintenance.lookAround(),
    );
    const executors = this.#openExecutors();
    const claims = openClaims(this.#queue, {
      names: () => runnableNames(this.#names),
      onReady: () => dispatcher.lookForWork(),
      report: this.#report,
    });
    const meter = this.#openMeter(id);
    const dispatcher: Dispatcher = this.#newDispatcher(id, { executors, claims, changeListener, meter }, () =>
      maintenance.lookForDue(),
    );
    const maintenance: Maintenance = this.#newMaintenance(id, meter, dispatcher, () =>
      maintenance.lookForDue(),
    );
    const forget = () => {
      this.#run = undefined;
    };
    this.#lifecycle.onStop(forget, () => executors.close());
    return { id, dispatcher, claims, changeListener, maintenance };
  }

  #openExecutors(): Executors {
    const options = this.#options;
    return openExecutors(this.#queue, {
      get concurrency() {
        return options.concurrency;
      },
      maxTasksPerChild: options.maxTasksPerChild,
      maxPayload: this.#internals.options.maxPayload,
      report: this.#report,
    });
  }

  #openMeter(workerId: string): Meter {
    const meter = openMeter(this.#queue, { workerId, report: this.#report });
    this.#lifecycle.onStop(() => meter.close());
    return meter;
  }

  #newMaintenance(
    workerId: string,
    meter: Meter,
    dispatcher: Dispatcher,
    onOwedHooks: () => void,
  ): Maintenance {
    const { lease, queueName, context } = this.#options;
    return maintenanceOf(this.#queue, {
      workerId,
      lease,
      code: {
        definitionOf: (queue, func) =>
          queueName.includes(queue) && (this.#names?.includes(func) ?? true)
            ? definitionNamed(func)
            : undefined,
        context,
        takeOn: (claim) => dispatcher.takeOn(claim),
      },
      onRescued: (dead, tasks) => this.reportRescued(dead, tasks),
      onCrashes: (crashes) => {
        publishCrashes(crashes, meter);
        for (const crash of crashes) this.reportCrash(crash, this.#internals.options.clock);
        onOwedHooks();
      },
      report: this.#report,
    });
  }

  #newDispatcher(
    workerId: string,
    { executors, claims, changeListener, meter }: DispatcherParts,
    onScheduled: () => void,
  ): Dispatcher {
    const { store, wakeups, options } = this.#internals;
    const workerOptions = this.#options;
    const { queueName, context } = workerOptions;
    return new Dispatcher({
      store,
      wakeups,
      featuresOf: (hasFreeSlot) => attemptFeatures(this.#queue, hasFreeSlot),
      workerId,
      queueNames: queueName,
      get concurrency() {
        return workerOptions.concurrency;
      },
      context,
      maxPayload: options.maxPayload,
      clock: options.clock,
      executorOf: (definition) => executors.executorOf(definition),
      claims,
      onDeclaredDead: () => this.#onDeclaredDead(),
      onScheduled,
      onClaim: (more, expired) => {
        wakeups.taskNoted();
        if (expired) wakeups.taskChanged(expired);
        if (more) changeListener.busy();
        else changeListener.idle();
      },
      reportStarted: (record) => this.reportStarted(record),
      reportSettled: (record, outcome, ranMs) => {
        meterOutcome(meter, record, outcome, ranMs);
        this.reportSettled(record, outcome, options.clock);
      },
      reportHeldUp: (record, outcome) => outcome && meterFailure(meter, record, outcome),
      reportLost: (record, cancelled) => {
        if (cancelled) meter.ended(record, "cancelled", undefined);
        this.reportLost(record, cancelled);
      },
      reportError: this.#report,
    });
  }

  async #begin({ id, dispatcher, claims, changeListener, maintenance }: Run): Promise<void> {
    const { store, wakeups, beforeClose } = this.#internals;
    const { lease, pollInterval } = this.#options;
    const lifecycle = this.#lifecycle;
    const stop = () => this.stop({ grace: 0 });
    beforeClose.add(stop);
    lifecycle.runs(together([dispatcher, ...maintenance.running]));
    lifecycle.onStop(
      () => beforeClose.delete(stop),
      () => maintenance.stop(),
    );
    await claims.begin();
    await this.#register(id);
    lifecycle.onStop(async () => {
      const kept = new KeptTasks((error) => this.reportError(error, "stopping"), "hand back");
      if ((await store.unregister(id, kept.add)) > 0) wakeups.workAdded();
      kept.tell();
    });
    lifecycle.onStop(await store.keepAlive(id, lease / 3, () => this.#onDeclaredDead()));
    const onWork = (later: boolean) => {
      dispatcher.lookForWork();
      if (later) maintenance.lookForDue();
    };
    lifecycle.onStop(
      repeat(pollInterval, () => onWork(true)),
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
      definitions: () => runnableNames(this.#names).flatMap((name) => definitionNamed(name) ?? []),
      report: this.#report,
    });
  }

  /**
   * Another process rescued its tasks and deleted its row. Aborts the lost attempts, and registers again under the same
   * id.
   */
  async #onDeclaredDead(): Promise<void> {
    const run = this.#run;
    if (!run || this.#registering || !this.#lifecycle.isWanted) return;
    this.#registering = true;
    try {
      await run.dispatcher.ownership.check();
      const known = await this.#internals.store.workers();
      const isStillWanted = this.#run === run && this.#lifecycle.isWanted;
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
    await this.#lifecycle.stop(grace, (end) => {
      const workerId = this.id;
      return workerId === undefined ? end() : traced(traces.stop, () => ({ workerId }), end);
    });
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
