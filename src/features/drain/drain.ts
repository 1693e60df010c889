/** The drain of one queue: it registers as a worker, carries the queue or stands by, and takes over from a dead one. */
import { randomBytes } from "node:crypto";
import { readStopOptions, type StopOptions } from "../../base/options/options.ts";
import { thisProcess } from "../../base/runtime/process-identity.ts";
import { repeat } from "../../base/runtime/timers.ts";
import { drainPrefix } from "../../base/tasks/drained.ts";
import { toTask } from "../../base/values/records.ts";
import type { Crash } from "../../store.ts";
import { type ChangeListener, listenerOf } from "../../worker/change-listener.ts";
import { publishCrashes } from "../../worker/events.ts";
import { openMeter } from "../../worker/feature.ts";
import { Lifecycle } from "../../worker/lifecycle.ts";
import { type Maintenance, maintenanceOf } from "../../worker/maintenance.ts";
import { type Meter, meterOutcome } from "../../worker/meter.ts";
import { longestSleep, PeriodicJob } from "../../worker/periodic-job.ts";
import { KeptTasks } from "../../worker/pruning.ts";
import { type FullInternals, internalsOf, type Queue } from "../queue.ts";
import { DrainEmitter } from "./events.ts";
import { deletesOld, failsOverdue } from "./jobs.ts";
import { type DrainOptions, type ReadDrainOptions, readDrainOptions } from "./options.ts";
import { Pump } from "./pump.ts";

/** Milliseconds: `standby` between two tries of a waiting drain to take its turn; `poll` between two looks for tasks. */
const every = { standby: 200, poll: 1_000 };

/** Milliseconds for which a stop goes on to settle once its grace is over; also the limit of each step that undoes the start. */
const finalWriteMs = 2_000;

/** A drain between its start and its stop, or its death. */
interface Run {
  workerId: string;
  pump: Pump;
  changeListener: ChangeListener;
  maintenance: Maintenance;
  /** Takes the queue over when it is this drain's turn. */
  turns: PeriodicJob;
}

/**
 * Makes a drain: it carries the tasks of one queue into another system, in bulk, and lets each one go when its message has
 * arrived. At least once, never before the transaction of the enqueue has committed. Of all drains of a queue name, in any
 * process, one carries and the others stand by. Call `start()` on what it returns.
 * @throws TypeError for a wrong option
 */
export function drain(queue: Queue, options: DrainOptions): Drain {
  return new Drain(queue, options);
}

