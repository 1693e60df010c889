/** What a case of the suite is, and its context. A case does not depend on a test runner, a dialect or a driver. */
import type { FullStore } from "../../src/features/store.ts";
import type { MaybePromise } from "../../src/store.ts";
import { checked } from "./generations.ts";

export type Row = Readonly<Record<string, unknown>>;

/** A capability that some stores lack. A case that needs it is left out there, and the reason is printed. */
export type Need =
  | "several connections"
  | "restart"
  | "heartbeats"
  | "heartbeats on a thread"
  | "change notifications"
  | "an app's connection"
  | "readers that refuse to write"
  | "transactions that await their writes"
  | "locks of single rows"
  | "cycles in one transaction"
  | "finished tasks that stay in place";

/** A transaction of the app, begun and ended by hand. */
export interface OpenTransaction {
  /** The argument for `store.within`. */
  handle: unknown;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** An empty database for one case. */
export interface TestDatabase {
  /** The argument for `Kind.connect`, valid in any process. */
  readonly url: string;
  /** Opens a store. A second call opens another connection to the same database. */
  open(): Promise<FullStore>;
  /** Runs SQL outside of the store, as any program could; returns the rows of a query. */
  sql(text: string): Promise<Row[]>;
  /** An SQL expression: the time in `column` minus `ms` milliseconds. */
  earlier(column: string, ms: number): string;
  /** The app's own Drizzle database. Needs "an app's connection". */
  app(): AppDatabase;
  /** Begins a transaction on a separate connection. Needs "several connections". */
  begin(): Promise<OpenTransaction>;
  remove(): Promise<void>;
}

/** What Drizzle's databases and transactions have in common. */
export interface AppDatabase {
  transaction<T>(fn: (tx: AppDatabase) => MaybePromise<T>): MaybePromise<T>;
}

/** One kind of store in the registry of `stores.ts`. */
export interface Kind {
  readonly name: string;
  /**
   * The groups that `npm run test:full` runs on this kind, because it differs there from a kind with the same SQL.
   * Undefined: all groups. `npm run proof` runs every group.
   */
  readonly concerns?: readonly GroupName[];
  /** For each missing capability, the reason. */
  readonly lacks: Partial<Record<Need, string>>;
  make(): Promise<TestDatabase>;
  /** Opens a store at the `url` of a test database. Its `close` also ends the connections that this call opened. */
  connect(url: string): Promise<FullStore>;
  /** Ends what the test databases shared; called after the last one. */
  end?(): Promise<void>;
}

export interface Context {
  readonly kind: Kind;
  readonly database: TestDatabase;
  /** A store that checks the changes and generations of every call (`generations.ts`). */
  readonly store: FullStore;
  /** The same store without these checks, for concurrent calls. */
  readonly bare: FullStore;
  /** Opens another connection, which is closed after the case. */
  another(): Promise<FullStore>;
  sql(text: string): Promise<Row[]>;
}

export interface Case {
  readonly name: string;
  readonly needs?: readonly Need[];
  run(ctx: Context): Promise<void>;
}

export type GroupName =
  | "insert"
  | "unique keys"
  | "raw SQL"
  | "get, list, count, idle, attempts"
  | "transaction and within"
  | "claim"
  | "ids that JavaScript has no number for"
  | "numbers at the ends of 64 bits"
  | "settle"
  | "limits and groups"
  | "ownership and progress"
  | "log lines"
  | "cancel and retry"
  | "find, edit and act on many"
  | "purge and prune"
  | "expiry"
  | "promote"
  | "workers: register, rescue, unregister"
  | "rows that the database refuses to change"
  | "heartbeat"
  | "restart"
  | "agents"
  | "drains"
  | "transfer"
  | "statistics"
  | "kinds of failures"
  | "causes"
  | "health"
  | "watch and diagnose"
  | "races between connections"
  | "contention between processes";

/** The cases about one area of the Store interface. */
export interface Group {
  readonly name: GroupName;
  readonly cases: readonly Case[];
}

/** The reason why a case does not apply to this kind of store; undefined when it applies. */
export function reasonToLeaveOut({ needs = [] }: Case, { lacks }: Kind): string | undefined {
  return needs.map((need) => lacks[need]).find((reason) => reason !== undefined);
}

/** The cases that do not apply to this kind of store: one line for each reason. */
export function leftOutOf(kind: Kind, suite: readonly Group[]): string[] {
  const reasons = suite.flatMap(({ cases }) => cases).map((one) => reasonToLeaveOut(one, kind));
  const counts = new Map<string, number>();
  for (const reason of reasons) if (reason !== undefined) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return [...counts].map(([reason, count]) => `${kind.name}: ${count} cases do not apply: ${reason}`);
}

/** Runs one case on an empty database. */
export async function runCase(kind: Kind, { run }: Case): Promise<void> {
  const database = await kind.make();
  const opened: FullStore[] = [];
  const open = async () => {
    const store = await database.open();
    opened.push(store);
    return store;
  };
  try {
    const bare = await open();
    await run({ kind, database, bare, store: checked(bare), another: open, sql: database.sql });
  } finally {
    for (const store of opened) await store.close();
    await database.remove();
  }
}
