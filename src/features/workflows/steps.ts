/** `dbq-ts/workflow`: what the function of a task may do in steps. */
import { type Duration, longestWait, milliseconds, moment } from "../../base/options/durations.ts";
import { callable, duration, integer, readOptions } from "../../base/options/validators.ts";
import { systemClock } from "../../base/runtime/clock.ts";
import { after } from "../../base/runtime/timers.ts";
import type { Enqueueable } from "../../base/tasks/enqueueable.ts";
import { registrationOf } from "../../base/tasks/registry.ts";
import { NotInTaskError } from "../../errors.ts";
import { prepare } from "../../queue/enqueue.ts";
import type { MaybePromise } from "../../store.ts";
import type { TaskId } from "../../task.ts";
import { runningAttempt } from "../../worker/task-context.ts";
import { internalsOf } from "../queue.ts";
import { asStep } from "./as-step.ts";
import { ChildStart } from "./child-start.ts";
import type { Wait } from "./contract.ts";
import { stepName } from "./names.ts";
import { type StepUndo, WorkflowRun } from "./run.ts";
import { type Tries, tried } from "./tries.ts";
import { type Settle, WaitPromise, waitsTogether } from "./wait-promise.ts";

/** How often a step, or its undo, is tried. */
export interface TryOptions {
  /** How often the step is tried again after a failure, before it rejects. @default 0 */
  maxRetries?: number;
  /** How long to wait before try number `retry` (1 before the second one). @default about 1 s, 2 s, 4 s, … 60 s */
  backoff?: (retry: number, error: unknown) => Duration;
  /** How long one try may take. The function is not stopped: it gets no signal but that of its task. @default no limit */
  timeout?: Duration;
}

/** How a step is tried again, within its attempt, and how it is undone. */
export interface StepOptions<T = unknown> extends TryOptions {
  /** What to do about the stored step when the task does not complete after all. @default nothing */
  undo?: Undo<[value: T]>;
}

/** A function that undoes a step, and how it is tried: 10 times again, unless `maxRetries` says otherwise. */
export type Undo<A extends unknown[]> =
  | ((...args: A) => unknown)
  | (TryOptions & {
      /** Undoes the step. */
      run: (...args: A) => unknown;
    });

const tryReaders = {
  maxRetries: integer(0, 1_000),
  backoff: callable<NonNullable<TryOptions["backoff"]>>,
  timeout: duration({ min: 1 }),
};

const undoReaders = { ...tryReaders, run: callable<StepUndo["undo"]> };

/** @throws TypeError */
function readUndo(given: unknown, name: string, inTransaction = false): StepUndo {
  const { run, maxRetries, backoff, timeout } = readOptions<{ run: StepUndo["undo"] } & Partial<Tries>>(
    typeof given === "function" ? { run: given } : given,
    name,
    undoReaders,
  );
  callable(run, `${name}: run`);
  return { undo: run as StepUndo["undo"], inTransaction, maxRetries: maxRetries ?? 10, backoff, timeout };
}

const stepReaders = { ...tryReaders, undo: (value: unknown, name: string) => readUndo(value, name) };
const withinReaders = { undo: (value: unknown, name: string) => readUndo(value, name, true) };

/** The workflow of the task that runs in this async context; undefined: none does. */
function currentRun(what: string): WorkflowRun | undefined {
  const attempt = runningAttempt();
  if (!attempt) return undefined;
  if (!attempt.part)
    throw new TypeError(
      `${what}: only the function of a task can do this, where it has the queue's database: not a hook, and not a function that runs in a thread, a process or an agent`,
    );
  refuseInStep(what);
  return attempt.part((port) => new WorkflowRun(port));
}

/** Once a step is stored, its function is not called. A step inside of it would shift the numbers of repeated names. */
function refuseInStep(what: string): void {
  const { step } = runningAttempt() ?? {};
  if (step !== undefined)
    throw new TypeError(
      `${what}: a step has no steps, waits or children of its own: call it outside of step ${JSON.stringify(step)}`,
    );
}

/** @throws NotInTaskError */
function runOfTask(what: string): WorkflowRun {
  const run = currentRun(what);
  if (!run) throw new NotInTaskError(`${what}()`);
  return run;
}

// ---- step --------------------------------------------------------------------------------------

/**
 * Runs `fn` once, until it succeeds: its value is stored, and a later attempt of the task gets the value and does not call `fn`.
 * When `fn` throws, the step rejects; what the function does not catch fails the attempt, as usual. Outside of a task, `fn` is
 * called and nothing is stored.
 * @param name names the step among those of its task; a repeated name gets a number, by the order of the calls
 * @throws NotSerializableError, PayloadTooLargeError for a value that cannot be stored; the signal's reason once the attempt is
 * aborted
 */
export const step: Step = Object.assign(
  <T>(name: string, fn: () => T, options?: StepOptions<Awaited<T>>): Promise<Awaited<T>> => {
    // It throws and does not reject: a transaction on SQLite awaits nothing.
    refuseInStep("step");
    return stepAlone(name, fn, options);
  },
  {
    within: <T>(...call: Parameters<typeof stepWithin<T>>): Promise<Awaited<T>> => {
      refuseInStep("step.within");
      return stepWithin(...call);
    },
  },
);

