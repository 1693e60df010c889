/**
 * One attempt to run a task: decode the arguments, call `beforeRun`, call the function through its executor, turn the
 * result into an outcome, and call `onSuccess` or `onFailure`. It always ends in one outcome, whatever the function
 * does.
 */

import { longestWait, milliseconds } from "../base/options/durations.ts";
import { systemClock } from "../base/runtime/clock.ts";
import { mapMaybe } from "../base/runtime/maybe-promise.ts";
import { after, performance, type Timer } from "../base/runtime/timers.ts";
import type { WithinResult } from "../base/runtime/within-result.ts";
import { CancelTask, SnoozeTask, ThrottleTask } from "../base/tasks/control-errors.ts";
import type { AttemptOutcome } from "../base/tasks/history.ts";
import type { TaskDefinition } from "../base/tasks/registry.ts";
import { isWorthRetry, retryDelay } from "../base/tasks/retry-policy.ts";
import { checkSize, decodeArgs, decodeObject, encode } from "../base/values/codec.ts";
import { endingOf, isEnding } from "../base/values/ending.ts";
import { errorOf, toTask } from "../base/values/records.ts";
import { describeThrown, failureOf, isA, isUnreadable } from "../base/values/thrown.ts";
import {
  anotherTryAfter,
  ChildEndedError,
  KeyMissingError,
  LostGenerationError,
  timeoutError,
  toError,
  WorkerStoppedError,
} from "../errors.ts";
import type { MaybePromise, Outcome } from "../store.ts";
import type { JsonObject, Task, TaskRecord } from "../task.ts";
import type { AttemptHost } from "./attempt-host.ts";
import type { AttemptFeatures, AttemptPart, AttemptPort, PartOf } from "./attempt-part.ts";
import { AttemptTrace, type CallEnd } from "./attempt-trace.ts";
import { checkedResult } from "./checked-call.ts";
import { DecidedEnd } from "./decided-end.ts";
import type { Execution, Executor } from "./executor.ts";
import { FinalFailure } from "./final-failure.ts";
import { runHook } from "./hooks.ts";
import { AttemptLog } from "./logs.ts";
import { setAsideFor } from "./set-aside.ts";
import { LazyAbort, type RunningTask, runAs, runningTask } from "./task-context.ts";

/** Milliseconds that a completion in the function's own transaction, or a feature, waits until the log is written. */
const logWriteMs = 100;

/** The monotonic clock. It wraps around: a difference is right up to 37 hours. */
const sixteenths = (): number => (performance.now() * 16) | 0;

type Failure = { error: unknown; as: AttemptOutcome; final: boolean };

/**
 * The hot path creates nothing that most tasks do not need: AbortController, timer and `currentTask()` are created on
 * first use, and the only promise is the function's own (a promise costs about 0.5 µs while an AsyncLocalStorage is in
 * use).
 */
export class RunningAttempt implements Execution {
  readonly record: TaskRecord;
  readonly definition: TaskDefinition;
  /** Of the `Bag` that it is in. */
  place = -1;
  readonly #host: AttemptHost;
  readonly #executor: Executor;
  readonly #onEnd: (attempt: RunningAttempt, outcome: Outcome | undefined) => void;
  readonly #abort = new LazyAbort(this);
  #kwargs: JsonObject = {};
  #current: RunningTask | undefined;
  /** Undefined: the function has logged nothing. */
  #log: AttemptLog | undefined;
  #phase: "claimed" | "started" | "calling" | "called" | "finished" = "claimed";
  /** The attempt no longer decides about the task: another program changed it, or the worker hands it back. */
  #released: "lost" | "interrupted" | "left" | undefined;
  /** The row of a lost task, when it was cancelled during the attempt. */
  #cancelled: TaskRecord | undefined;
  #timedOut: Error | undefined;
  /** When the function was called, in sixteenths of a millisecond: small integers, which need no memory of their own. */
  #calledAt = 0;
  /** How long its call took, in the same unit; -1: it has not ended. */
  #took = -1;
  /** The timeout; after an abort, the time that the function has left to settle. */
  #timer: Timer | undefined;
  /** Stops waiting for the function or the hook that is running. */
  #stopWaiting: () => void = () => undefined;
  #trace: AttemptTrace | undefined;
  #part: AttemptPart | undefined;
  #partOf: PartOf | undefined;
  /** The completion that the function wrote in its own transaction. That transaction may have been rolled back. */
  #completedWithin: { value: unknown; outcome: Outcome } | undefined;
  /** The error of a completion in the function's own transaction that the database would refuse again. */
  #refusal: unknown;

