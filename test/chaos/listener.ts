/** Whether workers hear of enqueues by others, or only find them when they look: asked again and again. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, Scene } from "../fixtures/scene.ts";
import { quick } from "../fixtures/tasks.ts";
import { type Figure, spread } from "./scenario.ts";

/** Milliseconds between two tasks, and from an enqueue to the start of who has heard of it. */
const pause = 250;
const heard = 200;

/** Longer than anything that is waited for: what starts before has been heard of. */
const pollInterval = "60s";

const queueName = "probe";

export class Listener {
  /** Goes on when this has stopped. */
  readonly worker: Child;
  readonly #scene: Scene;
  /** When each task was enqueued. */
  readonly #enqueued = new Map<number, number>();
  readonly #ended: Promise<void>;
  #ending = false;

  private constructor(scene: Scene, worker: Child) {
    this.#scene = scene;
    this.worker = worker;
    this.#ended = this.#probe();
  }

  /** Starts a worker that looks for tasks once a minute, and enqueues for it from here. */
  static async start(scene: Scene): Promise<Listener> {
    return new Listener(scene, await scene.worker({ queueName, pollInterval }));
  }

  async #probe(): Promise<void> {
    for (; !this.#ending; await sleep(pause)) {
      try {
        const id = await this.#scene.queue.enqueueTask(quick.with({ queueName }));
        this.#enqueued.set(id, Date.now());
      } catch {
        // Its outcome is not known: whether it starts says nothing.
      }
    }
  }

  async stop(): Promise<void> {
    this.#ending = true;
    await this.#ended;
  }

  /** From each moment until the first task that was enqueued since, and heard of. */
  figures(name: string, moments: readonly number[]): Figure[] {
    return spread(name, this.#backAfter(moments), { max: 15_000 });
  }

  #backAfter(moments: readonly number[]): number[] {
    const starts = new Map(this.#scene.ledger.entries("start").map(({ task, at }) => [task, at]));
    const quickOnes = [...this.#enqueued].filter(([id, at]) => (starts.get(id) ?? Infinity) - at <= heard);
    return moments.map((moment) => (quickOnes.find(([, at]) => at > moment)?.[1] ?? Infinity) - moment);
  }
}
