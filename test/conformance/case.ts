/** What a case of the suite is, and what it is given. Cases know no test runner, no dialect, and no driver. */
import type { MaybePromise, Store } from "../../src/store.ts";
import { accounted } from "./generations.ts";

export type Row = Readonly<Record<string, unknown>>;

/** What not every store has: a case that needs one is left out, with the reason, where it is lacking. */
export type Need =
  | "several connections"
  | "restart"
  | "heartbeats"
  | "heartbeats on a thread"
  | "hints between connections"
  | "an app's connection"
  | "transactions whose end waits";

/** A transaction of the app's own, begun and ended by hand. */
export interface OpenTransaction {
  /** What `store.within` takes. */
  handle: unknown;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** One database, empty and of one case alone. */
export interface Place {
  /** What `Kind.connect` takes, in any process. */
  readonly url: string;
  /** Opens the store; again: one more connection to the same database. */
  open(): Promise<Store>;
  /** Runs SQL as anybody might, past the store; rows for a query. */
  sql(text: string): Promise<Row[]>;
  /** SQL for `column` of times, `ms` earlier. */
  earlier(column: string, ms: number): string;
  /** The app's own Drizzle database. Needs "an app's connection". */
  app(): AppDatabase;
  /** Begins a transaction on a connection of its own. Needs "several connections". */
  begin(): Promise<OpenTransaction>;
  remove(): Promise<void>;
}

/** What all of Drizzle's databases and transactions have. */
export interface AppDatabase {
  transaction<T>(fn: (tx: AppDatabase) => MaybePromise<T>): MaybePromise<T>;
}

/** One way to keep a queue, in the registry of `stores.ts`. */
export interface Kind {
  readonly name: string;
  /**
   * The groups about which it differs from a kind that has the same statements: those that `npm run test:full` runs.
   * Undefined: all. `npm run proof` runs every group.
   */
  readonly concerns?: readonly GroupName[];
  /** Why it has not what some cases need. */
  readonly lacks: Partial<Record<Need, string>>;
  make(): Promise<Place>;
  /** Opens the store at a place's `url`; what it makes for that, its `close` ends. */
  connect(url: string): Promise<Store>;
  /** After the last place: ends what places shared. */
  end?(): Promise<void>;
}

export interface Context {
  readonly kind: Kind;
  readonly place: Place;
  /** The store, with every call's changes and generations accounted for (`generations.ts`). */
  readonly store: Store;
  /** The same without the accounts: for calls that run at the same time. */
  readonly bare: Store;
  /** One more connection, closed after the case. */
  another(): Promise<Store>;
  sql(text: string): Promise<Row[]>;
}

export interface Case {
  readonly name: string;
  readonly needs?: readonly Need[];
  run(ctx: Context): Promise<void>;
}

export type GroupName =
  | "insert"
  | "raw SQL"
  | "get, list, count, idle, attempts"
  | "transaction and within"
  | "turn: claim"
  | "turn: settle"
  | "standings and progress"
  | "cancel and retry"
  | "purge and prune"
  | "promote"
  | "workers: register, rescue, unregister"
  | "heartbeat"
  | "restart"
  | "moving"
  | "watch and diagnose"
  | "races between connections"
  | "contention between processes";

/** The cases about one area of the Store interface. */
export interface Group {
  readonly name: GroupName;
  readonly cases: readonly Case[];
}

/** Why a case cannot run on this kind of store; undefined when it can. */
export function reasonToLeaveOut({ needs = [] }: Case, { lacks }: Kind): string | undefined {
  return needs.map((need) => lacks[need]).find((reason) => reason !== undefined);
}

/** What will not be run on this kind of store, and why, in a line for each reason. */
export function leftOutOf(kind: Kind, suite: readonly Group[]): string[] {
  const reasons = suite.flatMap(({ cases }) => cases).map((one) => reasonToLeaveOut(one, kind));
  const counts = new Map<string, number>();
  for (const reason of reasons) if (reason !== undefined) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return [...counts].map(([reason, count]) => `${kind.name}: ${count} cases do not apply: ${reason}`);
}

/** Runs one case on a database of its own. */
export async function runCase(kind: Kind, { run }: Case): Promise<void> {
  const place = await kind.make();
  const opened: Store[] = [];
  const open = async () => {
    const store = await place.open();
    opened.push(store);
    return store;
  };
  try {
    const bare = await open();
    await run({ kind, place, bare, store: accounted(bare), another: open, sql: place.sql });
  } finally {
    for (const store of opened) await store.close();
    await place.remove();
  }
}
