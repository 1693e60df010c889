/**
 * Serves calls in a thread or process for tasks: imports the module, and calls its functions as the worker asks. The module's own
 * copy of dbq and this one share the registry and `currentTask()` by globals.
 */

import { isMainThread } from "node:worker_threads";
import { processGlobal } from "../../base/runtime/process-globals.ts";
import { clearTimeout, setTimeout } from "../../base/runtime/timers.ts";
import { CancelTask, SnoozeTask, ThrottleTask } from "../../base/tasks/control-errors.ts";
import { longestLine } from "../../base/tasks/history.ts";
import { callArguments, definitionNamed, type TaskDefinition } from "../../base/tasks/registry.ts";
import { checkSize, decodeArgs, decodeObject, encode } from "../../base/values/codec.ts";
import { describeThrown, isA } from "../../base/values/thrown.ts";
import { LostGenerationError, TaskCancelledError, toError, WorkerStoppedError } from "../../errors.ts";
import { tracedSync, traces } from "../../events.ts";
import type { TaskError } from "../../task.ts";
import { callChecked } from "../../worker/checked-call.ts";
import { FinalFailure } from "../../worker/final-failure.ts";
import { mostLines } from "../../worker/logs.ts";
import { LazyAbort, type RunningTask, runAs, runningTask } from "../../worker/task-context.ts";
import { importModule } from "./import-module.ts";
import {
  type Answer,
  type FromChild,
  mostDropped,
  type Port,
  type Run,
  type Start,
  type ToChild,
} from "./messages.ts";

/** Milliseconds between two messages about progress, since a function may report its progress a million times. */
const progressEveryMs = 50;

/** Serves the calls of a worker. `receive` takes its messages. */
export function serve(worker: Port<FromChild>): { receive(message: ToChild): void } {
  // `openQueue` looks at it.
  processGlobal("child", () => true);
  // The rejection may belong to an earlier task, so it must not end the current one.
  process.on("unhandledRejection", (reason) =>
    worker.send({ kind: "rejected", error: describeThrown(reason) }),
  );
  let start: Start | undefined;
  let imported: Promise<void> | undefined;
  let current: Call | undefined;
  const run = async (message: Run, { module, maxPayload, pid }: Start) => {
    const call = new Call(message, worker, maxPayload);
    current = call;
    try {
      await imported;
    } catch (error) {
      worker.send({ kind: "broken", call: message.call, error: describeThrown(error) });
      return;
    }
    // Without its worker this process is about to be ended: another one runs the task.
    if (isMainThread && process.ppid !== pid) return;
    await call.run(module);
  };
  return {
    receive: (message) => {
      if (message.kind === "start") {
        start = message;
        imported = importModule(message.module);
        imported.catch(() => undefined);
      } else if (message.kind === "run" && start) void run(message, start);
      else if (message.kind === "abort") current?.abort(message.call, message.reason);
    },
  };
}

