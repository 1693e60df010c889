/**
 * The clock that a queue asks for everything that is due at a time: delays, backoff, retention, leases, unique keys,
 * rates, schedules.
 *
 * In production, a server's own clock decides in SQL, and SQLite and the worker use the host's. With a `TestClock`, all of
 * them use that clock, which stands still until the test steps it. Timers, and durations that are about real work, such as
 * the pause after a failed connection, stay on the real clock.
 */
import { after, performance, type Timer } from "./timers.ts";

export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Milliseconds on a clock that never goes back. */
  monotonic(): number;
  /** Calls `fn` when so many milliseconds have passed. */
  after(ms: number, fn: () => void): Timer;
  /** Calls `listener` after each step: what waits for a time looks again. Returns a function that removes it. */
  onStep(listener: () => void): () => void;
}

/** The clock of this host. Nothing steps it. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after,
  onStep: () => () => undefined,
};

/** A clock that stands still until it is stepped. Several queues may share one. */
export class TestClock implements Clock {
  #now: number;
  #stepped = 0;
  readonly #timers = new Set<{ due: number; fn: () => void }>();
  readonly #listeners = new Set<() => void>();

  /** @param start a time, or milliseconds since 1970 @default now */
  constructor(start: Date | number = Date.now()) {
    this.#now = Number(start);
    if (!Number.isSafeInteger(this.#now))
      throw new TypeError(`TestClock: expected a time in whole milliseconds, got ${String(start)}`);
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return performance.now() + this.#stepped;
  }

  after(ms: number, fn: () => void): Timer {
    const timer = { due: this.#now + ms, fn };
    this.#timers.add(timer);
    return { clear: () => void this.#timers.delete(timer) };
  }

  onStep(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Steps the clock, and fires the timers on its way in the order of their times. @param ms whole milliseconds, 0 or more @throws TypeError */
  advance(ms: number): void {
    if (!Number.isSafeInteger(ms) || ms < 0)
      throw new TypeError(`TestClock: expected a whole number of milliseconds from 0, got ${String(ms)}`);
    const target = this.#now + ms;
    const first = () => [...this.#timers].sort((a, b) => a.due - b.due).find(({ due }) => due <= target);
    for (let timer = first(); timer; timer = first()) {
      this.#timers.delete(timer);
      this.#now = Math.max(this.#now, timer.due);
      timer.fn();
    }
    this.#now = target;
    this.#stepped += ms;
    for (const listener of [...this.#listeners]) listener();
  }
}
