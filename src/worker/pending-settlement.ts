/** The outcome of an attempt that has ended, until it is settled. */

import type { Outcome } from "../store.ts";
import type { RunningAttempt } from "./attempt.ts";

/** Milliseconds before a refused outcome is settled again: at first, and at most. */
const backoff = { first: 1_000, most: 5_000 };

export class PendingSettlement {
  readonly attempt: RunningAttempt;
  readonly outcome: Outcome;
  #refusals = 0;

  constructor(attempt: RunningAttempt, outcome: Outcome) {
    this.attempt = attempt;
    this.outcome = outcome;
  }

  /** The database refused this outcome by itself: milliseconds until the next try, doubled each time. */
  nextDelayMs(): number {
    const next = Math.min(backoff.first * 2 ** this.#refusals, backoff.most);
    this.#refusals += 1;
    return next;
  }
}
