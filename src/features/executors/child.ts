/** One thread or process: sends it a call, waits for the answer, and ends it by force when that does not come. */
import { clearTimeout, setTimeout } from "../../base/runtime/timers.ts";
import { CancelTask, SnoozeTask, ThrottleTask } from "../../base/tasks/control-errors.ts";
import { decode } from "../../base/values/codec.ts";
import { describeThrown, thrownAgain } from "../../base/values/thrown.ts";
import { ChildEndedError } from "../../errors.ts";
import { warn } from "../../events.ts";
import type { TaskError } from "../../task.ts";
import type { Execution } from "../../worker/executor.ts";
import { FinalFailure } from "../../worker/final-failure.ts";
import { type Answer, type FromChild, mostDropped, type Run } from "./messages.ts";
import { startProcess } from "./process.ts";
import { startThread } from "./thread.ts";
import type { ChildEnd, ChildSettings, Transport } from "./transport.ts";

/** Milliseconds between the abort of a signal, SIGTERM and SIGKILL. */
const forceAfterMs = 1_000;

/** The child had ended before it called the function. */
export class NotCalled extends Error {}

interface Call {
  number: number;
  execution: Execution;
  /** Whether the child was about to call the function. */
  began: boolean;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Whether the task's `retryOn` has accepted an error. It was asked in the child, where the error has its class. */
const verdicts = new WeakMap<object, boolean>();

/** Undefined: `retryOn` was not asked. */
export function verdictOn(error: unknown): boolean | undefined {
  return typeof error === "object" && error !== null ? verdicts.get(error) : undefined;
}

export interface ChildHost {
  /** It has ended, for whatever reason. */
  onEnd(): void;
  /** Reports an error that belongs to no call. */
  report(error: unknown, where: string): void;
}

export class Child {
  readonly #settings: ChildSettings;
  readonly #host: ChildHost;
  readonly #transport: Transport;
  readonly #ended: Promise<void>;
  #current: Call | undefined;
  /** The task of the last call that has settled. */
  #last: Execution["record"] | undefined;
  #calls = 0;
  /** `ending`: it answers no more. */
  #state: "running" | "ending" | "ended" = "running";
  #force: NodeJS.Timeout | undefined;

  /** Starts it. */
  constructor(settings: ChildSettings, host: ChildHost) {
    this.#settings = settings;
    this.#host = host;
    let resolve!: () => void;
    this.#ended = new Promise((done) => {
      resolve = done;
    });
    const start = settings.runIn === "thread" ? startThread : startProcess;
    this.#transport = start(settings, {
      onMessage: (message) => this.#onMessage(message),
      onEnd: (end) => {
        this.#onEnd(end);
        host.onEnd();
        resolve();
      },
    });
    const { module, maxPayload } = settings;
    this.#transport.send({ kind: "start", pid: process.pid, module, maxPayload });
  }

  /** How many calls it has begun. */
  get calls(): number {
    return this.#calls;
  }

  /** Whether it can take a call. */
  get isUsable(): boolean {
    return this.#state === "running" && this.#current === undefined;
  }

  has({ runIn, module, memory }: ChildSettings): boolean {
    const own = this.#settings;
    return own.runIn === runIn && own.module === module && own.memory === memory;
  }

  /** @throws what the function throws; ChildEndedError, FinalFailure; NotCalled when it may be called elsewhere */
  async call(execution: Execution, texts: Pick<Run, "args" | "kwargs" | "traceContext">): Promise<unknown> {
    if (this.#state !== "running") throw new NotCalled();
    this.#calls += 1;
    const { id, generationId, retryCount, scheduleName, slot, startedAt, func } = execution.record;
    const task = { id, generationId, retryCount, scheduleName, slot, startedAt };
    const number = this.#calls;
    const answered = new Promise((resolve, reject) => {
      this.#current = { number, execution, began: false, resolve, reject };
    });
    this.#transport.clearStderr();
    this.#transport.send({ kind: "run", call: number, func, ...texts, ...task });
    return await answered;
  }

  /** Aborts the signal; ends the child when the function has not settled 1 s later. */
  abort(reason: unknown): void {
    if (this.#current === undefined || this.#force !== undefined || this.#state !== "running") return;
    this.#transport.send({ kind: "abort", call: this.#current.number, reason: describeThrown(reason) });
    this.#force = setTimeout(() => void this.end(), forceAfterMs);
  }

  /** Resolves when it has ended: by SIGTERM, or by SIGKILL 1 s later. */
  async end(): Promise<void> {
    if (this.#state === "running") {
      this.#state = "ending";
      clearTimeout(this.#force);
      this.#transport.terminate();
      this.#force = setTimeout(() => this.#transport.kill(), forceAfterMs);
    }
    await this.#ended;
  }

  /** Settles the current call, and nothing else does. */
  #settle(settle: (call: Call) => void): void {
    const call = this.#current;
    if (call === undefined) return;
    this.#current = undefined;
    this.#last = call.execution.record;
    clearTimeout(this.#force);
    this.#force = undefined;
    settle(call);
  }

  #onMessage(message: unknown): void {
    const call = this.#current;
    // The function, or an earlier one, may write to the channel itself: messages that do not fit the call are ignored.
    if (this.#state !== "running" || !isMessage(message)) return;
    if (message.kind === "rejected") this.#warnOfRejection(message.error);
    if (message.kind === "rejected" || call === undefined) return;
    if (message.call !== call.number) return;
    const { current } = call.execution;
    switch (message.kind) {
      case "began":
        call.began = true;
        return;
      case "progress":
        current.progress(message.progress, message.note ?? undefined);
        return;
      case "log":
        current.log(message.message);
        return;
      case "dropped":
        for (let i = 0; i < message.lines; i += 1) current.log("");
        return;
      default:
        this.#onAnswer(message);
    }
  }

  /** It may belong to an earlier task, so no attempt fails of it. */
  #warnOfRejection(error: TaskError): void {
    const { runIn, module } = this.#settings;
    const task = this.#current?.execution.record ?? this.#last;
    const what = `${error.name}: ${error.message}`;
    warn(`no code has handled a rejection in the ${runIn} of ${module}, ${duringOf(task)}: ${what}`, {
      module,
      ...(task && { func: task.func, taskId: task.id }),
      error,
    });
  }

  #onAnswer(answer: Answer): void {
    this.#settle((call) => {
      if (answer.kind !== "returned") return call.reject(errorOf(answer));
      try {
        call.resolve(answer.result === null ? undefined : decode(answer.result, "result"));
      } catch (error) {
        call.reject(error);
      }
    });
    if (answer.kind === "broken") void this.end();
  }

  #onEnd(end: ChildEnd): void {
    const byWorker = this.#state === "ending";
    this.#state = "ended";
    clearTimeout(this.#force);
    // Its module was imported for an earlier call, so that this end has nothing to do with one that it has not begun.
    const isBetween = this.#current === undefined || (!this.#current.began && this.#current.number > 1);
    if (isBetween && !byWorker) this.#reportEnd(end);
    this.#settle((call) => {
      if (isBetween) call.reject(new NotCalled());
      else call.reject(this.#endedError(call, end, byWorker));
    });
  }

  /** Something that an earlier task has left behind has ended it: no attempt fails of that. */
  #reportEnd(end: ChildEnd): void {
    const { runIn, module } = this.#settings;
    const what = `the ${runIn} of ${module} ended between two tasks, ${duringOf(this.#last)}`;
    const cause = end.error === undefined ? {} : { cause: end.error };
    this.#host.report(new ChildEndedError(what, end, cause), `waiting for tasks in a ${runIn}`);
  }

  #endedError({ execution: { record }, began }: Call, end: ChildEnd, byWorker: boolean): ChildEndedError {
    const { runIn, module, memory } = this.#settings;
    const when = began ? "before the function had settled" : `while it imported ${module}`;
    const limit = memory === undefined ? "Node's own" : `${Math.round(memory / 1_048_576)} MiB`;
    const how = byWorker ? "was ended by the worker" : "ended";
    const what = isOutOfMemory(end) ? `ran out of memory (its limit is ${limit})` : how;
    const cause = end.error === undefined ? {} : { cause: end.error };
    return new ChildEndedError(
      `the ${runIn} of task "${record.func}" (${record.id}) ${what} ${when}`,
      end,
      cause,
    );
  }
}

