/** The methods of a test queue: they run its tasks and move its clock. */
import { randomBytes } from "node:crypto";
import type { Duration } from "../../base/options/durations.ts";
import { taskId } from "../../base/options/options.ts";
import { wrong } from "../../base/options/validators.ts";
import type { TestClock } from "../../base/runtime/clock.ts";
import { mapMaybe } from "../../base/runtime/maybe-promise.ts";
import type { Enqueueable } from "../../base/tasks/enqueueable.ts";
import { registrationOf } from "../../base/tasks/registry.ts";
import { toTask } from "../../base/values/records.ts";
import { TaskNotFoundError } from "../../errors.ts";
import { report } from "../../events.ts";
import type { DialectOf } from "../../queue/drizzle.ts";
import { prepare } from "../../queue/enqueue.ts";
import type { MaybePromise } from "../../store.ts";
import type { Task, TaskRecord } from "../../task.ts";
import { openJobs } from "../../worker/feature.ts";
import type { Job } from "../../worker/periodic-job.ts";
import { runningAttempt } from "../../worker/task-context.ts";
import { type FullInternals, internalsOf, type Queue } from "../queue.ts";
import { rescueExpired, settleDue, soonest } from "./due.ts";
import {
  type AdvanceOptions,
  type ReadKitOptions,
  type RunOptions,
  readAdvanceOptions,
  readDrainOptions,
  readRunOptions,
  readStep,
  type TestDrainOptions,
} from "./options.ts";
import { type RunnerOptions, TestRunner } from "./runner.ts";

/** What `q.drain` has done, and what it has left. */
export interface TestDrainReport {
  /** Tasks that have completed. */
  completed: number;
  /** Tasks that have failed for good. */
  failed: number;
  /** Tasks that have ended as cancelled. */
  cancelled: number;
  /** Tasks of the queue that wait for a later time: a delay, the backoff of a retry, a snooze, or their turn at a rate. */
  scheduled: number;
  /** Workflows, groups and chains of the queue that wait: for a time, an event, or a task. */
  waiting: number;
  /**
   * Tasks of the queue that are pending still: more than `max`, paused, held back by a limit, or of a function that is not
   * registered.
   */
  pending: number;
  /** What each failed attempt threw, in the order in which they ended: of the tasks that failed, and of those that will be retried. */
  errors: unknown[];
}

/** On SQLite the value itself, on a server a promise of it. Either can be awaited. */
export type ReadNow<Db, T> = DialectOf<Db> extends "sqlite" ? T : Promise<T>;

/** What a test queue has beside the methods of a `Queue`. They may be destructured. */
export interface TestMethods<Db = unknown> {
  /** The time by the queue's clock, which stands still until `advance`. */
  now(): Date;

  /**
   * Moves the clock by a duration, or to a time. On the way, and in the order of their times, delayed tasks, retries and tasks at a
   * rate become pending, schedules fire, leases of dead workers run out, and running functions reach their timeout. No function
   * is called, unless `drain` is true: then what is due at each of these times runs at that time.
   * @throws TypeError for a wrong duration or option, and for a time that has passed; as `drain`; Error in a function that an advance
   * with `drain` runs
   */
  advance(by: Duration | Date, options?: AdvanceOptions): Promise<void>;

  /**
   * Runs pending tasks of all queues, and those that they enqueue, until none is left that may start now.
   * @throws TypeError for a wrong option; DatabaseError; Error after 10,000 attempts without a `max`; with `rethrow: true`, the error
   * of the first attempt that failed
   */
  drain(options?: TestDrainOptions): Promise<TestDrainReport>;

  /**
   * Enqueues a task and runs one attempt of it at once, whatever its delay says. Returns the task as the attempt has left it.
   * @throws the function's error, unless `rethrow` is false; as `enqueueTask`; Error when a limit or a pause holds the task back
   */
  run<F extends Enqueueable>(
    fn: F,
    args: Parameters<F>,
    options?: RunOptions,
  ): Promise<Task<Awaited<ReturnType<F>>>>;

