/** The threads and processes of one worker: they stay for the next task, and there are never more of them than slots. */

import type { TaskDefinition } from "../../base/tasks/registry.ts";
import { encodeArgs, encodeObject } from "../../base/values/codec.ts";
import type { JsonObject } from "../../task.ts";
import type { Execution, ExecutorSettings } from "../../worker/executor.ts";
import { Child, NotCalled, verdictOn } from "./child.ts";
import type { ChildSettings } from "./transport.ts";

/** A call that has not settled. */
interface Call {
  child: Child | undefined;
  /** Set by an abort. */
  aborted: { reason: unknown } | undefined;
}

export class Children {
  readonly #settings: ExecutorSettings;
  readonly #calls = new Map<Execution, Call>();
  /** Those that wait for a call, the least recently used first. */
  #idle: Child[] = [];
  /** How many run a call. */
  #busy = 0;
  /** Those that have not ended, also when they are ending. */
  readonly #all = new Set<Child>();

  constructor(settings: ExecutorSettings) {
    this.#settings = settings;
  }

  /** Calls the function in a child. @throws what the function throws; ChildEndedError, FinalFailure */
  async call(
    execution: Execution,
    args: readonly unknown[],
    kwargs: JsonObject,
    traceContext: string | null,
  ): Promise<unknown> {
    const call: Call = { child: undefined, aborted: undefined };
    this.#calls.set(execution, call);
    try {
      const texts = { args: encodeArgs(args), kwargs: encodeObject(kwargs, "kwargs"), traceContext };
      for (;;) {
        if (call.aborted) throw call.aborted.reason;
        const child = this.#take(execution.definition);
        call.child = child;
        try {
          return await child.call(execution, texts);
        } catch (error) {
          // The child ended before it called the function, so another child may call it.
          if (!(error instanceof NotCalled)) throw error;
        } finally {
          call.child = undefined;
          this.#release(child);
        }
      }
    } finally {
      this.#calls.delete(execution);
    }
  }

  /** Aborts the signal of a call, and ends its child by force unless the function settles soon. */
  abort(execution: Execution, reason: unknown): void {
    const call = this.#calls.get(execution);
    if (call === undefined) return;
    call.aborted ??= { reason };
    call.child?.abort(reason);
  }

  isWorthRetry(error: unknown): boolean | undefined {
    return verdictOn(error);
  }

  /** Resolves when all children have ended. */
  async close(): Promise<void> {
    this.#idle = [];
    await Promise.all([...this.#all].map((child) => child.end()));
  }

  /** A child that has the task's module, new or used; it counts as busy. */
  #take(definition: TaskDefinition): Child {
    const settings = settingsOf(definition, this.#settings);
    const index = this.#idle.findLastIndex((child) => child.has(settings));
    const [known] = index === -1 ? [] : this.#idle.splice(index, 1);
    const child = known ?? this.#start(settings);
    this.#busy += 1;
    return child;
  }

  #start(settings: ChildSettings): Child {
    // Those of other modules make room.
    while (this.#busy + this.#idle.length >= this.#settings.concurrency && this.#idle.length > 0)
      void this.#idle.shift()?.end();
    const child = new Child(settings, {
      onEnd: () => this.#forget(child),
      report: (error, where) => this.#settings.report(error, where),
    });
    this.#all.add(child);
    return child;
  }

  #release(child: Child): void {
    this.#busy -= 1;
    if (child.isUsable && child.calls < this.#settings.maxTasksPerChild) this.#idle.push(child);
    else void child.end();
  }

  /** It has ended. */
  #forget(child: Child): void {
    this.#all.delete(child);
    this.#idle = this.#idle.filter((other) => other !== child);
  }
}

function settingsOf(
  { runIn, module, memory }: TaskDefinition,
  { maxPayload }: ExecutorSettings,
): ChildSettings {
  return { runIn: runIn === "thread" ? "thread" : "process", module: String(module), memory, maxPayload };
}