const duringOf = (task: Execution["record"] | undefined): string =>
  task === undefined ? "before its first task" : `whose last task was "${task.func}" (${task.id})`;

/** Node ends a thread with an error of its own, and aborts a process after it has said why on stderr. */
function isOutOfMemory({ error, signal, stderr }: ChildEnd): boolean {
  if (error instanceof Error && "code" in error && error.code === "ERR_WORKER_OUT_OF_MEMORY") return true;
  return signal === "SIGABRT" && stderr.includes("heap out of memory");
}

/** The error that the attempt gets for this answer. */
function errorOf(answer: Exclude<Answer, { kind: "returned" }>): unknown {
  switch (answer.kind) {
    case "cancel":
      return new CancelTask(answer.why);
    case "snooze":
      return new SnoozeTask(answer.delay);
    case "throttle":
      return new ThrottleTask(answer.delay);
    case "refused":
      return new FinalFailure("", { cause: thrownAgain(answer.error) });
    case "threw": {
      const error = thrownAgain(answer.error);
      if (answer.retry !== undefined && typeof error === "object") verdicts.set(error, answer.retry);
      return error;
    }
    default:
      return thrownAgain(answer.error);
  }
}

const kinds: Record<FromChild["kind"], (message: Record<string, unknown>) => boolean> = {
  began: () => true,
  progress: ({ progress, note }) => Number.isFinite(progress) && (note === null || typeof note === "string"),
  log: ({ message }) => typeof message === "string",
  dropped: ({ lines }) => Number.isSafeInteger(lines) && (lines as number) <= mostDropped,
  returned: ({ result }) => result === null || typeof result === "string",
  refused: isError,
  threw: isError,
  broken: isError,
  rejected: isError,
  cancel: ({ why }) => typeof why === "string",
  snooze: ({ delay }) => typeof delay === "number" && delay >= 0,
  throttle: ({ delay }) => typeof delay === "number" && delay >= 0,
};

function isError({ error }: Record<string, unknown>): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { name, message } = error as Record<string, unknown>;
  return typeof name === "string" && typeof message === "string";
}

function isMessage(value: unknown): value is FromChild {
  if (typeof value !== "object" || value === null) return false;
  const { kind } = value as { kind?: unknown };
  return (
    typeof kind === "string" &&
    Object.hasOwn(kinds, kind) &&
    kinds[kind as FromChild["kind"]](value as Record<string, unknown>)
  );
}
