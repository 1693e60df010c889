/** One attempt: decode → beforeRun → the handler → what became of it → hooks. It ends in an Outcome, whatever the handler does. */

import { longestWait, milliseconds } from "../base/options/durations.ts";
import { mapMaybe } from "../base/runtime/maybe-promise.ts";
import { after, type Timer } from "../base/runtime/timers.ts";
import { CancelTask, SnoozeTask } from "../base/tasks/control-errors.ts";
import { callArguments, type TaskDefinition } from "../base/tasks/registry.ts";
import { isWorthRetry, retryDelay } from "../base/tasks/retry-policy.ts";
import { checkSize, decodeArgs, decodeObject, encode } from "../base/values/codec.ts";
import { toTask } from "../base/values/records.ts";
import { describeThrown, failureOf, isA } from "../base/values/thrown.ts";
import { LostGenerationError, timeoutError, WorkerStoppedError } from "../errors.ts";
import { runChannel } from "../events.ts";
import type { WithinResult } from "../queue/transaction.ts";
import type { MaybePromise, Outcome, Store } from "../store.ts";
import type { AttemptOutcome, JsonObject, Task, TaskRecord } from "../task.ts";
import { runHook } from "./hooks.ts";
import { LazyAbort, type RunningTask, runAs, runningTask } from "./task-context.ts";

/** Milliseconds that a handler has to settle after its signal was aborted; then its slot is free without it. */
const afterAbort = 1_000;

/** What an attempt needs of its worker. */
export interface AttemptHost {
  readonly store: Pick<Store, "within">;
  readonly context: unknown;
  readonly maxPayload: number;
  /** Keeps a note of progress, sooner or later. */
  noteProgress(record: TaskRecord, progress: number, note: string | null): void;
  /** Whether the handler's own transaction has completed the task. */
  isCompleted(record: TaskRecord): Promise<boolean>;
  /** Takes what the app's own code threw where it must not matter. */
  report(error: unknown, where: string): void;
}

/** How the handler ended: by itself, or by giving up on it. */
type Ending = { how: "returned"; value: unknown } | { how: "threw"; error: unknown } | { how: "left" };

type Failure = { error: unknown; as: AttemptOutcome; final: boolean };

/**
 * Nothing is made for a task that most tasks do not need: no AbortController, timer or `currentTask()` until it is asked
 * for, and no promise but the handler's own (each costs about 0.5 µs while an AsyncLocalStorage is in use).
 */
export class RunningAttempt {
  readonly record: TaskRecord;
  readonly #definition: TaskDefinition;
  readonly #host: AttemptHost;
  readonly #onEnd: (attempt: RunningAttempt, outcome: Outcome | undefined) => void;
  #kwargs: JsonObject = {};
  #current: RunningTask | undefined;
  readonly #abort = new LazyAbort(this);
  #timedOut: Error | undefined;
  /** The task is not this attempt's any more, or is handed back: what the handler still does has no outcome. */
  #released: "lost" | "interrupted" | undefined;
  #timer: Timer | undefined;
  /** Goes on without the handler, or the hook, that is being waited for. */
  #leave: () => void = () => undefined;
  #begun = false;
  #handled = false;
  #finished = false;
  #offered: { value: unknown; outcome: Outcome } | undefined;

  /** `onEnd` is called once; without an outcome there is nothing to settle, since the task was lost. */
  constructor(
    record: TaskRecord,
    definition: TaskDefinition,
    host: AttemptHost,
    onEnd: (attempt: RunningAttempt, outcome: Outcome | undefined) => void,
  ) {
    this.record = record;
    this.#definition = definition;
    this.#host = host;
    this.#onEnd = onEnd;
  }

  /** The result that the handler has offered in a transaction of its own, whether that was committed or not. */
  get offered(): Outcome | undefined {
    return this.#offered?.outcome;
  }

