/** The outcome of an attempt that has ended, until it is settled. */

import { anotherTryAfter } from "../errors.ts";
import type { Outcome } from "../store.ts";
import type { RunningAttempt } from "./attempt.ts";

/** Milliseconds before a refused outcome is settled again: at first, and at most. */
const backoff = { first: 1_000, most: 5_000 };

/**
 * How often an outcome is offered by itself that the database refuses for a reason that dbq does not know: within 40 s a
 * migration is over, and a passing fault too. A result that was computed is not given up sooner, and a slot not held for longer.
 */
const mostUnknownErrors = 10;

export class PendingSettlement {
  readonly attempt: RunningAttempt;
  readonly outcome: Outcome;
  #refusals = 0;
  #unknownErrors = 0;

  constructor(attempt: RunningAttempt, outcome: Outcome) {
    this.attempt = attempt;
    this.outcome = outcome;
  }

  /** Whether the next error is final, unless the database is busy or out of reach. */
  get givesUp(): boolean {
    return this.#unknownErrors >= mostUnknownErrors;
  }

  /** The database refused this outcome by itself: milliseconds until the next try, doubled each time. */
  nextDelayMs(error: unknown): number {
    const next = Math.min(backoff.first * 2 ** this.#refusals, backoff.most);
    this.#refusals += 1;
    if (anotherTryAfter(error) === undefined) this.#unknownErrors += 1;
    return next;
  }
}