  /**
   * Begins an attempt of a pending task, lets its function run until it first waits, and ends its worker as `kill -9` would: the
   * task stays `running` until the worker's lease of 15 s has run out by the clock, and is pending again then. JavaScript cannot
   * stop the function: its signal is aborted, and what it does later in its task's name is refused.
   * @returns the running task
   * @throws TaskNotFoundError; Error for a task that is not pending, or that a limit or a pause holds back
   */
  crash(id: number): Promise<Task>;

  /**
   * The tasks of a function, or all, oldest first: whatever was enqueued since the queue was opened or cleared, in any status. On
   * SQLite an array; on a server a promise of one.
   * @throws UnregisteredFunctionError
   */
  enqueued(fn?: Enqueueable | string): ReadNow<Db, Task[]>;

  /** Deletes all tasks, running ones too. Schedules, limits and pauses stay. */
  clear(): Promise<void>;
}

/** A queue whose time and work are the test's. */
export type TestQueue<Db = unknown> = Queue<Db> & TestMethods<Db>;

/** The most attempts of a `drain` that says no number. */
const mostAttempts = 10_000;

/** Tasks that one query reads, and one transaction deletes. */
const batch = 1_000;

/** Adds the methods of the kit to a queue that was opened with this clock. */
export function addTestMethods<Db>(
  queue: Queue<Db>,
  clock: TestClock,
  options: ReadKitOptions,
): TestQueue<Db> {
  const kit = new Kit(queue as Queue, clock, options);
  const methods: TestMethods = {
    now: () => new Date(clock.now()),
    advance: (by, given) => kit.advance(by, given),
    drain: (given) => kit.drain(given),
    run: ((fn, args, given) => kit.run(fn, args, given)) as TestMethods["run"],
    crash: (id) => kit.crash(id),
    enqueued: ((fn) => kit.enqueued(fn)) as TestMethods["enqueued"],
    clear: () => kit.clear(),
  };
  return Object.assign(queue, methods as TestMethods<Db>);
}

class Kit {
  readonly #queue: Queue;
  readonly #internals: FullInternals;
  readonly #clock: TestClock;
  readonly #options: ReadKitOptions;
  /** Those that are running, and when each has stopped. */
  readonly #runners = new Map<TestRunner, Promise<unknown>>();
  /** Calls of `run` that have no runner yet. */
  readonly #begins = new Set<Promise<unknown>>();
  /** The last call of `advance`: the next one begins when it has ended. */
  #advancing: Promise<void> = Promise.resolve();

  constructor(queue: Queue, clock: TestClock, options: ReadKitOptions) {
    this.#queue = queue;
    this.#internals = internalsOf(queue);
    this.#clock = clock;
    this.#options = options;
    this.#internals.beforeClose.add(async () => {
      for (const runner of this.#runners.keys()) runner.interrupt();
      await Promise.allSettled(this.#runners.values());
    });
  }

  // ---- time ----------------------------------------------------------------------------------