/** What `drain` makes: an `EventEmitter` with the events of `DrainEvents`. */
export class Drain extends DrainEmitter {
  readonly #queue: Queue;
  readonly #internals: FullInternals;
  readonly #options: ReadDrainOptions;
  readonly #report = (error: unknown, where: string): void => this.reportError(error, where);
  #run: Run | undefined;
  #active = false;
  readonly #lifecycle = new Lifecycle({
    of: "the drain",
    finalMs: finalWriteMs,
    report: this.#report,
  });

  /** @internal */
  constructor(queue: Queue, options: DrainOptions) {
    super();
    this.#queue = queue;
    this.#internals = internalsOf(queue);
    this.#options = readDrainOptions(options, this.#internals.options.retention.completed);
  }

  /** Its id in `dbq_workers`; undefined while it is stopped. */
  get id(): string | undefined {
    return this.#run?.workerId;
  }

  /** Whether this drain carries the queue now; otherwise it stands by, or is stopped. */
  get active(): boolean {
    return this.#active;
  }

  // ---- start ---------------------------------------------------------------------------------

  /**
   * Resolves when the drain is registered, and carries its queue or stands by. May be called again.
   * @throws DatabaseError when the database cannot be written to; QueueClosedError
   */
  start(): Promise<void> {
    return this.#lifecycle.start(() => this.#start());
  }

  async #start(): Promise<void> {
    this.#internals.checkOpen();
    const run = this.#newRun(await this.#internals.store.drains.origin());
    this.#run = run;
    await this.#begin(run);
    await this.#takeTurn(run);
  }

  #newRun(origin: string): Run {
    const workerId = `${drainPrefix}${thisProcess().host}:${process.pid}:${randomBytes(4).toString("hex")}`;
    const changeListener = listenerOf(
      (listener) => this.#internals.store.watch(listener),
      () => pump.lookForWork(),
      () => maintenance.lookAround(),
    );
    const turns = new PeriodicJob(
      { name: "looking whether another drain has ended", run: () => this.#look(workerId) },
      this.#report,
    );
    const meter = this.#openMeter(workerId);
    const maintenance: Maintenance = this.#newMaintenance(workerId, meter, () => turns.now());
    const pump: Pump = this.#newPump(workerId, origin, meter, changeListener, () => maintenance.lookForDue());
    return { workerId, pump, changeListener, maintenance, turns };
  }

  #newPump(
    workerId: string,
    origin: string,
    meter: Meter,
    changes: ChangeListener,
    onScheduled: () => void,
  ): Pump {
    const { store, wakeups } = this.#internals;
    return new Pump({
      store,
      wakeups,
      workerId,
      origin,
      options: this.#options,
      onClaim: (more) => (more ? changes.busy() : changes.idle()),
      onDeclaredDead: () => this.#onDeclaredDead(workerId),
      onScheduled,
      onEnded: (record, outcome) => meterOutcome(meter, record, outcome, undefined),
      onSent: (messageIds) => this.tell("sent", messageIds),
      onRefused: (record, error) => {
        if (this.listenerCount("refused") > 0) this.tell("refused", toTask(record), error);
      },
      onPause: (error, delay) => this.tell("paused", error, delay),
      onResume: () => this.tell("resumed"),
      report: this.#report,
    });
  }

  #openMeter(workerId: string): Meter {
    const meter = openMeter(this.#queue, { workerId, report: this.#report });
    this.#lifecycle.onStop(() => meter.close());
    return meter;
  }

  #newMaintenance(workerId: string, meter: Meter, onRescued: () => void): Maintenance {
    const { store, wakeups } = this.#internals;
    const isActive = () => this.#active;
    const own = [
      deletesOld(store.drains, this.#options, isActive, this.#report),
      failsOverdue(store.drains, this.#options, isActive, () => wakeups.taskEnded()),
    ].flatMap((job) => job ?? []);
    const onCrashes = (crashes: readonly Crash[]) => publishCrashes(crashes, meter);
    const { lease } = this.#options;
    return maintenanceOf(this.#queue, { workerId, lease, onRescued, onCrashes, report: this.#report }, own);
  }

  async #begin({ workerId, pump, changeListener, maintenance, turns }: Run): Promise<void> {
    const { store, wakeups, beforeClose } = this.#internals;
    const { queueName, batch, lease } = this.#options;
    const lifecycle = this.#lifecycle;
    const stop = () => this.stop({ grace: 0 });
    const forget = () => {
      this.#run = undefined;
      this.#active = false;
    };
    beforeClose.add(stop);
    lifecycle.runs(pump);
    lifecycle.onStop(forget, () => beforeClose.delete(stop));
    const facts = { id: workerId, queueNames: [queueName], concurrency: batch, lease };
    await store.register({ ...facts, ...thisProcess() });
    lifecycle.onStop(async () => {
      const kept = new KeptTasks((error) => this.reportError(error, "stopping"), "hand back");
      if ((await store.unregister(workerId, kept.add)) > 0) wakeups.workAdded();
      kept.tell();
    });
    lifecycle.onStop(await store.keepAlive(workerId, lease / 3, () => this.#onDeclaredDead(workerId)));
    const onWork = (later: boolean) => {
      pump.lookForWork();
      if (later) maintenance.lookForDue();
    };
    lifecycle.onStop(
      repeat(every.poll, () => onWork(true)),
      wakeups.onWorkAdded(onWork),
      () => changeListener.close(),
      () => Promise.all([maintenance.stop(), turns.stop()]),
    );
    changeListener.listen();
    maintenance.start();
    turns.start();
  }

  // ---- turns ---------------------------------------------------------------------------------

  /** @returns milliseconds until the next look */
  async #look(workerId: string): Promise<number> {
    const run = this.#run;
    if (run?.workerId === workerId && !this.#active && this.#lifecycle.isWanted) await this.#takeTurn(run);
    return this.#active ? longestSleep : every.standby;
  }

  /**
   * Carries the queue, unless another drain carries it whose worker is registered. The row of a dead drain's worker is deleted
   * when its tasks are handed back, and no drain can claim without its row.
   */
  async #takeTurn(run: Run): Promise<void> {
    const { queueName, to } = this.#options;
    const mine = await this.#internals.store.drains.take(queueName, run.workerId, to.name ?? "target");
    if (this.#run !== run || !this.#lifecycle.isWanted || this.#active || !mine) return;
    this.#active = true;
    run.pump.begin();
    this.tell("active");
  }

  /** Another process has declared this drain dead and handed its tasks back. The drain starts again under a new id. */
  #onDeclaredDead(workerId: string): void {
    const run = this.#run;
    if (run?.workerId !== workerId || !this.#lifecycle.isWanted) return;
    run.pump.abandon();
    if (this.#active) this.tell("standby");
    this.#active = false;
    this.#lifecycle.restart(() => this.#start(), every.poll);
  }

  // ---- stop ----------------------------------------------------------------------------------

  /**
   * Claims no more tasks, waits for the answers to what was sent, and closes the target. After `grace`, tasks without an
   * answer are handed back: they are sent again by the next drain. Call it again with a shorter `grace` to hurry.
   * @throws TypeError for a wrong option
   */
  async stop(options?: StopOptions): Promise<void> {
    const { grace } = readStopOptions(options);
    await this.#lifecycle.stop(grace, async (end) => {
      await end();
      await this.#options.to.close();
    });
  }
}