  /** `onEnd` is called once; without an outcome when the task was lost, since there is nothing to settle. */
  constructor(
    record: TaskRecord,
    definition: TaskDefinition,
    host: AttemptHost,
    onEnd: (attempt: RunningAttempt, outcome: Outcome | undefined) => void,
  ) {
    this.record = record;
    this.definition = definition;
    this.#host = host;
    this.#executor = host.executorOf(definition);
    this.#onEnd = onEnd;
  }

  /** The outcome that the function wrote in its own transaction, committed or not. */
  get completedWithin(): Outcome | undefined {
    return this.#completedWithin?.outcome;
  }

  /** The row of a lost task, when it was cancelled during the attempt. */
  get cancelled(): TaskRecord | undefined {
    return this.#cancelled;
  }

  /** Whether it has neither started nor ended. */
  get isClaimed(): boolean {
    return this.#phase === "claimed";
  }

  /** Whether another program has decided the end of the task during the attempt, and a feature holds it up. */
  isHeldUp = false;

  /** Whether a feature has ended the attempt without an outcome. */
  get hasLeft(): boolean {
    return this.#released === "left";
  }

  /** Whether a feature may have written something about the task. */
  get hasParts(): boolean {
    return this.#part !== undefined || this.record.rootId !== null;
  }

