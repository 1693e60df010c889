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
      } else if (isHeldUp(outcome)) this.#host.reportHeldUp?.(attempt.record, outcome);
      else this.#host.reportSettled(attempt.record, accepted, attempt.ranMs);
    }
  }

  lost(attempt: RunningAttempt, cancelled: TaskRecord | undefined): void {
    const { record } = attempt;
    if (attempt.isHeldUp) this.#host.reportHeldUp?.(record);
    else this.#host.reportLost(record, cancelled);
    // Also if it is not known why the task was lost.
    if (attempt.isHeldUp || attempt.hasParts) this.#features?.hasStopped(record);
  }

  /** The database refused the attempt's own outcome, and has stored this one; undefined: the task has moved on since. */
  #settledInstead(attempt: RunningAttempt, stored: Outcome | undefined, outcome: Outcome): void {
    const { record } = attempt;
    if (!stored) {
      this.lost(attempt, undefined);
      return;
    }
    const tell = () => {
      this.#host.wakeups.taskEnded([stored.id]);
      this.#host.reportSettled(record, stored, attempt.ranMs);
      if (stored.kind === "failed" && outcome.kind !== "failed") attempt.failedInstead(stored.error);
    };
    if (!attempt.hasParts || !this.#features) tell();
    else
      void this.#features
        .holdsUp(record)
        .then((held) => (held ? this.#host.reportHeldUp?.(record, stored) : tell()));
  }
}
