/**
 * The worker. One turn of its loop: settle what has ended, claim for the slots that this freed, start what was claimed.
 * A turn is asked for by a hint, by a handler that ended, or by the poll; what is asked for meanwhile is one more turn.
 */
import { randomBytes } from "node:crypto";
import { EventEmitter } from "node:events";
import { type AttemptHost, RunningAttempt } from "./attempt.ts";
import { after, type Timer } from "./durations.ts";
import { LostGenerationError, TaskCancelledError } from "./errors.ts";
import { guarded, report, rescuedChannel, settledChannel } from "./events.ts";
import { thisProcess } from "./host.ts";
import {
  type ReadWorkerOptions,
  readStopOptions,
  readWorkerOptions,
  type StopOptions,
  type WorkerOptions,
} from "./options.ts";
import { engineOf, type Queue, type QueueEngine } from "./queue.ts";
import { definitionNamed, registeredNames, registrationOf } from "./registry.ts";
import type { Outcome, OutcomeKind, Standing, TurnResult } from "./store.ts";
import type { Task, TaskRecord } from "./task.ts";
import { Upkeep } from "./upkeep.ts";
import { taskOf } from "./view.ts";

/** Milliseconds between looks at whether the running tasks are still its own: a cancel is heard of within this. */
const standingsEvery = 400;

/** Milliseconds in which notes of progress are gathered. */
const progressEvery = 100;

/** Milliseconds that a stop goes on trying to write what has ended, once its grace is over and the database fails. */
const lastTries = 5_000;

/** The events of a worker: what the task was when it began, or the outcome that was accepted for it. */
export interface WorkerEvents {
  started: [task: Task];
  completed: [task: Task];
  failed: [task: Task];
  /** It failed, and will be tried again. */
  retrying: [task: Task];
  cancelled: [task: Task];
  snoozed: [task: Task];
  /** Handed back, since the worker stopped first. */
  interrupted: [task: Task];
  /** Somebody else had moved the task: what this worker did no longer counted. */
  lost: [task: Task];
  /** This worker found another one dead, and freed its tasks. */
  rescued: [dead: { workerId: string; tasks: number }];
  /** Something failed that no caller can be told of. Nothing is lost by it. Without a listener it is a process warning. */
  error: [error: unknown, where: string];
}

const eventOf: Readonly<Record<OutcomeKind, keyof WorkerEvents>> = {
  completed: "completed",
  failed: "failed",
  retry: "retrying",
  cancelled: "cancelled",
  snoozed: "snoozed",
  interrupted: "interrupted",
};

type State = "stopped" | "starting" | "running" | "stopping";

interface Ended {
  attempt: RunningAttempt;
  outcome: Outcome;
}

/** Runs the tasks of one or several queues. Installs no signal handlers: that is the app's business, or the CLI's. */
export class Worker<C = unknown> extends EventEmitter<WorkerEvents> {
  readonly #engine: QueueEngine;
  readonly #options: ReadWorkerOptions;
  readonly #host: AttemptHost;
  #id = "";
  #state: State = "stopped";
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  readonly #running = new Map<number, RunningAttempt>();
  #ended: Ended[] = [];
  #progress = new Map<number, { record: TaskRecord; progress: number; note: string | null }>();
  #scheduled = false;
  #again = false;
  #mayHaveWork = true;
  #failures = 0;
  #upkeep: Upkeep | undefined;
  /** What undoes the start, last first. */
  #undo: (() => unknown)[] = [];
  #stopAt = Number.POSITIVE_INFINITY;
  #stopTimer: Timer | undefined;
  readonly #quiet = new EventEmitter<{ turn: [] }>().setMaxListeners(0);

  /** @throws TypeError for wrong options; UnregisteredFunctionError for a function of `tasks` that is not registered */
  constructor(queue: Queue, options?: WorkerOptions<C>) {
    super();
    this.#engine = engineOf(queue);
    this.#options = readWorkerOptions(options);
    for (const fn of this.#options.tasks ?? []) registrationOf(fn);
    const { store, options: queueOptions } = this.#engine;
    this.#host = {
      store,
      context: this.#options.context,
      maxPayload: queueOptions.maxPayload,
      noteProgress: (record, progress, note) => this.#noteProgress(record, progress, note),
      report: (error, where) => this.#tell(error, where),
    };
  }

  /** What `worker_id` and `dbq_workers` call it; empty until it has started. */
  get id(): string {
    return this.#id;
  }

  /** How many tasks it is running. */
  get inflight(): number {
    return this.#running.size;
  }

  // ---- start and stop ------------------------------------------------------------------------