  /** What the handler gets from `currentTask()`. */
  get current(): RunningTask {
    this.#current ??= runningTask({
      record: this.record,
      kwargs: this.#kwargs,
      context: this.#host.context,
      signal: () => this.#abort.signal,
      noteProgress: (progress, note) => this.#host.noteProgress(this.record, progress, note),
      completeWithin: (tx, result) => this.#completeWithin(tx, result),
    });
    return this.#current;
  }

  /** Begins it, and never throws. One that was interrupted before has ended already. */
  run(): void {
    if (this.#released) return;
    this.#begun = true;
    runAs(this, () => this.#begin());
  }

  /** Somebody else has moved the task: aborts the signal; the slot is free when the handler settles, or a second later. */
  lose(reason: unknown): void {
    if (this.#released || this.#finished) return;
    this.#released = "lost";
    this.#abort.abort(reason);
    this.#timer?.clear();
    if (this.#begun) this.#timer = after(afterAbort, () => this.#finish(undefined));
    else this.#finish(undefined);
  }

  /** The worker stops: aborts the signal, and hands the task back without waiting for the handler, or for a hook. */
  interrupt(): void {
    if (this.#released || this.#finished) return;
    this.#released = "interrupted";
    this.#abort.abort(new WorkerStoppedError());
    this.#finish(this.#as({ kind: "interrupted" }));
  }

  // ---- the handler ---------------------------------------------------------------------------

  #begin(): void {
    let args: unknown[];
    try {
      args = decodeArgs(this.record.args);
      this.#kwargs = decodeObject(this.record.kwargs, "kwargs");
    } catch (error) {
      this.#conclude(this.#failed({ error, as: "failed", final: true }));
      return;
    }
    const { beforeRun } = this.#definition;
    if (beforeRun)
      void this.#hook("beforeRun", () => beforeRun(toTask(this.record))).then(() => this.#handle(args));
    else this.#handle(args);
  }

  /** Calls the handler, and goes on when it has settled or is left behind. */
  #handle(args: readonly unknown[]): void {
    this.#leave = () => this.#onEnding({ how: "left" });
    if (this.#released) {
      this.#leave();
      return;
    }
    this.#startClock();
    const threw = (error: unknown) => this.#onEnding({ how: "threw", error });
    try {
      // As `await` does it: a thenable of any kind is followed, a promise's own idea of `then` is not.
      const returned = (value: unknown) => this.#onEnding({ how: "returned", value });
      Promise.prototype.then.call(Promise.resolve(this.#call(args)), returned, threw);
    } catch (error) {
      threw(error);
    }
  }

  #call(args: readonly unknown[]): unknown {
    const { fn } = this.#definition;
    if (!fn) return undefined;
    const all = callArguments(fn, args, this.#kwargs);
    if (!runChannel.hasSubscribers) return fn(...all);
    return runChannel.tracePromise(async () => await fn(...all), { task: toTask(this.record) });
  }

  /** The first ending counts: a handler that was left behind may still settle. Its caller runs as this task, and so do hooks. */
  #onEnding(ending: Ending): void {
    if (this.#handled) return;
    this.#handled = true;
    this.#timer?.clear();
    try {
      this.#conclude(this.#judge(ending));
    } catch (error) {
      this.#conclude(this.#crashed(error));
    }
  }

  #conclude(outcome: MaybePromise<Outcome>): void {
    if (outcome instanceof Promise)
      outcome.then(
        (settled) => this.#finish(settled),
        (error: unknown) => this.#finish(this.#crashed(error)),
      );
    else this.#finish(outcome);
  }

  /** Judging failed, which the app's own functions must not be able to bring about. */
  #crashed(error: unknown): Outcome {
    return this.#as({ kind: "failed", ...failureOf("failed", describeThrown(error)) });
  }

  #finish(outcome: Outcome | undefined): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#timer?.clear();
    this.#onEnd(this, this.#released === "lost" ? undefined : outcome);
  }

  #startClock(): void {
    const limit = this.record.timeout ?? this.#definition.call.timeout;
    // Another program may have written what is no number.
    if (limit === undefined || Number.isNaN(limit)) return;
    this.#timer = after(limit, () => {
      this.#timedOut = timeoutError(limit);
      this.#abort.abort(this.#timedOut);
      this.#timer = after(afterAbort, () => this.#leave());
    });
  }

  // ---- judging -------------------------------------------------------------------------------

  #judge(ending: Ending): MaybePromise<Outcome> {
    if (this.#released) return this.#as({ kind: "interrupted" });
    if (this.#offered) return this.#judgeOffered(ending, this.#offered.value);
    return this.#judgeEnding(ending);
  }

  async #judgeOffered(ending: Ending, value: unknown): Promise<Outcome> {
    const completed = await this.#host.isCompleted(this.record);
    return await (completed ? this.#returned(value) : this.#judgeEnding(ending));
  }

  #judgeEnding(ending: Ending): MaybePromise<Outcome> {
    if (this.#timedOut) return this.#failed({ error: this.#timedOut, as: "timeout", final: false });
    if (ending.how === "returned") return this.#returned(ending.value);
    const error = ending.how === "threw" ? ending.error : undefined;
    if (isA(error, CancelTask))
      return this.#as({ kind: "cancelled", ...failureOf("cancelled", describeThrown(error)) });
    // What was thrown may be of a class of its own: its delay is read as if it came from anywhere.
    if (isA(error, SnoozeTask))
      return this.#as({ kind: "snoozed", delay: milliseconds(error.delay, "SnoozeTask", longestWait) });
    return this.#failed({ error, as: "failed", final: false });
  }

  #returned(value: unknown): MaybePromise<Outcome> {
    let completed: Outcome;
    try {
      completed = this.#completed(value);
    } catch (error) {
      return this.#failed({ error, as: "failed", final: true });
    }
    const { onSuccess } = this.#definition;
    if (!onSuccess) return completed;
    const hook = () => onSuccess(this.#ended("completed", { result: value }), value);
    return this.#hook("onSuccess", hook).then(() => completed);
  }

  /** @throws NotSerializableError, PayloadTooLargeError */
  #completed(value: unknown): Outcome {
    const result = encode(value, "result") ?? null;
    if (result !== null) checkSize(`the result of ${this.record.func}`, this.#host.maxPayload, result);
    // Written out, for it is the one outcome that nearly every task has.
    const { id, generationId, workerId, startedAt } = this.record;
    return { id, generationId, workerId, startedAt, kind: "completed", result };
  }

  /** A failed attempt: whether it is tried again is decided here, and nowhere else. */
  async #failed({ error, as, final }: Failure): Promise<Outcome> {
    const { retryCount, maxRetries } = this.record;
    const again =
      !final && retryCount < maxRetries && isWorthRetry(this.#definition, error, this.#host.report);
    const described = describeThrown(error);
    const { onFailure } = this.#definition;
    const task = () =>
      this.#ended(again ? "scheduled" : "failed", {
        error: described,
        retryCount: again ? retryCount + 1 : retryCount,
      });
    if (onFailure) await this.#hook("onFailure", () => onFailure(task(), error));
    const failure = failureOf(as, described);
    if (!again) return this.#as({ kind: "failed", ...failure });
    const delay = retryDelay(this.#definition, retryCount + 1, error, this.#host.report);
    return this.#as({ kind: "retry", delay, ...failure });
  }

  // ---- hooks and the task's own view ---------------------------------------------------------

  /** A hook that throws, or takes too long, is reported and changes nothing. */
  async #hook(name: string, call: () => unknown): Promise<void> {
    const left = new Promise<void>((resolve) => {
      this.#leave = resolve;
    });
    await runHook(`${name} of task "${this.record.func}" (${this.record.id})`, call, left, this.#host.report);
  }

  /** The task as its row is about to be. */
  #ended(
    status: "completed" | "scheduled" | "failed",
    changes: Partial<Pick<Task, "result" | "error" | "retryCount">>,
  ): Task {
    return { ...toTask(this.record), status, error: null, ...changes };
  }

  #as<K extends { kind: Outcome["kind"] }>(outcome: K) {
    const { id, generationId, workerId, startedAt } = this.record;
    return { id, generationId, workerId, startedAt, ...outcome };
  }

  #completeWithin<Tx>(tx: Tx, value: unknown): WithinResult<Tx, void> {
    const outcome = this.#completed(value);
    return mapMaybe(this.#host.store.within(tx).settle(outcome), (accepted) => {
      if (!accepted) throw new LostGenerationError(this.record.id, this.record.generationId);
      this.#offered = { value, outcome };
    }) as WithinResult<Tx, void>;
  }
}
