/** The traces of one attempt on the diagnostics channels. It makes no promise: each costs as much as a step of the attempt. */
import type { TracingChannel } from "node:diagnostics_channel";
import { toTask } from "../base/values/records.ts";
import { callTraced, type Traced, traced, traces } from "../events.ts";
import type { Outcome } from "../store.ts";
import type { Task, TaskError, TaskRecord } from "../task.ts";

/** How a call of the function ended. `abandoned`: the attempt stopped waiting for it. */
export type CallEnd =
  | { how: "returned"; value: unknown }
  | { how: "threw"; error: unknown }
  | { how: "abandoned" };

/** A message of a trace. `task` is decoded when a subscriber first reads it: most read only some columns. */
class TaskMessage implements Traced {
  // Declared, not defined: a field that is there says that the operation has ended.
  declare call?: <T>(operation: () => T) => T;
  /** The row as it was claimed, with JSON as text. */
  readonly record: TaskRecord;
  /** Of `dbq:run`, at the end. */
  declare how?: CallEnd["how"];
  /** Of `dbq:process`, at the end. */
  declare outcome?: Outcome["kind"] | "lost";
  declare result?: unknown;
  declare error?: unknown;
  #task: Task | undefined;

  /** Of `dbq:run` and `dbq:hook`: the message of `dbq:process` of the same attempt, if that has subscribers. */
  readonly attempt: TaskMessage | undefined;

  constructor(record: TaskRecord, attempt: TaskMessage | undefined) {
    this.record = record;
    this.attempt = attempt;
  }

  get task(): Task {
    this.#task ??= toTask(this.record);
    return this.#task;
  }
}

export class AttemptTrace {
  readonly #record: TaskRecord;
  #process: TaskMessage | undefined;
  #run: TaskMessage | undefined;

  constructor(record: TaskRecord) {
    this.#record = record;
  }

  /** Undefined when nobody subscribes to the traces of attempts. */
  static of(record: TaskRecord): AttemptTrace | undefined {
    const { process, run, hook } = traces;
    const isObserved = process.hasSubscribers || run.hasSubscribers || hook.hasSubscribers;
    return isObserved ? new AttemptTrace(record) : undefined;
  }

  /** Starts the attempt, whose trace ends with `end`. */
  start(begin: () => void): void {
    if (!traces.process.hasSubscribers) begin();
    else {
      this.#process = new TaskMessage(this.#record, undefined);
      begun(traces.process, this.#process, begin);
    }
  }

  /**
   * Without an outcome, the task was cancelled by `cancelTask`, or lost. A call that has not ended yet is abandoned: the
   * worker stops, or its task was lost.
   */
  end(outcome: Outcome | undefined, cancelled: boolean): void {
    this.callEnded({ how: "abandoned" });
    if (this.#process === undefined) return;
    this.#process.outcome = outcome?.kind ?? (cancelled ? "cancelled" : "lost");
    if (outcome && "error" in outcome && outcome.error !== null)
      this.#process.error = JSON.parse(outcome.error) as TaskError;
    ended(traces.process, this.#process);
  }

  /** Calls the function, whose trace ends with `callEnded`. */
  call<T>(call: () => T): T {
    if (!traces.run.hasSubscribers) return call();
    this.#run = new TaskMessage(this.#record, this.#process);
    return begun(traces.run, this.#run, call);
  }

  /** Only the first end counts. */
  callEnded(end: CallEnd): void {
    const run = this.#run;
    if (run === undefined) return;
    this.#run = undefined;
    run.how = end.how;
    if (end.how === "returned") run.result = end.value;
    if (end.how === "threw") {
      run.error = end.error;
      traces.run.error.publish(run);
    }
    ended(traces.run, run);
  }

  hook(name: string, call: () => Promise<void>): Promise<void> {
    const message = () => Object.assign(new TaskMessage(this.#record, this.#process), { hook: name });
    return traced(traces.hook, message, call);
  }
}

function begun<T>(channel: TracingChannel<object>, message: TaskMessage, operation: () => T): T {
  try {
    return channel.start.runStores(message, callTraced<T>, undefined, channel, message, operation);
  } finally {
    channel.end.publish(message);
  }
}

function ended(channel: TracingChannel<object>, message: TaskMessage): void {
  channel.asyncStart.publish(message);
  channel.asyncEnd.publish(message);
}
