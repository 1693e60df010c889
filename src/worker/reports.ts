/** Tells the worker what has become of its attempts, once the database has answered. */
import { isHeldUp, type Outcome, type SettleAndClaimResult } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import { possibleOutcome } from "./ambiguous-results.ts";
import type { RunningAttempt } from "./attempt.ts";
import type { AttemptFeatures } from "./attempt-part.ts";
import type { DispatcherHost } from "./dispatcher-host.ts";
import type { Loss } from "./ownership.ts";
import type { PendingSettlement } from "./pending-settlement.ts";
import { RefusedTasks } from "./refused-tasks.ts";

export class Reports {
  readonly #host: DispatcherHost;
  readonly #features: AttemptFeatures | undefined;
  /** The tasks whose outcome the database refuses. */
  readonly refused: RefusedTasks<RunningAttempt>;

  constructor(host: DispatcherHost, features: AttemptFeatures | undefined) {
    this.#host = host;
    this.#features = features;
    const report = (error: unknown, where: string) => host.reportError(error, where);
    this.refused = new RefusedTasks(host.store, report, (...settled) => this.#settledInstead(...settled));
  }

  /** Never throws: the outcomes are settled, whatever happens to their events. */
  settled(
    batch: readonly PendingSettlement[],
    refused: ReadonlySet<RunningAttempt>,
    lost: ReadonlyMap<RunningAttempt, Loss>,
    { refused: refusals }: SettleAndClaimResult,
  ): void {
    for (const { attempt, outcome } of batch) {
      if (this.refused.note(attempt, outcome, refusals?.get(outcome))) continue;
      // Refused and not lost: accepted before, in the function's own transaction or by a settle whose answer was lost.
      const accepted = refused.has(attempt) ? possibleOutcome(attempt) : outcome;
      const loss = lost.get(attempt);
      if (!accepted || loss) {
        attempt.isHeldUp = loss?.isHeldUp === true;
        this.lost(attempt, loss?.cancelled);
      } else if (isHeldUp(outcome)) this.#host.reportHeldUp?.(attempt.record);
      else this.#host.reportSettled(attempt.record, accepted, attempt.ranMs);
    }
  }

  lost({ record, isHeldUp: isToEnd }: RunningAttempt, cancelled: TaskRecord | undefined): void {
    if (isToEnd) {
      this.#host.reportHeldUp?.(record);
      this.#features?.hasStopped(record);
    } else this.#host.reportLost(record, cancelled);
  }

  /** The database refused the attempt's own outcome, and has stored this one; undefined: the task has moved on since. */
  #settledInstead(attempt: RunningAttempt, stored: Outcome | undefined, outcome: Outcome): void {
    if (stored) this.#host.wakeups.taskEnded([stored.id]);
    if (stored) this.#host.reportSettled(attempt.record, stored, attempt.ranMs);
    else this.#host.reportLost(attempt.record, undefined);
    if (stored?.kind === "failed" && outcome.kind !== "failed") attempt.failedInstead(stored.error);
  }
}
