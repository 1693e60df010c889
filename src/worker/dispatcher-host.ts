/** What a dispatcher needs from whoever has one: a worker, or the test kit. */
import type { Clock } from "../base/runtime/clock.ts";
import type { TaskDefinition } from "../base/tasks/registry.ts";
import type { Wakeups } from "../queue/wakeups.ts";
import type { Outcome, Store } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import type { AttemptFeatures } from "./attempt-part.ts";
import type { ClaimPolicy } from "./claim-policy.ts";
import type { Executor } from "./executor.ts";

/** What the dispatcher needs from its worker. */
export interface DispatcherHost {
  readonly store: Pick<
    Store,
    | "settleAndClaim"
    | "heldBy"
    | "taskStates"
    | "get"
    | "progress"
    | "log"
    | "fillDefaults"
    | "within"
    | "synchronous"
    | "cyclesMayOverlap"
  >;
  readonly wakeups: Wakeups;
  /** What attempts have for features. @default they have no database */
  featuresOf?(hasFreeSlot: () => boolean): AttemptFeatures;
  readonly workerId: string;
  readonly queueNames: readonly string[];
  /** May change at any time. */
  readonly concurrency: number;
  readonly context: unknown;
  readonly maxPayload: number;
  readonly clock?: Clock | undefined;
  /**
   * Milliseconds between two looks at the states of the tasks that it owns. A cancel reaches its function within this time.
   * @default 400
   */
  readonly checkEvery?: number;
  /** Whether a claim waits at the store until there are tasks: what ends meanwhile is settled beside it. @default none ever waits */
  isClaimWaiting?(): boolean;
  executorOf(definition: TaskDefinition): Executor;
  readonly claims: Omit<ClaimPolicy, "begin">;
  /** Another process has declared this worker dead and deleted its row. */
  onDeclaredDead(): void;
  /** A claim was answered. `more`: there may be more tasks than it had slots for. `expired`: the ids of tasks that it has ended. */
  onClaim(more: boolean, expired?: readonly number[]): void;
  /** A task became `scheduled`: it may be due before the next one that is known. */
  onScheduled(): void;
  reportStarted(record: TaskRecord): void;
  /** `ranMs`: how long the function ran; undefined: it was not called. */
  reportSettled(record: TaskRecord, outcome: Outcome, ranMs: number | undefined): void;
  /** The attempt has no outcome that counts. `cancelled`: the row, when the task was cancelled during the attempt. */
  reportLost(record: TaskRecord, cancelled: TaskRecord | undefined): void;
  /**
   * The task is to fail or to be cancelled, and a feature holds that up. `outcome`: what the attempt has ended with; undefined: another
   * program has decided the end. @default nothing
   */
  reportHeldUp?(record: TaskRecord, outcome?: Outcome): void;
  reportError(error: unknown, where: string): void;
}
