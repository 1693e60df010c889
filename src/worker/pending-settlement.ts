/** An attempt that has ended, with its outcome, until that is settled. */

import type { Outcome } from "../store.ts";
import type { RunningAttempt } from "./attempt.ts";

/** Milliseconds before an outcome is offered again: at first, and at most. */
const pause = { first: 1_000, most: 5_000 };

export class PendingSettlement {
  readonly attempt: RunningAttempt;
  readonly outcome: Outcome;
  #refused = 0;

  constructor(attempt: RunningAttempt, outcome: Outcome) {
    this.attempt = attempt;
    this.outcome = outcome;
  }

  /** The database refused it by itself: in how many milliseconds it is offered again, twice as many each time. */
  nextDelayMs(): number {
    const next = Math.min(pause.first * 2 ** this.#refused, pause.most);
    this.#refused += 1;
    return next;
  }
}
