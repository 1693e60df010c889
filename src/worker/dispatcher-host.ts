/** What slots need of the worker that has them. */
import type { Hints } from "../queue/wakeups.ts";
import type { Outcome, Store } from "../store.ts";
import type { TaskRecord } from "../task.ts";

export interface SlotsHost {
  readonly store: Pick<Store, "turn" | "heldBy" | "standings" | "progress" | "within" | "synchronous">;
  readonly hints: Hints;
  readonly workerId: string;
  readonly queueNames: readonly string[];
  readonly concurrency: number;
  readonly context: unknown;
  readonly maxPayload: number;
  /** The names of the functions that the worker runs, as of now. */
  funcs(): readonly string[];
  /** Others have taken the worker for dead, and deleted its row. */
  onDeclaredDead(): void;
  /** It has claimed; `more`: there may be more than it had slots for. */
  onClaim(more: boolean): void;
  /** A task was put off: it may be due sooner than the next one known. */
  onScheduled(): void;
  tellStarted(record: TaskRecord): void;
  /** Without an outcome, the task was lost. */
  tellSettled(record: TaskRecord, outcome: Outcome | undefined): void;
  tellError(error: unknown, where: string): void;
}
