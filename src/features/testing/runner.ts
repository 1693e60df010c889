/**
 * Runs tasks as a worker does, but only when the test says so: with a worker's dispatcher, limits and row, and without its timers.
 * So it knows when nothing is left that may start.
 */
import { randomBytes } from "node:crypto";
import type { TestClock } from "../../base/runtime/clock.ts";
import { thisProcess } from "../../base/runtime/process-identity.ts";
import { definitionNamed, runnableNames } from "../../base/tasks/registry.ts";
import { NotInTaskError, toError } from "../../errors.ts";
import { report } from "../../events.ts";
import type { Outcome, SettleAndClaim, SettleAndClaimResult } from "../../store.ts";
import type { TaskError, TaskRecord } from "../../task.ts";
import type { ClaimPolicy } from "../../worker/claim-policy.ts";
import { Dispatcher } from "../../worker/dispatcher.ts";
import type { DispatcherHost } from "../../worker/dispatcher-host.ts";
import { WorkerEmitter } from "../../worker/events.ts";
import type { Executors } from "../../worker/executor.ts";
import { living } from "../../worker/failure-detector.ts";
import { attemptFeatures, openClaims, openExecutors, openJobs, openMeter } from "../../worker/feature.ts";
import { type Meter, meterOutcome } from "../../worker/meter.ts";
import type { HostedCode, Job } from "../../worker/periodic-job.ts";
import { type FullInternals, internalsOf, type Queue } from "../queue.ts";
import { Calls } from "./calls.ts";
import { settleDue } from "./due.ts";

/** Milliseconds without a heartbeat after which a worker of the kit counts as dead: the default of `Worker`. */
const lease = 15_000;

/** Milliseconds after which an advance no longer waits for a claim: the database does not answer. */
const longestCycle = 5_000;

/** Milliseconds, or undefined: what the function says. */
export type OwnBackoff = ((retryCount: number, error: unknown) => number) | undefined;

export interface RunnerOptions {
  readonly clock: TestClock;
  readonly context: unknown;
  readonly concurrency: number;
  /** The most attempts that it begins. */
  readonly max: number;
  readonly backoff: OwnBackoff;
  readonly signal?: AbortSignal | undefined;
  /** No attempt begins after one that failed. */
  readonly stopAtFailure?: boolean;
  /** Whether `advance` has made this runner, and returns only when the runner has run all due tasks. @default false */
  readonly isOfAdvance?: boolean;
  /** Called with each claimed task before its attempt begins. */
  onClaimed?(record: TaskRecord): Promise<void>;
  /** A function was called, and has returned or waits for something. */
  onCalled?(runner: TestRunner): void;
}

/** An attempt that has ended, and what it threw if it failed. */
export interface Ended {
  record: TaskRecord;
  kind: Outcome["kind"] | "lost";
  error?: unknown;
}

type Failure = Extract<Outcome, { kind: "failed" | "retry" }>;
type Retry = Extract<Outcome, { kind: "retry" }>;

/** A claim that somebody may wait for. */
class Look {
  end: () => void = () => undefined;
  readonly ended = new Promise<void>((resolve) => {
    this.end = resolve;
  });
}

const isFailure = (outcome: Outcome): outcome is Failure =>
  outcome.kind === "failed" || outcome.kind === "retry";

export class TestRunner extends WorkerEmitter {
  readonly id = `${thisProcess().host}:${process.pid}:test-${randomBytes(4).toString("hex")}`;
  readonly ended: Ended[] = [];
  /** The queues whose tasks the next round claims. */
  queueNames: readonly string[] = [];
  readonly #queue: Queue;
  readonly #internals: FullInternals;
  readonly #options: RunnerOptions;
  readonly #claims: ClaimPolicy;
  readonly #executors: Executors;
  readonly #meter: Meter;
  readonly #dispatcher: Dispatcher;
  readonly #calls: Calls;
  readonly #jobs: Job[];
  readonly #undo: (() => void)[] = [];
  /** Ends with the claim that comes next, or when nothing is left to claim. */
  #look = new Look();
  #left: number;
  #started = 0;
  #isDead = false;
  #isClosing = false;
  #isStopped = false;
  #failure: { error: unknown } | undefined;