  advance(by: unknown, given: unknown): Promise<void> {
    const { drain = false } = readAdvanceOptions(given);
    const caller = runningAttempt()?.current.id;
    if ([...this.#runners.keys()].some((runner) => runner.isOfAdvance && runner.isCalling(caller)))
      return Promise.reject(
        new Error(
          "advance: an advance that drains runs this function and waits for its end: the clock moves no further before that",
        ),
      );
    const advanced = this.#advancing.then(() => this.#advance(readStep(by, this.#clock.now()), drain));
    this.#advancing = advanced.catch(() => undefined);
    return advanced;
  }

  async #advance(step: number, drains: boolean): Promise<void> {
    this.#internals.checkOpen();
    const end = this.#clock.now() + step;
    const jobs = openJobs(this.#queue, { workerId: "", onWork: () => this.#wake(), report });
    for (let left = step; ; ) {
      let next = await this.#settle(jobs);
      if (drains) {
        await this.#drain({}, true);
        next = await this.#settle(jobs);
      }
      if (left === 0) return;
      this.#clock.advance(Math.min(next ?? left, left));
      left = end - this.#clock.now();
    }
  }

  #wake(): void {
    this.#internals.wakeups.workAdded();
  }

  /** What a running `drain` or `run` can begin has begun, so that its timeout counts from before the next step of the clock. */
  async #begun(): Promise<void> {
    await Promise.allSettled(this.#begins);
    for (const runner of this.#runners.keys()) await runner.caughtUp();
  }

  async #beginning<T>(begin: () => Promise<T>): Promise<T> {
    const begun = begin();
    this.#begins.add(begun);
    try {
      return await begun;
    } finally {
      this.#begins.delete(begun);
    }
  }

  /** Does what is due now. Returns milliseconds until something else is; undefined: nothing is. */
  async #settle(jobs: readonly Job[]): Promise<number | undefined> {
    for (const runner of this.#runners.keys()) await runner.overdue();
    const waits = [await rescueExpired(this.#queue), await settleDue(this.#queue, jobs)];
    await this.#begun();
    for (const { nextDeadline } of this.#runners.keys())
      waits.push(nextDeadline && nextDeadline - this.#clock.now());
    return soonest(waits.filter((wait) => wait !== undefined && wait > 0));
  }

  // ---- all tasks -----------------------------------------------------------------------------

  drain(given: unknown): Promise<TestDrainReport> {
    return this.#drain(given, false);
  }

  /** @param isOfAdvance whether an `advance` waits for it */
  async #drain(given: unknown, isOfAdvance: boolean): Promise<TestDrainReport> {
    const { max = mostAttempts, rethrow = false, concurrency = 10, ...rest } = readDrainOptions(given);
    const runner = this.#runner({ ...rest, max, concurrency, stopAtFailure: rethrow, isOfAdvance });
    await this.#running(runner, async () => {
      for (let isBusy = true; isBusy; ) {
        isBusy = await runner.due();
        runner.queueNames = await this.#pendingQueues();
        if (runner.queueNames.length > 0 && runner.mayBegin) isBusy = (await runner.round()) > 0 || isBusy;
      }
    });
    const failure = runner.ended.find(({ kind }) => kind === "failed" || kind === "retry");
    if (rethrow && failure) throw failure.error;
    this.#internals.checkOpen();
    const done = await this.#reportOf(runner);
    if (!("max" in Object(given)) && done.pending > 0 && !runner.mayBegin)
      throw new Error(
        `drain: ${mostAttempts} attempts have run, and ${done.pending} tasks are pending still: does a task enqueue itself? Pass ` +
          "a `max` to run so many",
      );
    return done;
  }

  async #pendingQueues(): Promise<string[]> {
    const counts = await this.#internals.store.count({ status: ["pending"] });
    return [...new Set(counts.map(({ queueName }) => queueName))];
  }

  async #reportOf({ ended }: TestRunner): Promise<TestDrainReport> {
    const counts = await this.#internals.store.count({ status: ["scheduled", "waiting", "pending"] });
    const left = (status: string) =>
      counts.reduce((sum, each) => sum + (each.status === status ? each.count : 0), 0);
    const of = (kind: string) => ended.filter((each) => each.kind === kind).length;
    return {
      completed: of("completed"),
      failed: of("failed"),
      cancelled: of("cancelled"),
      scheduled: left("scheduled"),
      waiting: left("waiting"),
      pending: left("pending"),
      errors: ended.flatMap((each) => ("error" in each ? [each.error] : [])),
    };
  }