async function stepAlone<T>(
  name: string,
  fn: () => T,
  options?: StepOptions<Awaited<T>>,
): Promise<Awaited<T>> {
  const named = stepName(name, "step: name");
  callable(fn, `step "${named}"`);
  const read = readOptions<Partial<Tries> & { undo?: StepUndo }>(options, `step "${named}"`, stepReaders);
  const { maxRetries = 0, backoff, timeout, undo } = read;
  const run = currentRun("step");
  if (!run) return await fn();
  return await once(run, named, undo, async (key, startedAt) => {
    const value = await tried(asStep(run, key, fn), { maxRetries, backoff, timeout }, run.port.signal);
    await run.store(run.newStep(key, startedAt, value, undo !== undefined));
    return value;
  });
}

/** The value of the stored step of this name. Where there is none, that of `act`, which stores it. */
async function once<T>(
  run: WorkflowRun,
  name: string,
  undo: StepUndo | undefined,
  act: (key: string, startedAt: number) => Promise<T>,
): Promise<T> {
  const key = run.nameOf(name);
  const stored = await run.stored(key);
  if (stored && undo) run.met(key, undo);
  if (stored) return stored.value as T;
  return await run.runStep(key, async () => {
    const startedAt = run.now();
    try {
      return await act(key, startedAt);
    } catch (error) {
      run.failed(key, startedAt, error);
      throw error;
    }
  });
}

/** `step`, and `step.within`. */
export interface Step {
  <T>(name: string, fn: () => T, options?: StepOptions<Awaited<T>>): Promise<Awaited<T>>;
  /**
   * The same in a transaction of the queue's database: what `fn` writes by `tx` and the mark of the step are committed together, so
   * `fn` takes effect exactly once. Synchronous on SQLite.
   * @throws AsyncTransactionError on SQLite for an async `fn`; NotInTaskError outside of a task
   */
  within: StepWithin;
}

/** The queue's Drizzle transaction, whose type a function without its queue cannot know. */
// biome-ignore lint/suspicious/noExplicitAny: see above
export type StepTransaction = any;

/** `undo` gets a transaction, too. Its writes and the mark of the undone step are committed together. */
export type StepWithin = <T>(
  name: string,
  fn: (tx: StepTransaction) => T,
  options?: { undo?: Undo<[tx: StepTransaction, value: Awaited<T>]> },
) => Promise<Awaited<T>>;

async function stepWithin<T>(
  name: string,
  fn: (tx: unknown) => T,
  options?: { undo?: Undo<[tx: StepTransaction, value: Awaited<T>]> },
): Promise<Awaited<T>> {
  const run = runOfTask("step.within");
  const named = stepName(name, "step.within: name");
  callable(fn, `step.within "${named}"`);
  const { undo } = readOptions<{ undo?: StepUndo }>(options, `step.within "${named}"`, withinReaders);
  return await once(run, named, undo, (key, startedAt) => {
    const call = (tx: unknown) => asStep(run, key, () => fn(tx))() as MaybePromise<Awaited<T>>;
    return run.marked(`step.within "${name}"`, fn, call, (writes, value) =>
      writes.storeStep(run.port.record, run.newStep(key, startedAt, value, undo !== undefined)),
    );
  });
}

// ---- waits -------------------------------------------------------------------------------------

/** A wait for an event or a time. Its step may be stored already. */
function waiting<T>(run: WorkflowRun, wait: Wait): WaitPromise<T> {
  return new WaitPromise<T>(({ resolve, reject }) => {
    const begin = async () => {
      const stored = await run.stored(wait.name);
      if (stored) resolve(stored.value as T);
      else run.waitFor(wait, { resolve: (value) => resolve(value as T), reject });
    };
    begin().catch(reject);
  });
}

/**
 * Waits for a time, however long: the task needs no slot and no process meanwhile, and survives both.
 * @param time how long, such as `"2d"` or milliseconds, counted from when the sleep first began; or until when
 */
export function sleep(name: string, time: Duration | Date): Promise<void> {
  const named = stepName(name, "sleep: name");
  const until =
    time instanceof Date
      ? { at: moment(time, `sleep "${named}"`) }
      : { after: milliseconds(time, `sleep "${named}"`, longestWait) };
  const run = currentRun("sleep");
  if (!run) return plainly(until);
  const key = run.nameOf(named);
  return waiting<void>(run, { name: key, kind: "time", target: null, until, mode: null });
}

function plainly(until: { at: number } | { after: number }): Promise<void> {
  const delay = "at" in until ? until.at - systemClock.now() : until.after;
  return new Promise((resolve) => {
    after(Math.max(0, delay), resolve);
  });
}

/**
 * Waits for the event of this name, which `queue.emitEvent` emits, and gives its payload; also if it was emitted before.
 * @param options `timeout`: after which it gives `undefined`, counted from when the wait first began @default it waits for ever
 * @throws NotInTaskError outside of a task
 */
