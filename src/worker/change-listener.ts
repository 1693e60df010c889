/** A worker's subscription to the writes of other connections. */
import { performance, setImmediate } from "../base/runtime/timers.ts";
import type { Store } from "../store.ts";

/** Milliseconds with work at hand after which the worker stops listening. */
const pauseAfterMs = 20;

/** Milliseconds between two checks for due tasks and new workers while it does not listen. */
const checkEveryMs = 100;

/** Calls `listener` at the changes of other connections that may let a task start. */
export const watchForWork = (store: Pick<Store, "watch">, listener: () => void): (() => void) =>
  store.watch((mayStart) => {
    if (mayStart) listener();
  });

/**
 * The listener of a worker or a drain. At each change it looks for work. After the cycle that this requests, it looks for due
 * tasks and new workers, because running tasks goes first.
 */
export function listenerOf(
  watch: (listener: () => void) => () => void,
  lookForWork: () => void,
  lookAround: () => void,
): ChangeListener {
  const onChange = () => {
    lookForWork();
    setImmediate(lookAround);
  };
  return new ChangeListener(watch, onChange);
}

/**
 * Listens while there is nothing to claim. A worker with work at hand needs no wake-ups, and on SQLite each of its own
 * commits would cause one: not listening makes a task 8 % cheaper in batches of ten.
 */
export class ChangeListener {
  readonly #watch: (listener: () => void) => () => void;
  readonly #onChange: () => void;
  #unwatch: (() => void) | undefined;
  #busySince: number | undefined;
  #lastCheck = 0;
  #closed = false;

  constructor(watch: (listener: () => void) => () => void, onChange: () => void) {
    this.#watch = watch;
    this.#onChange = onChange;
  }

  /** A claim left tasks behind. */
  busy(): void {
    const now = performance.now();
    this.#busySince ??= now;
    if (now - this.#busySince < pauseAfterMs) return;
    this.#stopListening();
    if (now - this.#lastCheck < checkEveryMs) return;
    this.#lastCheck = now;
    this.#onChange();
  }

  /** A claim left nothing behind. Listens again, and reports one change for those that it may have missed. */
  idle(): void {
    this.#busySince = undefined;
    if (this.#unwatch || this.#closed) return;
    this.listen();
    this.#onChange();
  }

  listen(): void {
    this.#unwatch = this.#watch(this.#onChange);
  }

  close(): void {
    this.#closed = true;
    this.#stopListening();
  }

  #stopListening(): void {
    this.#unwatch?.();
    this.#unwatch = undefined;
  }
}