  #runner(options: Partial<RunnerOptions>): TestRunner {
    this.#internals.checkOpen();
    const { context, backoff } = this.#options;
    return new TestRunner(this.#queue, {
      context,
      backoff,
      clock: this.#clock,
      max: 1,
      concurrency: 1,
      ...options,
    });
  }

  async #running(runner: TestRunner, act: () => Promise<void>): Promise<void> {
    const ran = runner
      .start()
      .then(act)
      .finally(() => runner.stop())
      .finally(() => this.#runners.delete(runner));
    this.#runners.set(runner, ran);
    await ran;
  }

  // ---- one task ------------------------------------------------------------------------------

  async run(fn: Enqueueable, args: readonly unknown[], given: unknown): Promise<Task> {
    const { retryCount = 0, rethrow = true, ...rest } = readRunOptions(given);
    if (!Array.isArray(args)) throw wrong("run", "the function's arguments in an array", args);
    const { task, ...prepared } = prepare(fn, args, this.#internals.options.maxPayload);
    // It is due now, in a queue that no worker has until its attempt begins.
    const aside = { ...task, queueName: asideName(), delay: null, waitUntil: null };
    const record = await this.#beginning(async () => {
      const enqueued = await this.#internals.enqueue({ ...prepared, task: aside });
      return await this.#pending(enqueued, "run");
    });
    const { id } = record;
    const queueName = record.queueName === aside.queueName ? task.queueName : record.queueName;
    const runner = await this.#attempt({ ...record, queueName, retryCount }, "run", rest);
    const [ended] = runner.ended;
    if (rethrow && ended && "error" in ended) throw ended.error;
    this.#internals.checkOpen();
    return toTask(await this.#record(id));
  }

  async crash(given: unknown): Promise<Task> {
    this.#internals.checkOpen();
    const id = taskId(given, "crash");
    const record = await this.#pending(id, "crash");
    const death = new AbortController();
    const runner = await this.#attempt(record, "crash", {
      signal: death.signal,
      onCalled: (called) => {
        called.die();
        death.abort(new Error(`the worker of task ${id} has crashed`));
      },
    });
    if (runner.isDead) return toTask(await this.#record(id));
    throw new Error(
      `crash: the function of task ${id} was not called: ${(await this.#record(id)).error ?? ""}`,
    );
  }

  /** One attempt of this pending task. Meanwhile the task is in a queue of its own, so that the claim takes no other one. */
  async #attempt(record: TaskRecord, method: string, options: Partial<RunnerOptions>): Promise<TestRunner> {
    const { testing } = this.#internals.store;
    const queueName = asideName();
    let isClaimed = false;
    const runner = this.#runner({
      ...options,
      onClaimed: async (claimed) => {
        isClaimed = true;
        claimed.queueName = record.queueName;
        await testing.place(record);
      },
    });
    runner.queueNames = [queueName];
    await this.#running(runner, async () => {
      try {
        await testing.place({ ...record, queueName });
        await runner.round();
      } finally {
        if (!isClaimed) await testing.place(record);
      }
    });
    if (isClaimed) return runner;
    this.#internals.checkOpen();
    throw new Error(
      `${method}: task ${record.id} of "${record.func}" cannot start: it is paused, a limit lets none start now, or no function has this name`,
    );
  }

  async #record(id: number): Promise<TaskRecord> {
    const [record] = await this.#internals.store.get([id]);
    if (record) return record;
    throw new TaskNotFoundError(id);
  }

  async #pending(id: number, method: string): Promise<TaskRecord> {
    const record = await this.#record(id);
    if (record.status === "pending") return record;
    const when = record.waitUntil === null ? "" : ` until ${new Date(record.waitUntil).toISOString()}`;
    const until = record.status === "scheduled" ? `${when}: advance the clock first` : "";
    throw new Error(`${method}: expected a pending task, got task ${id}, which is ${record.status}${until}`);
  }

  // ---- what was enqueued ---------------------------------------------------------------------

  enqueued(fn: unknown): MaybePromise<Task[]> {
    this.#internals.checkOpen();
    const func = fn === undefined || typeof fn === "string" ? fn : registrationOf(fn).definition.name;
    return mapMaybe(this.#list(func, undefined), (records) => records.reverse().map((each) => toTask(each)));
  }

  /** The newest first. */
  #list(func: string | undefined, after: number | undefined): MaybePromise<TaskRecord[]> {
    return mapMaybe(this.#internals.store.testing.list({ func }, batch, after), (found) => {
      if (found.length < batch) return found;
      return mapMaybe(this.#list(func, found.at(-1)?.id), (older) => [...found, ...older]);
    });
  }

  async clear(): Promise<void> {
    this.#internals.checkOpen();
    const { store, wakeups } = this.#internals;
    for (let last: number | undefined = 0; last !== undefined; )
      ({ last } = await store.purge({ includeRunning: true }, batch, last));
    wakeups.taskChanged();
  }
}

/** A queue that no other worker has. */
const asideName = () => `dbq-test-${randomBytes(6).toString("hex")}`;
