/** The variants of a drain, and the handler that all contenders run. */
import type { Variant } from "../benchmark.ts";
import type { Payload, PayloadKind } from "../payloads.ts";
import type { Run } from "../warm-up.ts";

export interface DrainVariant extends Variant {
  readonly payload: PayloadKind;
  /** How many tasks may run at a time. */
  readonly concurrency: number;
  /** Milliseconds that the handler waits, without using the CPU; 0: it returns at once. */
  readonly wait: number;
}

/** Fills a new queue and drains it; returns the milliseconds of the drain. */
export type DrainRun = Run<DrainVariant>;

const noop = (payload: PayloadKind, concurrency: number): DrainVariant => ({
  name: `no-op, ${payload}, ${concurrency} at a time`,
  payload,
  concurrency,
  wait: 0,
});

/**
 * 10 is the default of dbq's `Worker`. The goals are for handlers that do nothing: beside a wait, all queues are
 * equally fast.
 */
export const drainVariants: readonly DrainVariant[] = [
  noop("small", 10),
  noop("small", 100),
  noop("1 KiB", 10),
  noop("mix", 10),
  noop("mix", 100),
  {
    name: "1 ms of waiting, small, 100 at a time",
    payload: "small",
    concurrency: 100,
    wait: 1,
    goals: false,
  },
];

/** The result of a task, where its queue stores results. */
export interface Answer {
  n: number;
  ok: boolean;
}

export type Handler = (n: number, payload: Payload) => Promise<Answer>;

/** The handler, and a promise that resolves when it has run `tasks` times. */
export class Handlers {
  #left = 0;
  #done: () => void = () => undefined;
  readonly handler: Handler;

  constructor(wait: number) {
    this.handler = wait === 0 ? this.#atOnce : (n, payload) => this.#later(wait, n, payload);
  }

  /** Resolves when the handler has returned this many times. */
  times(tasks: number): Promise<void> {
    this.#left = tasks;
    return new Promise((resolve) => {
      this.#done = resolve;
    });
  }

  readonly #atOnce: Handler = async (n, payload) => this.#answer(n, payload);

  async #later(wait: number, n: number, payload: Payload): Promise<Answer> {
    await new Promise((resolve) => setTimeout(resolve, wait));
    return this.#answer(n, payload);
  }

  #answer(n: number, payload: Payload): Answer {
    this.#left -= 1;
    if (this.#left === 0) this.#done();
    return { n, ok: payload !== undefined };
  }
}

/** @throws Error when not all tasks have completed after a drain: its time would mean nothing */
export function checkCompleted(completed: number, tasks: number): void {
  if (completed !== tasks) throw new Error(`${completed} of ${tasks} tasks are completed after the drain`);
}
