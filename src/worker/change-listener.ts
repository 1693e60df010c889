/** A worker's listening for what other connections write. */

/** Milliseconds of work at hand after which it stops listening. */
const pauseAfterMs = 20;

/** Milliseconds between looks at what waits for its time, while it does not listen. */
const lookEveryMs = 100;

/**
 * Listens while there is nothing to claim. A worker that has work at hand need not be told of more, and on SQLite its
 * own commits would bring it an event each: not to listen takes 8 % off a task in batches of ten.
 */
export class ChangeListener {
  readonly #watch: (listener: () => void) => () => void;
  readonly #onChange: () => void;
  #unwatch: (() => void) | undefined;
  #busySince: number | undefined;
  #lastLook = 0;
  #closed = false;

  constructor(watch: (listener: () => void) => () => void, onChange: () => void) {
    this.#watch = watch;
    this.#onChange = onChange;
  }

  /** There was more to claim than was claimed. */
  busy(): void {
    const now = performance.now();
    this.#busySince ??= now;
    if (now - this.#busySince < pauseAfterMs) return;
    this.#stopListening();
    if (now - this.#lastLook < lookEveryMs) return;
    this.#lastLook = now;
    this.#onChange();
  }

  /** There is nothing more to claim; what came while it did not listen is looked for once. */
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
