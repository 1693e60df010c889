/**
 * Runs the cycles of a dispatcher or a drain: requests that come before a cycle begins share it. One cycle follows the other,
 * unless its host lets the next one begin beside those under way.
 */
import { EventEmitter } from "node:events";
import { inRootContext } from "../base/runtime/root-context.ts";
import { clearTimeout, setImmediate, setTimeout } from "../base/runtime/timers.ts";

export interface CycleLoopHost {
  /** One cycle. Never rejects. */
  run(): Promise<void>;
  /** Whether a cycle may begin beside those under way. @default never */
  mayOverlap?(running: number): boolean;
  /** Whether another cycle follows at once; `requested`: somebody asked for one during this cycle. */
  isAnotherDue(requested: boolean): boolean;
  /** A cycle has ended, and the next one is requested if it is due; or a requested one waits for the end of another. */
  onEnd(): void;
}

export class CycleLoop {
  readonly #host: CycleLoopHost;
  readonly #events = new EventEmitter<{ end: [] }>().setMaxListeners(0);
  #running = 0;
  #aboutToBegin = false;
  #stopped = false;
  #requested = false;

  constructor(host: CycleLoopHost) {
    this.#host = host;
  }

  /** A cycle was requested and has not begun. */
  get isAboutToBegin(): boolean {
    return this.#aboutToBegin;
  }

  /** No cycle is running or requested. */
  get isIdle(): boolean {
    return this.#running === 0 && !this.#aboutToBegin;
  }

  /**
   * The next cycle begins in the next phase of the event loop, so that it settles all attempts that end in this tick; or
   * at the end of one that is under way.
   */
  readonly request = (): void => {
    this.#requested = true;
    if (this.#stopped || this.#aboutToBegin || !this.#mayBegin()) return;
    this.#aboutToBegin = true;
    inRootContext(() => setImmediate(() => this.#begin()));
  };

  #mayBegin(): boolean {
    return this.#running === 0 || this.#host.mayOverlap?.(this.#running) === true;
  }

  /** No cycle begins from now on. Ends all waits for the end of a cycle. */
  stop(): void {
    this.#stopped = true;
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

  async #begin(): Promise<void> {
    this.#aboutToBegin = false;
    if (this.#stopped) return;
    // Since the request, a cycle under way may have failed. This one then follows it.
    if (!this.#mayBegin()) return this.#host.onEnd();
    this.#requested = false;
    this.#running += 1;
    await this.#host.run();
    this.#running -= 1;
    if (this.#isStopped()) return;
    if (this.#host.isAnotherDue(this.#requested)) this.request();
    this.#host.onEnd();
    this.notify();
  }

  /** A cycle may have stopped the loop meanwhile. */
  #isStopped(): boolean {
    return this.#stopped;
  }
}