export function waitForEvent<T = unknown>(
  name: string,
  options?: { timeout?: Duration },
): Promise<T | undefined> {
  const target = stepName(name, "waitForEvent: name");
  const { timeout } = readOptions<{ timeout: number }>(options, "waitForEvent", {
    timeout: duration({ min: 0 }),
  });
  const run = runOfTask("waitForEvent");
  const key = run.nameOf(target);
  const until = timeout === undefined || timeout === Number.POSITIVE_INFINITY ? null : { after: timeout };
  return waiting<T | undefined>(run, { name: key, kind: "event", target, until, mode: null });
}

// ---- children ----------------------------------------------------------------------------------

/** `child`, and `child.start`. */
export interface Child {
  <F extends Enqueueable>(fn: F, ...args: Parameters<F>): Promise<Awaited<ReturnType<F>>>;
  /** Enqueues the child once, and gives its id without waiting for it. @throws as `child`, but for its result */
  start<F extends Enqueueable>(fn: F, ...args: Parameters<F>): Promise<TaskId<Awaited<ReturnType<F>>>>;
}

/**
 * Enqueues a task once, as a child of this one, and waits for its result.
 * @throws TaskFailedError when the child has failed for good; TaskCancelledError, TaskNotFoundError; as `queue.enqueueTask`;
 * NotInTaskError outside of a task
 */
export const child: Child = Object.assign(
  <F extends Enqueueable>(fn: F, ...args: Parameters<F>): Promise<Awaited<ReturnType<F>>> => {
    const run = runOfTask("child");
    let start: ChildStart;
    try {
      start = started(run, fn, args);
    } catch (error) {
      // `settled` hears of wrong arguments as of a child that fails.
      return new WaitPromise(({ reject }) => reject(error));
    }
    return new WaitPromise<Awaited<ReturnType<F>>>((settle, mode) => {
      start.listen((id) => run.waitForChild(start, id, mode, settle as Settle<unknown>), settle.reject);
    });
  },
  {
    start: <F extends Enqueueable>(
      fn: F,
      ...args: Parameters<F>
    ): Promise<TaskId<Awaited<ReturnType<F>>>> => {
      refuseInStep("child.start");
      return new Promise((resolve, reject) => {
        const start = started(runOfTask("child.start"), fn, args);
        start.listen((id) => resolve(id as TaskId<Awaited<ReturnType<F>>>), reject);
      });
    },
  },
);

function started(run: WorkflowRun, fn: Enqueueable, args: readonly unknown[]): ChildStart {
  const { definition } = registrationOf(fn, "child");
  const name = run.nameOf(definition.name);
  // Encoded now, since the caller may change the arguments. They do not matter if the child has started already.
  const call = run.hasChild(name)
    ? undefined
    : prepare(fn, args, internalsOf(run.port.queue).options.maxPayload);
  if (call?.refuse)
    throw new TypeError(
      `child: task "${definition.name}" has onDuplicate "error": a child whose uniqueKey another task holds is that task`,
    );
  const start = new ChildStart(name, definition.name, call);
  run.start(start);
  return start;
}

// ---- several at once ---------------------------------------------------------------------------

/**
 * As `Promise.all`, for children and steps in any mix. Of children alone, the task runs again once: when all have completed, or the
 * first one has failed. The others go on.
 */
export async function all<const T extends readonly unknown[] | []>(
  promises: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  together(promises, "all");
  return await Promise.all(promises);
}

/** As `Promise.allSettled`, for children and steps in any mix. */
export async function settled<const T extends readonly unknown[] | []>(
  promises: T,
): Promise<{ -readonly [K in keyof T]: PromiseSettledResult<Awaited<T[K]>> }> {
  together(promises, "settled");
  return await Promise.allSettled(promises);
}

/**
 * As `Promise.race`, for children and steps in any mix. The others go on. Which one was the first is stored: a later attempt gets
 * the same one, although others have ended meanwhile.
 * @throws TypeError for an empty list
 */
export async function race<const T extends readonly unknown[] | []>(
  promises: T,
): Promise<Awaited<T[number]>> {
  if (promises.length === 0)
    throw new TypeError("race: expected at least one promise: of none, none is the first");
  const run = currentRun("race");
  if (!run) return await Promise.race(promises);
  const key = run.nameOf("race");
  const stored = await run.stored(key);
  const first = stored ? Number(stored.value) : await Promise.race(promises.map(placeOf));
  if (!stored) await run.begin(() => run.store(run.newStep(key, run.now(), first)));
  return (await promises[first]) as Awaited<T[number]>;
}

/** The place of a promise, once it has settled. */
async function placeOf(promise: unknown, place: number): Promise<number> {
  await Promise.allSettled([promise]);
  return place;
}

function together(promises: readonly unknown[], kind: "all" | "settled"): void {
  const run = currentRun(kind);
  if (run) waitsTogether(promises, run.newMode(kind));
}
