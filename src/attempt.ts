/** One attempt: decode → beforeRun → the handler → what became of it → hooks. It ends in an Outcome, whatever the handler does. */
import { checkSize, decodeArgs, decodeObject, encode } from "./codec.ts";
import { type RunningTask, runAs } from "./current.ts";
import { after, longestWait, milliseconds, type Timer } from "./durations.ts";
import { LostGenerationError, WorkerStoppedError } from "./errors.ts";
import { runChannel } from "./events.ts";
import { runHook } from "./hooks.ts";
import { callArguments, type TaskDefinition } from "./registry.ts";
import { isWorthRetry, retryDelay } from "./retry.ts";
import { CancelTask, SnoozeTask } from "./steer.ts";
import type { Outcome, Store } from "./store.ts";
import type { AttemptOutcome, JsonObject, Task, TaskRecord } from "./task.ts";
import { describeThrown, failureOf, isA } from "./thrown.ts";
import { taskOf } from "./view.ts";
import { chain, type WithinResult } from "./within.ts";

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

export class RunningAttempt {
  readonly record: TaskRecord;
  readonly #definition: TaskDefinition;
  readonly #host: AttemptHost;
  #controller: AbortController | undefined;
  #aborted: { reason: unknown } | undefined;
  #timedOut: Error | undefined;
  /** The task is not this attempt's any more, or is being handed back: what the handler still does has no outcome. */
  #released: "lost" | "interrupted" | undefined;
  #timer: Timer | undefined;
  /** Goes on without the handler, or the hook, that is being waited for. */
  #leave: () => void = () => undefined;
  #finish: (outcome: Outcome | undefined) => void = () => undefined;
  #finished = false;
  #offered: { value: unknown; outcome: Outcome } | undefined;

  constructor(record: TaskRecord, definition: TaskDefinition, host: AttemptHost) {
    this.record = record;
    this.#definition = definition;
    this.#host = host;
  }

  /** The result that the handler has offered in a transaction of its own, whether that was committed or not. */
  get offered(): Outcome | undefined {
    return this.#offered?.outcome;
  }

  /** Runs to the end. Undefined: there is nothing to settle, since the task was lost. Never rejects. */
  run(): Promise<Outcome | undefined> {
    const ended = new Promise<Outcome | undefined>((resolve) => {
      this.#finish = (outcome) => {
        this.#finished = true;
        this.#timer?.clear();
        resolve(outcome);
      };
    });
    if (this.#released)
      this.#finish(this.#released === "lost" ? undefined : this.#as({ kind: "interrupted" }));
    else
      void this.#outcome()
        .catch((error: unknown) =>
          this.#as({ kind: "failed", ...failureOf("failed", describeThrown(error)) }),
        )
        .then((outcome) => this.#finish(this.#released === "lost" ? undefined : outcome));
    return ended;
  }

  /** Somebody else has moved the task: aborts the signal; the slot is free when the handler settles, or a second later. */
  lose(reason: unknown): void {
    if (this.#released || this.#finished) return;
    this.#released = "lost";
    this.#abort(reason);
    this.#timer?.clear();
    this.#timer = after(afterAbort, () => this.#finish(undefined));
  }

  /** The worker stops: aborts the signal, and hands the task back without waiting for the handler, or for a hook. */
  interrupt(): void {
    if (this.#released || this.#finished) return;
    this.#released = "interrupted";
    this.#abort(new WorkerStoppedError());
    this.#finish(this.#as({ kind: "interrupted" }));
  }

  async #outcome(): Promise<Outcome> {
    let call: { args: unknown[]; kwargs: JsonObject };
    try {
      call = { args: decodeArgs(this.record.args), kwargs: decodeObject(this.record.kwargs, "kwargs") };
    } catch (error) {
      return await this.#failed({ error, as: "failed", final: true });
    }
    const current = this.#current(call.kwargs);
    const { beforeRun } = this.#definition;
    if (beforeRun) await runAs(current, () => this.#hook("beforeRun", () => beforeRun(taskOf(this.record))));
    const ending = await this.#handle(current, call);
    return await runAs(current, () => this.#judge(ending));
  }

  /** Calls the handler, and waits until it has settled or is left behind. */
  #handle(current: RunningTask, { args, kwargs }: { args: unknown[]; kwargs: JsonObject }): Promise<Ending> {
    const { fn } = this.#definition;
    const all = fn ? callArguments(fn, args, kwargs) : args;
    return new Promise((resolve) => {
      this.#leave = () => resolve({ how: "left" });
      if (this.#released) return resolve({ how: "left" });
      this.#startClock();
      const call = async () => await fn?.(...all);
      const run = () =>
        runChannel.hasSubscribers ? runChannel.tracePromise(call, { task: taskOf(this.record) }) : call();
      runAs(current, run).then(
        (value: unknown) => resolve({ how: "returned", value }),
        (error: unknown) => resolve({ how: "threw", error }),
      );
    });
  }

  #startClock(): void {
    const limit = this.record.timeout ?? this.#definition.call.timeout;
    if (limit === undefined) return;
    this.#timer = after(limit, () => {
      this.#timedOut = new DOMException(
        `the attempt took longer than its timeout of ${limit} ms`,
        "TimeoutError",
      );
      this.#abort(this.#timedOut);
      this.#timer = after(afterAbort, () => this.#leave());
    });
  }