  /** Whether the attempt is part of an end that is held up. */
  get #isEnding(): boolean {
    return isEnding(this.record);
  }

  /** How long the function ran, in milliseconds; undefined: its call has not begun, or has not ended. */
  get ranMs(): number | undefined {
    return this.#took < 0 ? undefined : this.#took / 16;
  }

  /** What `currentTask()` returns inside the function. */
  get current(): RunningTask {
    this.#current ??= runningTask({
      record: this.record,
      kwargs: this.#kwargs,
      context: this.#host.context,
      signal: () => this.#abort.signal,
      noteProgress: (progress, note) => this.#host.noteProgress(this.record, progress, note),
      log: (message) => this.#addToLog(message),
      group: () => this.#host.features?.groupOf(this.record),
      completeWithin: (tx, result) => this.#completeChecked(tx, result),
    });
    return this.#current;
  }

  /** Undefined for an attempt without a database. Made once, since a function may ask for it very often. */
  get part(): PartOf | undefined {
    const { features } = this.#host;
    if (features)
      this.#partOf ??= (make) => {
        this.#part ??= make(this.#portOf(features));
        return this.#part as ReturnType<typeof make>;
      };
    return this.#partOf;
  }

  #portOf(given: AttemptFeatures): AttemptPort {
    // A limit of the attempt is not to be spent by waiting.
    const hasLimit = (this.record.timeout ?? this.definition.call.timeout) !== undefined;
    return {
      ...given,
      ...(hasLimit && { patience: 0 }),
      record: this.record,
      signal: this.#abort.signal,
      logWritten: async () => await this.#log?.written(logWriteMs),
      leave: () => this.#leave(),
      lost: () => this.#hasLost(),
      fail: (error) => this.#onCallEnd({ how: "threw", error }),
      report: this.#host.report,
    };
  }

  // ---- what the worker asks for --------------------------------------------------------------

  /** Starts the attempt. Never throws. Does nothing when `interrupt` or `lose` was called before. */
  run(): void {
    if (this.#released) return;
    this.#phase = "started";
    const { maxRetries } = this.definition.call;
    if (this.record.fillDefaults === 1 && maxRetries !== undefined) void this.#startFilled(maxRetries);
    else runAs(this, () => this.#startTraced());
  }

  /** Writes `maxRetries` before the function is called, which may kill the process. */
  async #startFilled(maxRetries: number): Promise<void> {
    try {
      await this.#host.fillDefaults(this.record, maxRetries);
    } catch (error) {
      this.#host.report(error, `writing the maxRetries of task "${this.record.func}" (${this.record.id})`);
      this.#released ??= "interrupted";
    }
    if (this.#released) this.#finish(this.#outcome({ kind: "interrupted" }));
    else runAs(this, () => this.#startTraced());
  }

  /**
   * The task was changed by another program. Aborts the signal; the slot is free once the function settles, or is
   * abandoned. `cancelled`: the row, when that change was a cancel.
   */
  lose(reason: unknown, cancelled: TaskRecord | undefined): void {
    if (this.#released || this.#phase === "finished") return;
    this.#released = "lost";
    this.#cancelled = cancelled;
    this.#abortCall(reason);
    this.#timer?.clear();
    if (this.#phase === "claimed") this.#finish(undefined);
    else this.#timer = after(this.#executor.abortTimeoutMs, () => this.#finish(undefined));
  }

  /**
   * The worker stops. Aborts the signal and hands the task back at once, without waiting for the function or a hook. A
   * function that its executor ends by force is waited for: the task must not run twice at once.
   */
  interrupt(): void {
    if (this.#released || this.#phase === "finished") return;
    const isEnding = this.#phase === "calling" && this.#executor.abort !== undefined;
    this.#released = "interrupted";
    this.#abortCall(new WorkerStoppedError());
    this.#timer?.clear();
    const begun = this.#phase !== "claimed";
    const handBack = () => this.#finish(this.#outcome({ kind: "interrupted", begun }));
    if (isEnding) this.#timer = after(this.#executor.abortTimeoutMs, handBack);
    else handBack();
  }

  /** The function never settles: it is left alone, with what it waits for. */
  #leave(): void {
    if (this.#released || this.#phase === "finished") return;
    this.#released = "left";
    this.#timer?.clear();
    this.#finish(undefined);
  }

  #hasLost(): void {
    if (this.#released || this.#phase === "finished") return;
    // The function has completed the task itself, and waits for something that does not come any more.
    if (this.#completedWithin) this.#stopWaiting();
    else void this.#host.checkLoss(this.record);
  }

  /** The database has refused the attempt's outcome, and the task has failed with this error. */
  failedInstead(error: string): void {
    void this.#callOnFailure(error);
  }

  // ---- decode, beforeRun ---------------------------------------------------------------------

  #startTraced(): void {
    this.#trace = AttemptTrace.of(this.record);
    if (this.#trace) this.#trace.start(() => this.#start());
    else this.#start();
  }

  #start(): void {
    let args: unknown[];
    try {
      args = decodeArgs(this.record.args);
      this.#kwargs = decodeObject(this.record.kwargs, "kwargs");
    } catch (error) {
      // What undoes the steps of a task looks at the arguments itself: it ends the task in any case.
      if (this.#isEnding && !isA(error, KeyMissingError)) this.#run([]);
      else this.#finishWith(this.#unreadable(error as Error));
      return;
    }
    const { beforeRun } = this.definition;
    if (beforeRun)
      void this.#hook("beforeRun", () => beforeRun(toTask(this.record))).then(() => this.#readAndRun(args));
    else this.#readAndRun(args);
  }

  #readAndRun(args: readonly unknown[]): void {
    const hasParts = this.record.rootId !== null && !this.#isEnding;
    const part = hasParts ? this.part : undefined;
    const reading = part && this.#host.features?.before(this.record, part);
    if (reading) void reading.then(() => this.#run(args));
    else this.#run(args);
  }

  /** A worker that has the key can run the task. Whatever else is wrong with it would be wrong in the next attempt, too. */
  #unreadable(error: Error): MaybePromise<Outcome> {
    if (!isA(error, KeyMissingError)) return this.#failed({ error, as: "failed", final: true });
    if (!this.#host.setAside) return this.#outcome({ kind: "snoozed", delay: setAsideFor });
    this.#host.setAside(this.record, error);
    return this.#outcome({ kind: "interrupted", begun: false });
  }

  // ---- the call ------------------------------------------------------------------------------

  /** Calls the function, and goes on when it settles or is abandoned. */
  #run(args: readonly unknown[]): void {
    this.#stopWaiting = () => this.#onCallEnd({ how: "abandoned" });
    if (this.#released) {
      this.#stopWaiting();
      return;
    }
    this.#startTimeout();
    this.#phase = "calling";
    this.#calledAt = sixteenths();
    const threw = (error: unknown) => this.#onCallEnd({ how: "threw", error });
    try {
      const returned = (value: unknown) => this.#onCallEnd({ how: "returned", value });
      // As `await` does: any thenable is followed, and an overridden `then` of a real promise is not called.
      Promise.prototype.then.call(Promise.resolve(this.#call(args)), returned, threw);
    } catch (error) {
      threw(error);
    }
  }

  #call(args: readonly unknown[]): unknown {
    if (!this.#trace) return this.#executor.call(this, args, this.#kwargs);
    return this.#trace.call(() => this.#executor.call(this, args, this.#kwargs));
  }

  #startTimeout(): void {
    const limit = this.record.timeout ?? this.definition.call.timeout;
    // Another program may have written a timeout that is not a number.
    if (limit === undefined || Number.isNaN(limit) || this.#isEnding) return;
    const { clock = systemClock } = this.#host;
    this.#timer = clock.after(limit, () => {
      this.#timedOut = timeoutError(limit);
      this.#abortCall(this.#timedOut);
      this.#timer = after(this.#executor.abortTimeoutMs, () => this.#stopWaiting());
    });
  }

  #abortCall(reason: unknown): void {
    this.#abort.abort(reason);
    if (this.#phase === "calling") this.#executor.abort?.(this, reason);
  }

  /**
   * Only the first end counts: an abandoned function may settle later. Runs in the task's async context, and so do the
   * hooks.
   */
  #onCallEnd(end: CallEnd): void {
    if (this.#phase === "called" || this.#phase === "finished") return;
    if (this.#phase === "calling") this.#took = (sixteenths() - this.#calledAt) | 0;
    this.#phase = "called";
    this.#timer?.clear();
    this.#trace?.callEnded(end);
    try {
      this.#finishWith(this.#outcomeOf(end));
    } catch (error) {
      this.#finishWith(this.#broken(error));
    }
  }

  // ---- the outcome ---------------------------------------------------------------------------

  #outcomeOf(end: CallEnd): MaybePromise<Outcome> {
    if (this.#released) return this.#outcome({ kind: "interrupted" });
    const ending = this.#part?.ending(end.how === "threw", end.how === "threw" ? end.error : undefined);
    return ending ? ending.then(() => this.#outcomeOfEnd(end)) : this.#outcomeOfEnd(end);
  }

  #outcomeOfEnd(end: CallEnd): MaybePromise<Outcome> {
    if (this.#completedWithin) return this.#outcomeUnlessCompleted(end, this.#completedWithin.value);
    return this.#outcomeOfCall(end);
  }

  /** The task is completed if the function's own transaction was committed, even when the function threw after it. */
  async #outcomeUnlessCompleted(end: CallEnd, value: unknown): Promise<Outcome> {
    const completed = await this.#host.isCompleted(this.record);
    return await (completed ? this.#succeeded(value) : this.#outcomeOfCall(end));
  }

  #outcomeOfCall(end: CallEnd): MaybePromise<Outcome> {
    const error = end.how === "threw" ? end.error : undefined;
    if (this.#timedOut) return this.#failed({ error: this.#timeoutBy(error), as: "timeout", final: false });
    if (end.how === "returned") return this.#succeeded(end.value);
    if (isA(error, DecidedEnd)) return this.#decided(error);
    if (FinalFailure.isOne(error)) return this.#failed({ error: error.cause, as: "failed", final: true });
    // Of a feature's part of the attempt, such as a stored step that nobody may use.
    if (this.#part && isUnreadable(error)) return this.#unreadable(error);
    if (isA(error, CancelTask)) return this.#cancelledBy(error);
    // The app may have thrown a subclass, so its delay is validated again.
    if (isA(error, SnoozeTask))
      return this.#outcome({ kind: "snoozed", delay: milliseconds(error.delay, "SnoozeTask", longestWait) });
    if (isA(error, ThrottleTask))
      return this.#throttled(milliseconds(error.delay, "ThrottleTask", longestWait));
    return this.#failed({ error, as: "failed", final: error !== undefined && error === this.#refusal });
  }

  async #cancelledBy(error: CancelTask): Promise<Outcome> {
    const ending = (await this.#isToBeHeldUp()) ? ("begins" as const) : undefined;
    return this.#outcome({ kind: "cancelled", ...failureOf("cancelled", describeThrown(error)), ending });
  }

  /** Whether the task does not end yet, if it is to fail or to be cancelled. */
  async #isToBeHeldUp(): Promise<boolean> {
    return this.hasParts && (await this.#host.features?.holdsUp(this.record)) === true;
  }

  /** The end was held up until now, and the final hook with it. */
  async #decided({ kind, error }: DecidedEnd): Promise<Outcome> {
    if (kind === "failed") await this.#callOnFailure(error);
    return this.#outcome({ kind, error, attempt: undefined, ending: "is over" });
  }

  async #callOnFailure(error: string): Promise<void> {
    const { onFailure } = this.definition;
    const described = errorOf(error);
    const task = this.#taskAfter("failed", { error: described });
    if (onFailure) await this.#hook("onFailure", () => onFailure(task, toError(described)));
  }

  /** The throttle is written first: between the two, no other task of the group may start. */
  async #throttled(delay: number): Promise<Outcome> {
    await this.#host.throttle(this.record, delay);
    return this.#outcome({ kind: "snoozed", delay, throttled: true as const });
  }

  /** The timeout's error. It tells how the thread or process of the function was ended, and has that as its cause. */
  #timeoutBy(error: unknown): Error {
    const timedOut = this.#timedOut as Error;
    if (!isA(error, ChildEndedError)) return timedOut;
    const { exitCode, signal, stderr } = error;
    return Object.assign(timedOut, { cause: error, exitCode, signal, stderr });
  }

  #succeeded(value: unknown): MaybePromise<Outcome> {
    let completed: Outcome;
    try {
      completed = this.#completed(value);
    } catch (error) {
      return this.#failed({ error, as: "failed", final: true });
    }
    const { onSuccess } = this.definition;
    if (!onSuccess) return completed;
    const hook = () => onSuccess(this.#taskAfter("completed", { result: value }), value);
    return this.#hook("onSuccess", hook).then(() => completed);
  }

  /** @throws NotSerializableError, PayloadTooLargeError */
  #completed(value: unknown): Outcome {
    const result = encode(value, "result") ?? null;
    if (result !== null) checkSize(`the result of ${this.record.func}`, this.#host.maxPayload, result);
    // No spread: this is the outcome of nearly every task.
    const { id, generationId, workerId, startedAt, parentId } = this.record;
    return { id, generationId, workerId, startedAt, parentId, kind: "completed", result };
  }

  /** The one place that decides whether a failed attempt is retried. */
  async #failed({ error, as, final }: Failure): Promise<Outcome> {
    const { retryCount, maxRetries } = this.record;
    const described = describeThrown(error);
    if (this.#isEnding) return this.#outcome({ kind: "failed", ...failureOf(as, described) });
    const again = !final && retryCount < maxRetries && this.#isWorthRetry(error);
    const ending = !again && (await this.#isToBeHeldUp()) ? ("begins" as const) : undefined;
    const { onFailure } = this.definition;
    const task = () =>
      this.#taskAfter(again ? "scheduled" : "failed", {
        error: described,
        retryCount: again ? retryCount + 1 : retryCount,
      });
    if (onFailure && !ending) await this.#hook("onFailure", () => onFailure(task(), error));
    const failure = failureOf(as, described);
    if (!again) return this.#outcome({ kind: "failed", ...failure, ending });
    const { report, clock = systemClock } = this.#host;
    const delay = retryDelay(this.definition, retryCount + 1, error, report, () => clock.now());
    return this.#outcome({ kind: "retry", delay, ...failure });
  }

  #isWorthRetry(error: unknown): boolean {
    const judged = this.#executor.isWorthRetry?.(error);
    return judged ?? isWorthRetry(this.definition, error, this.#host.report);
  }

  /** The outcome when our own code threw: the app must not be able to cause this. */
  #broken(error: unknown): Outcome {
    return this.#outcome({ kind: "failed", ...failureOf("failed", describeThrown(error)) });
  }

  #outcome<K extends { kind: Outcome["kind"] }>(kind: K) {
    const { id, generationId, workerId, startedAt, func, parentId } = this.record;
    const rootId = this.#part ? undefined : this.record.rootId;
    const ending = endingOf(this.record);
    return { id, generationId, workerId, startedAt, func, parentId, rootId, ending, ...kind };
  }

  // ---- hooks, and the end --------------------------------------------------------------------

  /** A hook that throws, or takes too long, is reported and changes nothing. */
  async #hook(name: string, call: () => unknown): Promise<void> {
    const skipped = new Promise<void>((resolve) => {
      this.#stopWaiting = resolve;
    });
    const where = `${name} of task "${this.record.func}" (${this.record.id})`;
    // A hook has no part of a feature: when its process dies, it runs again from its beginning.
    const attempt = this;
    const inHook = {
      get current() {
        return attempt.current;
      },
    };
    const run = () => runHook(where, () => runAs(inHook, call), skipped, this.#host.report);
    await (this.#trace ? this.#trace.hook(name, run) : run());
  }

  /** The task as its row will be once the outcome is settled. */
  #taskAfter(
    status: "completed" | "scheduled" | "failed",
    changes: Partial<Pick<Task, "result" | "error" | "retryCount">>,
  ): Task {
    return { ...toTask(this.record), status, error: null, ...changes };
  }

  #finishWith(outcome: MaybePromise<Outcome>): void {
    if (outcome instanceof Promise)
      outcome.then(
        (settled) => this.#finish(settled),
        (error: unknown) => this.#finish(this.#broken(error)),
      );
    else this.#finish(outcome);
  }

  #finish(outcome: Outcome | undefined): void {
    if (this.#phase === "finished") return;
    this.#phase = "finished";
    this.#timer?.clear();
    // A hook may still be waited for: the trace and the timer of its call end now.
    if (this.#released) this.#stopWaiting();
    const settled = this.#released === "lost" || this.#released === "left" ? undefined : outcome;
    this.#trace?.end(settled, this.#cancelled !== undefined);
    // The attempt may be held for longer, by a timer of its function: not its messages and spans.
    this.#trace = undefined;
    // The log is written before the outcome: a reader who sees the outcome finds all lines.
    if (this.#log && this.#released !== "lost") void this.#log.end().then(() => this.#onEnd(this, settled));
    else this.#onEnd(this, settled);
  }

  // ---- currentTask().log() -------------------------------------------------------------------

  /** A function that goes on after its attempt has ended adds nothing. */
  #addToLog(message: string): void {
    if (this.#phase === "finished") return;
    this.#log ??= new AttemptLog(this.#host.logs, this.record);
    this.#log.add(message);
  }

  // ---- currentTask().within(tx).complete() ---------------------------------------------------

  /** If the function throws what the database would refuse again, its task fails without another attempt. */
  #noteRefusal<T>(settle: () => MaybePromise<T>): MaybePromise<T> {
    const note = (error: unknown): never => {
      if (anotherTryAfter(error) === "fails") this.#refusal = error;
      throw error;
    };
    try {
      const settled = settle();
      return settled instanceof Promise ? settled.catch(note) : settled;
    } catch (error) {
      return note(error);
    }
  }

  #completeChecked<Tx>(tx: Tx, given: unknown): WithinResult<Tx, void> {
    if (!this.definition.checks) return this.#completeWithin(tx, given);
    const checked = checkedResult(this.definition, given, this.#host.store.synchronous);
    return mapMaybe(checked, (value) => this.#completeWithin(tx, value)) as WithinResult<Tx, void>;
  }

  #completeWithin<Tx>(tx: Tx, value: unknown): WithinResult<Tx, void> {
    const outcome = this.#completed(value);
    if (this.#isEnding) throw new LostGenerationError(this.record.id, this.record.generationId);
    const inside = this.#host.store.within(tx);
    const log = this.#host.store.synchronous ? undefined : this.#log;
    const settle = () => this.#noteRefusal(() => inside.settle(outcome));
    // A limit, since the app's transaction may hold the only connection.
    const settled = log ? log.written(logWriteMs).then(settle) : settle();
    return mapMaybe(settled, (accepted) => {
      if (!accepted) throw new LostGenerationError(this.record.id, this.record.generationId);
      this.#completedWithin = { value, outcome };
    }) as WithinResult<Tx, void>;
  }
}
