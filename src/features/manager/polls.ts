/** The claims that wait for tasks. One at a time looks for tasks of the same functions and queues. */
import { after, repeat, setImmediate, type Timer } from "../../base/runtime/timers.ts";

interface Waiting {
  resolve(isTurn: boolean): void;
}

export class Polls {
  readonly #waiting = new Map<string, Set<Waiting>>();
  /** When to look again, by the keys of claims. */
  readonly #timers = new Map<string, Timer>();
  #wakes = 0;
  #isWaking = false;
  #stopped = false;
  readonly #undo: (() => void)[] = [];

  /** `watch`: each starts to call a listener when there may be tasks, and returns a function that ends that. */
  constructor(pollInterval: number, watch: readonly ((listener: () => void) => () => void)[]) {
    const wake = () => this.#wakeSoon();
    this.#undo.push(repeat(pollInterval, wake, { keepAlive: false }));
    for (const each of watch) this.#undo.push(each(wake));
  }

  /** Counts the wake-ups. Read it before a look, so that a task that comes during the look is not missed. */
  get wakes(): number {
    return this.#wakes;
  }

  get size(): number {
    let size = 0;
    for (const some of this.#waiting.values()) size += some.size;
    return size;
  }

  /**
   * Resolves with true when this claim is to look again, with false after `limit` milliseconds, an abort or `stop`.
   * @param key equal for claims of the same tasks
   * @param wakes as it was before the last look
   */
  async turn(key: string, wakes: number, limit: number, signal: AbortSignal): Promise<boolean> {
    if (this.#stopped || signal.aborted || limit <= 0) return false;
    if (wakes !== this.#wakes) return true;
    const waiting = this.#waiting.get(key) ?? new Set();
    this.#waiting.set(key, waiting);
    return await new Promise((resolve) => {
      const end = (isTurn: boolean) => {
        timer.clear();
        signal.removeEventListener("abort", abort);
        waiting.delete(one);
        if (waiting.size === 0 && this.#waiting.get(key) === waiting) this.#waiting.delete(key);
        resolve(isTurn);
      };
      const one: Waiting = { resolve: end };
      const abort = () => end(false);
      const timer = after(limit, () => end(false), { keepAlive: false });
      signal.addEventListener("abort", abort, { once: true });
      waiting.add(one);
    });
  }

  /** Called after a look that found tasks: the next claim that waits looks, too, since there may be more. */
  found(key: string): void {
    const [next] = this.#waiting.get(key) ?? [];
    next?.resolve(true);
  }

  /**
   * Notes when to look for these tasks again: a rate or a throttle lets some of them start after `delay` milliseconds, and no
   * wake-up tells of it. Undefined: none of them waits for a rate.
   */
  lookAgain(key: string, delay: number | undefined): void {
    this.#timers.get(key)?.clear();
    this.#timers.delete(key);
    if (delay === undefined || this.#stopped) return;
    const look = () => {
      this.#timers.delete(key);
      this.#wakes += 1;
      this.found(key);
    };
    this.#timers.set(key, after(delay, look, { keepAlive: false }));
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers.values()) timer.clear();
    for (const undo of this.#undo.splice(0)) undo();
    for (const some of [...this.#waiting.values()]) for (const one of [...some]) one.resolve(false);
  }

  /** Wake-ups of one turn of the event loop are one. */
  #wakeSoon(): void {
    this.#wakes += 1;
    if (this.#isWaking || this.#waiting.size === 0) return;
    this.#isWaking = true;
    setImmediate(() => {
      this.#isWaking = false;
      for (const key of [...this.#waiting.keys()]) this.found(key);
    });
  }
}
