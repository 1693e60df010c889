/** What becomes of the outcomes of a cycle that has failed: they are kept, and offered again one by one. */
import { after, setTimeout } from "../base/runtime/timers.ts";
import { recordUnanswered } from "./ambiguous-results.ts";
import { failureBackoff } from "./failure-backoff.ts";
import type { PendingSettlement } from "./pending-settlement.ts";

export class CycleFailures {
  /** Failed cycles since the last one that succeeded. */
  count = 0;
  readonly #settleAgain: (batch: readonly PendingSettlement[]) => void;

  /** `settleAgain`: with the next cycle, which follows at once. */
  constructor(settleAgain: (batch: readonly PendingSettlement[]) => void) {
    this.#settleAgain = settleAgain;
  }

  /** The store has waited for the answer already: it settles again at once. Refused may then mean: already written. */
  unanswered(batch: readonly PendingSettlement[]): void {
    for (const { attempt, outcome } of batch) recordUnanswered(attempt, outcome);
    this.#settleAgain(batch);
  }

  /** Resolves when the next cycle may begin. */
  async failed(error: unknown, unsettled: readonly PendingSettlement[]): Promise<void> {
    this.count += 1;
    const [single] = unsettled.length === 1 ? unsettled : [];
    // The row of a single outcome may be the cause: it is tried again later, and the others do not wait for it.
    if (single) after(single.nextDelayMs(error), () => this.#settleAgain([single]));
    this.#settleAgain(single ? [] : unsettled);
    await new Promise((resolve) => setTimeout(resolve, single ? 0 : failureBackoff(this.count)));
  }
}