/** One call of a function. */
class Call {
  readonly #message: Run;
  readonly #worker: Port<FromChild>;
  readonly #maxPayload: number;
  readonly #abort = new LazyAbort(this);
  readonly current: RunningTask;
  #lines = 0;
  #dropped = 0;
  #progress: { progress: number; note: string | null } | undefined;
  #progressSentAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(message: Run, worker: Port<FromChild>, maxPayload: number) {
    this.#message = message;
    this.#worker = worker;
    this.#maxPayload = maxPayload;
    this.current = this.#runningTask();
  }

  abort(call: number, reason: TaskError): void {
    if (call === this.#message.call && !this.#isOver) this.#abort.abort(this.#reasonOf(reason));
  }

  async run(module: string): Promise<void> {
    const { call, func } = this.#message;
    const definition = definitionNamed(func);
    const answer = definition?.fn
      ? await this.#answer(definition)
      : this.#threw(new TypeError(notRegistered(func, module)), undefined);
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#flush();
    this.#worker.send({ ...answer, call });
  }

  /** Calls the function. */
  async #answer(definition: TaskDefinition): Promise<Answer> {
    const { call, args, kwargs } = this.#message;
    const { checks } = definition;
    const fn = definition.fn as NonNullable<TaskDefinition["fn"]>;
    this.#worker.send({ kind: "began", call });
    let value: unknown;
    try {
      const given = callArguments(fn, decodeArgs(args), decodeObject(kwargs, "kwargs"));
      const { traceContext } = this.#message;
      const traced = () =>
        tracedSync(
          traces.childCall,
          () => ({ traceContext }),
          () => (checks ? callChecked(fn, given, checks, this) : fn(...given)),
        );
      value = await runAs(this, traced);
    } catch (error) {
      return this.#threw(error, definition);
    }
    return this.#returned(value);
  }

  #returned(value: unknown): Answer {
    const { call, func } = this.#message;
    try {
      const result = encode(value, "result") ?? null;
      if (result !== null) checkSize(`the result of ${func}`, this.#maxPayload, result);
      return { kind: "returned", call, result };
    } catch (error) {
      return { kind: "refused", call, error: describeThrown(error) };
    }
  }

  #threw(thrown: unknown, definition: TaskDefinition | undefined): Answer {
    const { call } = this.#message;
    if (FinalFailure.isOne(thrown)) return { kind: "refused", call, error: describeThrown(thrown.cause) };
    if (isA(thrown, CancelTask)) return { kind: "cancel", call, why: describeThrown(thrown).message };
    if (isA(thrown, SnoozeTask)) return { kind: "snooze", call, delay: Number(thrown.delay) };
    if (isA(thrown, ThrottleTask)) return { kind: "throttle", call, delay: Number(thrown.delay) };
    const error = describeThrown(thrown);
    const retry = verdictOn(thrown, definition);
    return retry === undefined ? { kind: "threw", call, error } : { kind: "threw", call, error, retry };
  }

  #runningTask(): RunningTask {
    const { id, generationId, retryCount, scheduleName, slot, startedAt, traceContext, kwargs } =
      this.#message;
    const current = runningTask({
      record: { id, generationId, retryCount, scheduleName, slot, startedAt, traceContext },
      kwargs: decodeObject(kwargs, "kwargs"),
      context: undefined,
      signal: () => this.#abort.signal,
      noteProgress: (progress, note) => this.#noteProgress(progress, note),
      log: (message) => this.#log(message),
      completeWithin: () => {
        throw new TypeError(doesNotCross("within(tx)", "a transaction"));
      },
    });
    const get = () => {
      throw new TypeError(doesNotCross("context", "the worker's context"));
    };
    return Object.defineProperty(current, "context", { get, enumerable: false });
  }

  #noteProgress(progress: number, note: string | null): void {
    if (this.#isOver) return;
    this.#progress = { progress, note };
    // By the clock, since a timer does not fire while a function computes.
    const wait = this.#progressSentAt + progressEveryMs - Date.now();
    if (wait <= 0) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), wait).unref();
  }

  #log(message: string): void {
    if (this.#isOver) return;
    this.#lines += 1;
    if (this.#lines > mostLines) this.#dropped = Math.min(this.#dropped + 1, mostDropped);
    else this.#worker.send({ kind: "log", call: this.#message.call, message: message.slice(0, longestLine) });
  }

  #flush(): void {
    const { call } = this.#message;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#progress) {
      this.#worker.send({ kind: "progress", call, ...this.#progress });
      this.#progress = undefined;
      this.#progressSentAt = Date.now();
    }
    if (this.#isOver && this.#dropped > 0) this.#worker.send({ kind: "dropped", call, lines: this.#dropped });
  }

  /** The reason of the signal, with the class that it has in the worker. */
  #reasonOf(described: TaskError): unknown {
    const { id, generationId } = this.#message;
    if (described.name === "TimeoutError") return new DOMException(described.message, "TimeoutError");
    switch (described.code) {
      case "DBQ_STOPPED":
        return new WorkerStoppedError();
      case "DBQ_TASK_CANCELLED":
        return Object.assign(new TaskCancelledError(id), { message: described.message });
      case "DBQ_LOST_GENERATION":
        return new LostGenerationError(id, generationId);
      default:
        return toError(described);
    }
  }
}

/** What `retryOn` says, asked here because the error's class does not cross. Undefined: the worker asks it. */
function verdictOn(thrown: unknown, definition: TaskDefinition | undefined): boolean | undefined {
  try {
    return definition?.retryOn?.(thrown);
  } catch {
    return undefined;
  }
}

function notRegistered(func: string, module: string): string {
  return `task "${func}": importing its module ${module} does not register it: name the module that calls task("${func}", …)`;
}

function doesNotCross(what: string, value: string): string {
  return `currentTask().${what}: ${value} does not cross into the thread or process of a task: use runIn: "main", or return what the worker needs as the result`;
}