  /** Resolves when it is running. @throws DatabaseError, QueueClosedError */
  async start(): Promise<void> {
    await this.#stopping;
    if (this.#state === "running") return;
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    await this.#starting;
  }

  async #start(): Promise<void> {
    this.#state = "starting";
    this.#id = `${thisProcess().host}:${process.pid}:${randomBytes(4).toString("hex")}`;
    this.#mayHaveWork = true;
    this.#stopAt = Number.POSITIVE_INFINITY;
    try {
      await this.#begin();
      this.#state = "running";
    } catch (error) {
      await this.#unwind();
      this.#state = "stopped";
      throw error;
    }
    this.#upkeep?.start();
    this.#schedule();
  }

  async #begin(): Promise<void> {
    const { store, hints, options, beforeClose } = this.#engine;
    const { lease, pollInterval } = this.#options;
    const upkeep = new Upkeep({
      store,
      workerId: this.#id,
      lease,
      retention: options.retention,
      onWork: () => this.#lookForWork(),
      onRescued: (workerId, tasks) => this.#tellRescued(workerId, tasks),
      report: (error, where) => this.#tell(error, where),
    });
    this.#upkeep = upkeep;
    this.#undo.push(() => upkeep.stop());
    await this.#register();
    this.#undo.push(() => store.unregister(this.#id));
    this.#undo.push(await store.keepAlive(this.#id, lease / 3, () => this.#declaredDead()));
    const onChange = () => {
      this.#lookForWork();
      upkeep.lookForDue();
    };
    const timers = [
      setInterval(() => this.#lookForWork(), pollInterval),
      setInterval(() => this.#checkStandings(), standingsEvery),
    ];
    this.#undo.push(() => timers.forEach(clearInterval));
    this.#undo.push(
      hints.onWork(onChange),
      hints.onEnded(() => this.#checkStandings()),
      store.watch(onChange),
    );
    const stop = () => this.stop({ grace: 0 });
    beforeClose.add(stop);
    this.#undo.push(() => beforeClose.delete(stop));
  }

  async #register(): Promise<void> {
    const { queueName, concurrency, lease } = this.#options;
    await this.#engine.store.register({
      id: this.#id,
      queueNames: queueName,
      concurrency,
      lease,
      ...thisProcess(),
    });
  }

  /**
   * Claims nothing more, and resolves when what was running has ended. What has not after `grace` is handed back at once,
   * uncharged, its signal aborted. May be called again with a shorter `grace`, which then counts.
   */
  async stop(options?: StopOptions): Promise<void> {
    const { grace } = readStopOptions(options);
    await this.#starting?.catch(() => undefined);
    if (this.#state === "stopped") return;
    this.#shortenGrace(grace);
    this.#stopping ??= this.#stop().finally(() => {
      this.#stopping = undefined;
    });
    await this.#stopping;
  }

  #shortenGrace(grace: number): void {
    const at = performance.now() + grace;
    if (at >= this.#stopAt) return;
    this.#stopAt = at;
    this.#stopTimer?.clear();
    if (grace === 0) this.#endGrace();
    else this.#stopTimer = after(grace, () => this.#endGrace());
  }

  #endGrace(): void {
    for (const attempt of this.#running.values()) attempt.interrupt();
    this.#stopTimer = after(lastTries, () => this.#abandon());
  }

  /** The database takes nothing: the rows stay as they are, for whoever finds this worker gone. */
  #abandon(): void {
    this.#ended = [];
    this.#running.clear();
    this.#quiet.emit("turn");
  }

  async #stop(): Promise<void> {
    this.#state = "stopping";
    // A turn under way may still claim: what it brings is handed back before the worker goes.
    while (this.#running.size > 0 || this.#scheduled)
      await new Promise<void>((resolve) => this.#quiet.once("turn", resolve));
    this.#stopTimer?.clear();
    await this.#flushProgress();
    await this.#unwind();
    this.#state = "stopped";
    this.#quiet.emit("turn");
  }

  async #unwind(): Promise<void> {
    for (const undo of this.#undo.splice(0).reverse()) {
      try {
        await undo();
      } catch (error) {
        this.#tell(error, "stopping the worker");
      }
    }
  }

  /** Resolves when nothing of its queues is pending or running, in any process; tasks for later do not count. */
  async idle(): Promise<void> {
    while (this.#running.size > 0 || !(await this.#engine.store.idle(this.#options.queueName))) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 100);
        this.#quiet.once("turn", () => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  // ---- turns ---------------------------------------------------------------------------------

  #lookForWork(): void {
    this.#mayHaveWork = true;
    if (this.#state === "running") this.#schedule();
  }

  /** A turn in the next phase of the event loop: what ends in this tick is settled in one transaction. */
  #schedule(): void {
    this.#again = true;
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#takeTurn());
  }

  async #takeTurn(): Promise<void> {
    this.#again = false;
    const ended = this.#ended;
    this.#ended = [];
    try {
      // A task that has finished takes no more notes: its last one goes first.
      if (ended.length > 0) await this.#flushProgress();
      await this.#turn(ended);
      this.#failures = 0;
    } catch (error) {
      this.#ended = [...ended, ...this.#ended];
      this.#mayHaveWork = true;
      await this.#afterFailure(error);
      this.#again = true;
    }
    this.#scheduled = false;
    this.#quiet.emit("turn");
    if (this.#again && this.#state !== "stopped") this.#schedule();
  }

  async #turn(ended: readonly Ended[]): Promise<void> {
    const free = this.#options.concurrency - this.#running.size + ended.length;
    const claiming = this.#state === "running" && this.#mayHaveWork && free > 0;
    if (ended.length === 0 && !claiming) return;
    const { queueName: queueNames } = this.#options;
    const claim = claiming
      ? { workerId: this.#id, queueNames, funcs: this.#funcs(), limit: free }
      : undefined;
    if (claiming) this.#mayHaveWork = false;
    const result = await this.#engine.store.turn({ outcomes: ended.map(({ outcome }) => outcome), claim });
    await this.#settled(ended, result.settled);
    if (!result.registered) await this.#declaredDead();
    // Fewer than asked for: there are no more, until a hint or the poll says otherwise.
    if (claiming && result.claimed.length === free) this.#lookForWork();
    this.#startAll(result);
  }

  async #afterFailure(error: unknown): Promise<void> {
    this.#failures += 1;
    this.#tell(error, "settling and claiming");
    const delay = Math.min(50 * 2 ** Math.min(this.#failures, 7), 5_000) * (0.5 + Math.random() / 2);
    await new Promise((resolve) => setTimeout(resolve, delay));
  }

  #funcs(): string[] {
    const { tasks } = this.#options;
    return tasks ? tasks.map((fn) => registrationOf(fn).definition.name) : registeredNames();
  }

  #startAll({ claimed }: TurnResult): void {
    for (const record of claimed) {
      const definition = definitionNamed(record.func);
      if (!definition) continue; // cannot be: only registered names are claimed, and none is ever unregistered
      const attempt = new RunningAttempt(record, definition, this.#host);
      this.#running.set(record.id, attempt);
      if (this.#state === "running") this.#emitTask("started", () => taskOf(record));
      else attempt.interrupt();
      void attempt.run().then((outcome) => this.#end(attempt, outcome));
    }
  }

  #end(attempt: RunningAttempt, outcome: Outcome | undefined): void {
    if (outcome) {
      this.#ended.push({ attempt, outcome });
    } else {
      this.#forget(attempt);
      this.#tellSettled(attempt.record, undefined);
      this.#mayHaveWork = true;
    }
    this.#schedule();
  }

  /** A task that was rescued, and claimed again by this very worker, has a newer attempt under its id. */
  #forget(attempt: RunningAttempt): void {
    const { id } = attempt.record;
    if (this.#running.get(id) === attempt) this.#running.delete(id);
  }

  async #settled(ended: readonly Ended[], settled: readonly boolean[]): Promise<void> {
    if (ended.length === 0) return;
    const refused = ended.filter((_, i) => !settled[i]).map(({ attempt }) => attempt);
    const lost = await this.#lostAmong(refused);
    for (const { attempt, outcome } of ended) {
      this.#forget(attempt);
      if (lost.includes(attempt)) this.#tellSettled(attempt.record, undefined);
      else this.#tellSettled(attempt.record, refused.includes(attempt) ? completedWithin(outcome) : outcome);
    }
    this.#engine.hints.ended(ended.map(({ outcome }) => outcome.id));
  }

  // ---- still its own? ------------------------------------------------------------------------

  /** Tasks may have been cancelled, or this worker taken for dead: then their handlers hear of it by their signals. */
  async #checkStandings(): Promise<void> {
    if (this.#running.size === 0) return;
    try {
      const attempts = [...this.#running.values()];
      const standings = new Map<number, Standing>();
      for (const standing of await this.#standings(attempts)) standings.set(standing.id, standing);
      for (const attempt of attempts) {
        const standing = standings.get(attempt.record.id);
        if (isLost(attempt, standing)) attempt.lose(reasonOf(attempt.record, standing));
      }
    } catch (error) {
      this.#tell(error, "looking after running tasks");
    }
  }

  async #lostAmong(attempts: readonly RunningAttempt[]): Promise<RunningAttempt[]> {
    if (attempts.length === 0) return [];
    const standings = new Map((await this.#standings(attempts)).map((standing) => [standing.id, standing]));
    return attempts.filter((attempt) => isLost(attempt, standings.get(attempt.record.id)));
  }

  #standings(attempts: readonly RunningAttempt[]): Promise<Standing[]> {
    return this.#engine.store.standings(attempts.map(({ record }) => record.id));
  }

  /** Others have taken this worker's tasks, and deleted its row: it goes on under the same name, with what is left. */
  async #declaredDead(): Promise<void> {
    try {
      await this.#checkStandings();
      const known = await this.#engine.store.workers();
      if (this.#state === "running" && !known.some(({ id }) => id === this.#id)) await this.#register();
      this.#lookForWork();
    } catch (error) {
      this.#tell(error, "registering the worker again");
    }
  }

  // ---- progress and events -------------------------------------------------------------------

  #noteProgress(record: TaskRecord, progress: number, note: string | null): void {
    if (this.#progress.size === 0) setTimeout(() => this.#flushProgress(), progressEvery).unref();
    this.#progress.set(record.id, { record, progress, note });
  }

  async #flushProgress(): Promise<void> {
    const notes = [...this.#progress.values()];
    this.#progress.clear();
    if (notes.length === 0) return;
    try {
      await this.#engine.store.progress(
        notes.map(({ record: { id, generationId }, progress, note }) => ({
          id,
          generationId,
          progress,
          note,
        })),
      );
    } catch (error) {
      this.#tell(error, "noting progress");
    }
  }

  #tellSettled(record: TaskRecord, outcome: Outcome | undefined): void {
    const event = outcome ? eventOf[outcome.kind] : "lost";
    this.#emitTask(event, () => taskOf(outcome ? settledRecord(record, outcome) : record));
    if (settledChannel.hasSubscribers) {
      settledChannel.publish({
        task: taskOf(record),
        kind: outcome?.kind ?? "lost",
        accepted: outcome !== undefined,
      });
    }
  }

  #tellRescued(workerId: string, tasks: number): void {
    rescuedChannel.publish({ workerId, tasks });
    this.#emit("rescued", { workerId, tasks });
  }

  #emitTask(event: keyof WorkerEvents, task: () => Task): void {
    if (this.listenerCount(event) > 0) this.#emit(event as "completed", task());
  }

  /** A listener that throws is reported, and hurts nobody. */
  #emit<E extends keyof WorkerEvents>(event: E, ...args: WorkerEvents[E]): void {
    guarded(`a listener of the worker's "${event}"`, () => (this as EventEmitter).emit(event, ...args));
  }

  #tell(error: unknown, where: string): void {
    if (this.listenerCount("error") > 0) this.#emit("error", error, where);
    else report(error, where);
  }
}

