/** Tasks that a worker has claimed ahead of a free slot, in the order of their claim. */
import type { RunningAttempt } from "./attempt.ts";

/** Milliseconds that a task waits for a slot; then it is handed back, for whoever has one. */
const patience = 100;

export class Waiting {
  /** `until`: on the clock of `performance.now()`. */
  readonly #list: { attempt: RunningAttempt; until: number }[] = [];
  readonly #onLate: () => void;
  #timer: NodeJS.Timeout | undefined;

  /** `onLate`: called when something was handed back because it waited too long. */
  constructor(onLate: () => void) {
    this.#onLate = onLate;
  }

  get length(): number {
    return this.#list.length;
  }

  push(attempt: RunningAttempt): void {
    this.#list.push({ attempt, until: performance.now() + patience });
  }

  shift(): RunningAttempt | undefined {
    return this.#list.shift()?.attempt;
  }

  /** It has ended before it had a slot. */
  remove(attempt: RunningAttempt): void {
    const at = this.#list.findIndex((waiting) => waiting.attempt === attempt);
    if (at >= 0) this.#list.splice(at, 1);
  }

  /** From now on, whatever has waited too long is handed back. */
  watch(): void {
    const [first] = this.#list;
    if (!first || this.#timer) return;
    const handBack = () => {
      this.#timer = undefined;
      if (this.handBack(performance.now())) this.#onLate();
      this.watch();
    };
    this.#timer = setTimeout(handBack, Math.max(1, first.until - performance.now())).unref();
  }

  /** All, or those whose patience has ended by `now`. False: none. */
  handBack(now = Number.POSITIVE_INFINITY): boolean {
    const count = this.#list.findIndex(({ until }) => until > now);
    const late = this.#list.splice(0, count < 0 ? this.#list.length : count);
    for (const { attempt } of late) attempt.interrupt();
    return late.length > 0;
  }

  /** Forgets them. */
  clear(): void {
    this.#list.length = 0;
  }
}