  #abort(reason: unknown): void {
    this.#aborted ??= { reason };
    this.#controller?.abort(reason);
  }

  // ---- judging -------------------------------------------------------------------------------

  async #judge(ending: Ending): Promise<Outcome> {
    this.#timer?.clear();
    if (this.#released) return this.#as({ kind: "interrupted" });
    if (this.#offered && (await this.#host.isCompleted(this.record)))
      return await this.#returned(this.#offered.value);
    if (this.#timedOut) return await this.#failed({ error: this.#timedOut, as: "timeout", final: false });
    if (ending.how === "returned") return await this.#returned(ending.value);
    const error = ending.how === "threw" ? ending.error : undefined;
    if (isA(error, CancelTask))
      return this.#as({ kind: "cancelled", ...failureOf("cancelled", describeThrown(error)) });
    // What was thrown may be of a class of its own: its delay is read as if it came from anywhere.
    if (isA(error, SnoozeTask)) {
      return this.#as({ kind: "snoozed", delay: milliseconds(error.delay, "SnoozeTask", longestWait) });
    }
    return await this.#failed({ error, as: "failed", final: false });
  }

  async #returned(value: unknown): Promise<Outcome> {
    let result: string | undefined;
    try {
      result = encode(value, "result");
      if (result !== undefined) checkSize(`the result of ${this.record.func}`, this.#host.maxPayload, result);
    } catch (error) {
      return await this.#failed({ error, as: "failed", final: true });
    }
    const { onSuccess } = this.#definition;
    if (onSuccess)
      await this.#hook("onSuccess", () => onSuccess(this.#ended("completed", { result: value }), value));
    return this.#as({ kind: "completed", result: result ?? null });
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
    return { ...taskOf(this.record), status, error: null, ...changes };
  }

  #as<K extends { kind: Outcome["kind"] }>(outcome: K) {
    const { id, generationId, workerId, startedAt } = this.record;
    return { id, generationId, workerId, startedAt, ...outcome };
  }

  #current(kwargs: JsonObject): RunningTask {
    const { record } = this;
    const host = this.#host;
    const signal = () => this.#signal();
    return {
      id: record.id,
      generationId: record.generationId,
      retryCount: record.retryCount,
      kwargs,
      context: host.context,
      get signal() {
        return signal();
      },
      progress: (n, note) => {
        if (!Number.isFinite(n)) throw new TypeError(`progress: expected a finite number, got ${String(n)}`);
        host.noteProgress(record, n, note === undefined ? null : String(note).slice(0, 1_000));
      },
      within: (tx) => ({ complete: (result) => this.#completeWithin(tx, result) }),
    };
  }

  /** Made when it is first asked for: most handlers never do. */
  #signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted) this.#controller.abort(this.#aborted.reason);
    }
    return this.#controller.signal;
  }

  #completeWithin<Tx>(tx: Tx, value: unknown): WithinResult<Tx, void> {
    const result = encode(value, "result");
    if (result !== undefined) checkSize(`the result of ${this.record.func}`, this.#host.maxPayload, result);
    const inside = this.#host.store.within(tx);
    const outcome: Outcome = this.#as({ kind: "completed", result: result ?? null });
    const settled = inside.settle(outcome);
    return chain(settled, (accepted) => {
      if (!accepted) throw new LostGenerationError(this.record.id, this.record.generationId);
      this.#offered = { value, outcome };
    }) as WithinResult<Tx, void>;
  }
}