  constructor(queue: Queue, options: RunnerOptions) {
    super();
    this.#queue = queue;
    this.#internals = internalsOf(queue);
    this.#options = options;
    this.#left = options.max;
    this.#calls = new Calls({
      clock: options.clock,
      signal: options.signal,
      onCalled: () => options.onCalled?.(this),
    });
    const { concurrency } = options;
    const { maxPayload } = this.#internals.options;
    this.#executors = openExecutors(queue, { concurrency, maxTasksPerChild: 100, maxPayload, report });
    this.#meter = openMeter(queue, { workerId: this.id, report });
    this.#claims = openClaims(queue, {
      names: () => runnableNames(undefined),
      onReady: () => this.#dispatcher.lookForWork(),
      report,
    });
    this.#dispatcher = new Dispatcher(this.#host());
    this.#jobs = this.#openJobs();
  }

  #openJobs(): Job[] {
    const { context } = this.#options;
    const code: HostedCode = {
      definitionOf: (_, func) => definitionNamed(func),
      context,
      takeOn: (claim) => this.#dispatcher.takeOn(claim),
    };
    return openJobs(this.#queue, {
      workerId: this.id,
      code,
      onWork: () => this.#dispatcher.lookForWork(),
      report,
    });
  }

  #host(): DispatcherHost {
    const runner = this;
    const { wakeups, options } = this.#internals;
    const executors = new Map<unknown, ReturnType<Calls["over"]>>();
    return {
      store: this.#store(),
      wakeups,
      featuresOf: (hasFreeSlot) => attemptFeatures(runner.#queue, hasFreeSlot),
      workerId: this.id,
      get queueNames() {
        return runner.queueNames;
      },
      concurrency: this.#options.concurrency,
      context: this.#options.context,
      maxPayload: options.maxPayload,
      clock: this.#options.clock,
      executorOf: (definition) => {
        const known = executors.get(definition) ?? this.#calls.over(this.#executors.executorOf(definition));
        executors.set(definition, known);
        return known;
      },
      claims: this.#claims,
      onDeclaredDead: () => this.#note(new Error("another worker has declared the test kit's worker dead")),
      onScheduled: () => undefined,
      onClaim: (_, expired) => {
        wakeups.taskNoted();
        if (expired) wakeups.taskChanged(expired);
      },
      reportStarted: (record) => {
        this.#started += 1;
        this.reportStarted(record);
      },
      reportSettled: (record, outcome, ranMs) => this.#settled(record, outcome, ranMs),
      reportLost: (record, cancelled) => {
        this.#calls.end(record);
        this.ended.push({ record, kind: cancelled ? "cancelled" : "lost" });
        this.reportLost(record, cancelled);
      },
      reportHeldUp: (record) => this.#calls.end(record),
      reportError: (error, where) => {
        if (where === "settling and claiming") this.#note(error);
        else report(error, where);
      },
    };
  }

  /** The queue's store, which a dead worker reaches no more. */
  #store(): DispatcherHost["store"] {
    const { store } = this.#internals;
    const unlessDead =
      <A extends unknown[]>(write: (...args: A) => Promise<void>) =>
      async (...args: A) =>
        void (this.#isDead || (await write(...args)));
    return {
      ...store,
      settleAndClaim: (cycle) => this.#settleAndClaim(cycle),
      progress: unlessDead(store.progress),
      log: unlessDead(store.log),
      within: (tx) => {
        if (this.#isDead) throw new NotInTaskError();
        return store.within(tx);
      },
    };
  }

  async #settleAndClaim(cycle: SettleAndClaim): Promise<SettleAndClaimResult> {
    const { backoff, onClaimed, stopAtFailure } = this.#options;
    for (const outcome of cycle.outcomes) {
      // A task that was claimed ahead and handed back has not begun.
      if (outcome.kind === "interrupted") this.#left += 1;
      if (stopAtFailure && isFailure(outcome)) this.#left = 0;
      if (outcome.kind === "retry" && backoff) outcome.delay = this.#backoffOf(outcome, backoff);
    }
    const claim = cycle.claim && this.#left > 0 ? { ...cycle.claim } : undefined;
    if (claim) claim.limit = Math.min(claim.limit, this.#left);
    const result = await this.#internals.store.settleAndClaim({ ...cycle, claim });
    this.#left -= result.claimed.length;
    for (const record of result.claimed) await onClaimed?.(record);
    return result;
  }

  /** If the test's `backoff` throws or gives no duration, its error is the drain's, and the function's own backoff counts. */
  #backoffOf({ id, delay }: Retry, backoff: NonNullable<OwnBackoff>): number {
    const { record, error } = this.#calls.thrownBy(id) ?? {};
    try {
      return backoff((record?.retryCount ?? 0) + 1, error);
    } catch (wrong) {
      this.#note(wrong);
      return delay;
    }
  }

  #settled(record: TaskRecord, outcome: Outcome, ranMs: number | undefined): void {
    const threw = this.#calls.end(record);
    const { kind } = outcome;
    // A timeout and a result that cannot be stored are errors that the function has not thrown.
    const stored = isFailure(outcome) ? (JSON.parse(outcome.error) as TaskError) : undefined;
    const isThrown = threw && stored && String(Object(threw.error).message ?? threw.error) === stored.message;
    if (stored) this.ended.push({ record, kind, error: isThrown ? threw.error : toError(stored) });
    else this.ended.push({ record, kind });
    meterOutcome(this.#meter, record, outcome, ranMs);
    this.reportSettled(record, outcome, this.#options.clock);
  }

  #note(error: unknown): void {
    this.#failure ??= { error };
  }

  // ---- start and stop ------------------------------------------------------------------------

  /** Registers a worker. @throws DatabaseError */
  async start(): Promise<void> {
    const { store, wakeups } = this.#internals;
    const { concurrency } = this.#options;
    living.add(this.id);
    await this.#claims.begin();
    await store.register({ id: this.id, queueNames: ["default"], concurrency, lease, ...thisProcess() });
    this.#undo.push(
      wakeups.onWorkAdded(() => this.#dispatcher.lookForWork()),
      wakeups.onTaskChanged((ids) => void this.#dispatcher.ownership.check(ids)),
    );
  }

  /** Waits for what runs, and undoes the start. @throws what has kept it from claiming or settling */
  async stop(): Promise<void> {
    if (!this.#isDead) {
      const running = this.#jobs.flatMap((job) => job.running ?? []);
      for (const each of [this.#dispatcher, ...running]) each.stopClaiming();
      await Promise.all([this.#dispatcher, ...running].map((each) => each.drained()));
    }
    this.#isStopped = true;
    this.#look.end();
    for (const undo of this.#undo.splice(0)) undo();
    living.delete(this.id);
    await this.#executors.close();
    await this.#meter.close();
    if (!this.#isDead) await this.#internals.store.unregister(this.id);
    if (this.#failure) throw this.#failure.error;
  }

  /** Hands back what runs: the queue closes. */
  interrupt(): void {
    this.#isClosing = true;
    this.#dispatcher.stopClaiming();
    this.#dispatcher.interrupt();
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** As if its process had been killed: its tasks stay `running`, and its row stays, without a heartbeat from now on. */
  die(): void {
    this.#isDead = true;
    this.#dispatcher.abandon();
  }

  // ---- rounds --------------------------------------------------------------------------------

  /** Makes due tasks pending, calls the hooks that crashes owe, and undoes steps. Returns whether that has begun something. */
  async due(): Promise<boolean> {
    await settleDue(this.#queue, this.#jobs);
    const isBusy = this.#isBusy();
    while (this.#isBusy()) {
      if (this.#dispatcher.inflight > 0) this.#look.end();
      await this.#dispatcher.cycleEnd();
    }
    return isBusy;
  }

  /** Claims tasks and runs them until none is left that may start. Returns how many attempts it has begun. */
  async round(): Promise<number> {
    const before = this.#started;
    // A claim that is under way may ask for the queues of the round before, and find nothing there.
    while (this.#dispatcher.isCycling && !this.#isDead) await this.#dispatcher.cycleEnd();
    if (!this.mayBegin) return 0;
    this.#dispatcher.lookForWork();
    do {
      await this.#dispatcher.cycleEnd();
      this.#look.end();
    } while (this.#isBusy());
    this.#look = new Look();
    return this.#started - before;
  }

  /** Whether attempts run, or may begin by a claim that is under way. */
  #isBusy(): boolean {
    return !this.#isDead && (this.#dispatcher.inflight > 0 || this.#dispatcher.isCycling);
  }

  /** Resolves when the tasks that are pending now have begun, or no slot is free. */
  async caughtUp(): Promise<void> {
    await this.#look.ended;
    const goesOn = () => this.mayBegin && !this.#isStopped && this.#dispatcher.inflight > 0;
    for (let before = -1; before < this.#started && goesOn(); ) {
      before = this.#started;
      this.#dispatcher.lookForWork();
      await this.#dispatcher.cycleEnd(longestCycle);
      // That was the end of a cycle that had begun before: the one asked for follows it.
      if (this.#dispatcher.isCycling) await this.#dispatcher.cycleEnd(longestCycle);
    }
  }

  /** Whether another attempt may begin. */
  get mayBegin(): boolean {
    return this.#left > 0 && !this.#isClosing && !this.#isDead && this.#failure === undefined;
  }

  get isOfAdvance(): boolean {
    return this.#options.isOfAdvance === true;
  }

  /** Whether it has called the function of this task, which runs still. */
  isCalling(id: number | undefined): boolean {
    return this.#calls.has(id);
  }

  /** The time by which the next of the running functions times out; undefined: none does. */
  get nextDeadline(): number | undefined {
    return this.#calls.nextDeadline;
  }

  /** Resolves when all functions whose timeout has passed have ended. */
  async overdue(): Promise<void> {
    const isOverdue = () => (this.nextDeadline ?? Number.POSITIVE_INFINITY) <= this.#options.clock.now();
    while (isOverdue() && !this.#isDead) await this.#dispatcher.cycleEnd();
  }
}