/** The task moved on by a hand that was not this attempt's. */
function isLost(attempt: RunningAttempt, standing: Standing | undefined): boolean {
  const held = attempt.record.generationId;
  if (standing?.generationId === held) return false;
  const byItself =
    attempt.completing && standing?.status === "completed" && standing.generationId === held + 1;
  return !byItself;
}

function reasonOf({ id, generationId }: TaskRecord, standing: Standing | undefined): Error {
  return standing === undefined || standing.status === "cancelled"
    ? new TaskCancelledError(id)
    : new LostGenerationError(id, generationId);
}

/** The handler had completed the task in a transaction of the app's, whatever it did after. */
function completedWithin({ id, generationId, workerId, startedAt }: Outcome): Outcome {
  return { id, generationId, workerId, startedAt, kind: "completed", result: null };
}

/** The record as an accepted outcome left it, by this process's clock. */
function settledRecord(record: TaskRecord, outcome: Outcome): TaskRecord {
  const now = Date.now();
  const moved = { ...record, generationId: record.generationId + 1, updatedAt: now };
  switch (outcome.kind) {
    case "completed":
      return { ...moved, status: "completed", result: outcome.result, error: null, finishedAt: now };
    case "failed":
    case "cancelled":
      return { ...moved, status: outcome.kind, error: outcome.error, finishedAt: now };
    case "retry":
      return {
        ...moved,
        status: "scheduled",
        error: outcome.error,
        retryCount: record.retryCount + 1,
        waitUntil: now + outcome.delay,
      };
    case "snoozed":
      return { ...moved, status: "scheduled", waitUntil: now + outcome.delay };
    case "interrupted":
      return { ...moved, status: "pending" };
  }
}
