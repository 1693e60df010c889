/**
 * Claimed tasks whose turn at a rate comes a little later. The database has given each its start, and no other start moves when
 * this process is late; so a worker claims them early, and each waits for its turn in its slot.
 */
import { after, performance } from "../base/runtime/timers.ts";
import type { RunningAttempt } from "./attempt.ts";

export class HeldStarts {
  readonly #start: (attempt: RunningAttempt) => void;
  /** On the clock of `performance.now()`. */
  readonly #startsAt = new WeakMap<RunningAttempt, number>();

  constructor(start: (attempt: RunningAttempt) => void) {
    this.#start = start;
  }

  /** @param milliseconds from now. The claim looked at the clock of the database before: nothing starts before its turn. */
  add(attempt: RunningAttempt, milliseconds: number): void {
    this.#startsAt.set(attempt, performance.now() + milliseconds);
  }

  /** The attempt has a slot: starts it, at its turn if it has one to wait for. Until then it may end. */
  start(attempt: RunningAttempt): void {
    const at = this.#startsAt.get(attempt);
    const wait = at === undefined ? 0 : at - performance.now();
    if (wait <= 0) this.#start(attempt);
    else
      after(wait, () => {
        if (attempt.isClaimed) this.#start(attempt);
      });
  }
}
