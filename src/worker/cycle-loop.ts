/** Runs the dispatcher's cycles one after another: requests that come before a cycle begins share it. */
import { EventEmitter } from "node:events";
import { inRootContext } from "../base/runtime/root-context.ts";
import { clearTimeout, setImmediate, setTimeout } from "../base/runtime/timers.ts";

export interface CycleLoopHost {
  /** One cycle. Never rejects. */
  run(): Promise<void>;
  /** Whether another cycle follows at once; `requested`: somebody asked for one during this cycle. */
  isAnotherDue(requested: boolean): boolean;
  /** A cycle has ended, and the next one is requested if it is due. */
  onEnd(): void;
}

export class CycleLoop {
  readonly #host: CycleLoopHost;
  readonly #events = new EventEmitter<{ end: [] }>().setMaxListeners(0);
  #state: "idle" | "requested" | "running" | "stopped" = "idle";
  #requested = false;

  constructor(host: CycleLoopHost) {
    this.#host = host;
  }

  /** A cycle was requested and has not begun. */
  get isAboutToBegin(): boolean {
    return this.#state === "requested";
  }

  /** No cycle is running or requested. */
  get isIdle(): boolean {
    return this.#state === "idle";
  }

  /**
   * The next cycle begins in the next phase of the event loop, so that it settles all attempts that end in this tick.
   */
  request(): void {
    this.#requested = true;
    if (this.#state !== "idle") return;
    this.#state = "requested";
    inRootContext(() => setImmediate(() => this.#runOnce()));
  }

  /** No cycle begins from now on. Ends all waits for the end of a cycle. */
  stop(): void {
    this.#state = "stopped";
    this.notify();
  }

  /** Ends all waits for the end of a cycle now: what they wait for may have happened outside of one. */
  notify(): void {
    this.#events.emit("end");
  }

  /** Resolves at the end of a cycle, or after `limitMs` milliseconds. */
  async cycleEnd(limitMs?: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = limitMs === undefined ? undefined : setTimeout(done, limitMs);
      const events = this.#events.once("end", done);
      function done(): void {
        clearTimeout(timer);
        events.off("end", done);
        resolve();
      }
    });
  }

  async #runOnce(): Promise<void> {
    if (this.#isStopped()) return;
    this.#requested = false;
    this.#state = "running";
    await this.#host.run();
    if (this.#isStopped()) return;
    this.#state = "idle";
    if (this.#host.isAnotherDue(this.#requested)) this.request();
    this.#host.onEnd();
    this.notify();
  }

  #isStopped(): boolean {
    return this.#state === "stopped";
  }
}
