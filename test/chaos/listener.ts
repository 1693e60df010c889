/**
 * Measures whether change notifications reach a worker, by a task that it would otherwise only find at its next poll.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, Harness } from "../fixtures/harness.ts";
import { quick } from "../fixtures/tasks.ts";
import { type Figure, spread } from "./scenario.ts";

/** Milliseconds between two tasks; and from an enqueue to a start that a notification caused. */
const pause = 250;
const heard = 200;

/** Longer than any wait here: a task that starts earlier was found by a notification. */
const pollInterval = "60s";

const queueName = "probe";

export class Listener {
  /** Keeps running when the probe has stopped. */
  readonly worker: Child;
  readonly #harness: Harness;
  /** When each task was enqueued. */
  readonly #enqueued = new Map<number, number>();
  readonly #ended: Promise<void>;
  #ending = false;

  private constructor(harness: Harness, worker: Child) {
    this.#harness = harness;
    this.worker = worker;
    this.#ended = this.#probe();
  }

  /** Starts a worker that polls once a minute, and enqueues tasks for it from this process. */
  static async start(harness: Harness): Promise<Listener> {
    return new Listener(harness, await harness.worker({ queueName, pollInterval }));
  }

  async #probe(): Promise<void> {
    for (; !this.#ending; await sleep(pause)) {
      try {
        const id = await this.#harness.queue.enqueueTask(quick.with({ queueName }));
        this.#enqueued.set(id, Date.now());
      } catch {
        // The outcome is unknown, so this task tells nothing.
      }
    }
  }

  async stop(): Promise<void> {
    this.#ending = true;
    await this.#ended;
  }

  /** For each moment, the time until the next enqueue that a notification delivered. */
  figures(name: string, moments: readonly number[]): Figure[] {
    return spread(name, this.#backAfter(moments), { max: 15_000 });
  }

  #backAfter(moments: readonly number[]): number[] {
    const starts = new Map(this.#harness.eventLog.entries("start").map(({ task, at }) => [task, at]));
    const quickOnes = [...this.#enqueued].filter(([id, at]) => (starts.get(id) ?? Infinity) - at <= heard);
    return moments.map((moment) => (quickOnes.find(([, at]) => at > moment)?.[1] ?? Infinity) - moment);
  }
}
