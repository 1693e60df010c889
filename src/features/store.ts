/** The store of a queue with all features: what each database does for the core and for them. */
import type { RequestStore, Store, StoreTransaction } from "../store.ts";
import type { ArchiveStore } from "./archive/contract.ts";
import type { CauseStore } from "./causes/contract.ts";
import type { DrainStore } from "./drain/contract.ts";
import type { EncryptionStore } from "./encryption/contract.ts";
import type { FailureStore } from "./failures/contract.ts";
import type { HookStore } from "./hooks/contract.ts";
import type { HealthStore } from "./inspect/contract.ts";
import type { LimitStore } from "./limits/contract.ts";
import type { LookStore, Note } from "./look/contract.ts";
import type { AgentStore } from "./manager/contract.ts";
import type { PartitionStore } from "./partitions/contract.ts";
import type { ScheduleStore, ScheduleWrites } from "./schedules/contract.ts";
import type { StatsStore } from "./stats/contract.ts";
import type { TestStore } from "./testing/contract.ts";
import type { TransferStore } from "./transfer/contract.ts";
import type { WorkflowStore, WorkflowWrites } from "./workflows/contract.ts";

/** The parts of features. */
export interface FeatureStores {
  readonly agents: AgentStore;
  readonly archive: ArchiveStore;
  readonly causes: CauseStore;
  readonly drains: DrainStore;
  readonly encryption: EncryptionStore;
  readonly failures: FailureStore;
  readonly health: HealthStore;
  readonly hooks: HookStore;
  readonly limits: LimitStore;
  readonly look: LookStore;
  /** Undefined where finished tasks cannot move to tables of their own. */
  readonly partitions?: PartitionStore | undefined;
  readonly schedules: ScheduleStore;
  readonly stats: StatsStore;
  readonly testing: TestStore;
  readonly transfer: TransferStore;
  readonly workflows: WorkflowStore;
}

/** What the app's own calls need. */
export type FullRequestStore = RequestStore &
  Pick<
    FeatureStores,
    "causes" | "failures" | "health" | "limits" | "look" | "schedules" | "stats" | "workflows"
  >;

export interface FullTransaction extends StoreTransaction {
  readonly schedules: ScheduleWrites;
  readonly workflows: WorkflowWrites;
}

/** Take the parts that you need, or a `Pick` of them. */
export interface FullStore extends Store, FeatureStores {
  readonly requests?: FullRequestStore | undefined;

  within(tx: unknown): FullTransaction;

  /**
   * The same store for one action of a person: the transactions that change something keep it, as one row of `dbq_audit`. An
   * INSERT is a transaction there, too.
   */
  noting(note: Note): FullStore;

  /**
   * The same database by connections of its own, which write nothing, and whose statements take 5 s at most where the
   * database can stop one. Where there can be no other connection, it is this store, which its `close` leaves open.
   * @throws DatabaseError
   */
  reader(): Promise<FullStore>;
}
