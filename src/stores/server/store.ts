/** The store on a server. What Postgres and MySQL differ in is a `ServerKind`. */
import { type Clock, systemClock } from "../../base/runtime/clock.ts";
import type { Note } from "../../features/look/contract.ts";
import { noting } from "../../features/look/sql/noting.ts";
import type { PartitionStore } from "../../features/partitions/contract.ts";
import type { Operations } from "../../features/sql.ts";
import { factsOf, methodsOver } from "../../features/sql.ts";
import type { FullRequestStore, FullStore } from "../../features/store.ts";
import type { Diagnosis } from "../../store.ts";
import type { Compiled } from "../sql/compile.ts";
import type { Dialect } from "../sql/dialect.ts";
import { Heartbeat, type HeartbeatThread } from "../sql/heartbeat.ts";
import { checkTables, type MigrationText, migrate } from "../sql/migrations.ts";
import type { Program, Runner } from "../sql/program.ts";
import { withRefusals } from "../sql/refusals.ts";
import { settleAndClaim } from "../sql/settle-and-claim.ts";
import { isInCallback } from "./callbacks.ts";
import type { ServerDrizzle } from "./drizzle.ts";
import type { Connection, Pool, Queryable, ServerPool } from "./pool.ts";
import { insert, register, retry, settlingAndClaiming } from "./repeat.ts";
import { atOpening, type Notifier, once, ServerRunner } from "./run.ts";
import type { Host, ServerUrl } from "./url.ts";
import { inTransaction, runTransaction, type TransactionKind } from "./within.ts";

/**
 * How a claim keeps workers apart. `skip-locked`: it locks its candidates, and other claims pass over them. `optimistic`: it
 * locks nothing and the first UPDATE wins, for clusters whose row locks stop at one node.
 */
export type Strategy = "skip-locked" | "optimistic";

export interface ServerOptions {
  migrate: boolean;
  /** @default the one for the kind of server */
  strategy?: Strategy | undefined;
  /** `relaxed`: cycles of workers do not wait for the server's disk. @default "full" */
  durability?: "full" | "relaxed" | undefined;
  /** False: nothing outlives a transaction on a connection, for a pooler that gives one connection to many clients. */
  sessions?: boolean | undefined;
  /** How many connections operations share; the listener and heartbeats have others. */
  poolSize?: number | undefined;
  /** Whether the queues of this thread on one target share these connections and the listener. @default false */
  sharesPool?: boolean | undefined;
  /** The schema of the tables, on Postgres. @default the first of the connection's search path */
  schema?: string | undefined;
  /** Milliseconds that a call of the app may take. @default no limit */
  requestTimeout?: number | undefined;
  /** A test's clock. @default the server's */
  clock?: Clock | undefined;
}

/**
 * What a connection is for: dbq's own statements, the same through a pooler, the reads of people who look, or the app's in
 * `queue.transaction`.
 */
export type Use = "own" | "pooled" | "reading" | "app";

/** Milliseconds that a statement of people who look may take. */
export const readingTimeout = 5_000;

/** Seconds between two statements of a transaction of dbq's own, after which the server ends it. */
export const idleTransactionLimit = 5;

/** What a driver needs to connect. */
export interface ServerSettings {
  /** Plain data where a heartbeat thread is to connect, too. */
  config: object;
  /** For the app's transactions. @default `config` */
  appConfig?: object;
  hosts: readonly Host[];
}

/** Receives notifications, too. */
export interface Listener extends Notifier {
  add(listener: (mayStart: boolean) => void): () => void;
  /** Called when another process says that claim cursors may have passed tasks that became pending. */
  onRewind: () => void;
  close(): Promise<void>;
}

/** What one kind of server has of its own. */
export interface ServerKind extends TransactionKind {
  /** The operations of one store: they may keep what it has seen. */
  operations: Readonly<Record<Strategy, (clock: Clock, isRelaxed?: boolean) => Operations>>;
  /** A statement after which a transaction's commit does not wait for the disk; undefined where there is none. */
  relax?: string;
  migrations: MigrationText;
  /** Finished tasks in tables of their own; absent where the server has none. */
  partitions?: (runner: ServerRunner, dialect: Dialect) => PartitionStore;
  strategyFor(queryable: Queryable): Promise<Strategy>;
  diagnose(queryable: Queryable): Promise<Diagnosis[]>;

  urlDefaults: { port: number; user: string };
  configOf(url: Omit<ServerUrl, "hosts">, use: Use): object;
  connect(config: object, host: Host, use: Use): Promise<Connection>;
  /** Drizzle over a connection of the driver's. */
  drizzleOver(client: unknown): Promise<ServerDrizzle>;
  listenerOver(pool: ServerPool): Listener | undefined;
  /** The settings of the client under an app's Drizzle database; undefined when they cannot be had. */
  settingsOf(client: unknown, use: Use): ServerSettings | undefined;
  /** Whether the client is a single connection, which the app's transactions share with all other statements. */
  isOne(client: unknown): boolean;
  /** The module of the driver. */
  driver: string;
  /** The program that connects in the heartbeat thread. */
  connector: string;
  /** The statement by which the heartbeat's session takes the lock named `session`. */
  lock: Compiled;
  /** Whether two cycles of a worker at once are faster than one. Not where claims without locks then compete with each other. */
  cyclesOverlap(strategy: Strategy): boolean;
  /** Whether every connection to a server of this strategy sees a session's lock. */
  seesLocks(strategy: Strategy): boolean;
}

/** The connections to a server: the queue's own, or the app's. */
export interface ServerReach {
  pool: Pool;
  listener: Listener | undefined;
  /** Undefined: heartbeats go over the pool. */
  heartbeatThread(workerId: string, strategy: Strategy): HeartbeatThread | undefined;
  /** Runs a Drizzle transaction on a connection that no operation uses. */
  transact<T>(fn: (tx: ServerDrizzle) => Promise<T>): Promise<T>;
  /** The owner of these transactions, and of the app's own. */
  transacting: object;
  /** Opens the same database for reads only; undefined where there are no other connections than the app's. */
  reader: (() => Promise<FullStore>) | undefined;
  close(): Promise<void>;
}

/** @throws DatabaseError that says what is wrong with it */
export async function serverStore(
  kind: ServerKind,
  reach: ServerReach,
  options: ServerOptions,
): Promise<FullStore> {
  const runner = new ServerRunner(reach.pool, kind.steps);
  try {
    await prepareTables(kind, runner, reach.pool.name, options);
    const strategy = options.strategy ?? (await runner.ask(kind.strategyFor));
    return storeOver(kind, reach, runner, strategy, options);
  } catch (error) {
    await reach.close();
    throw error;
  }
}

async function prepareTables(
  { migrations }: ServerKind,
  runner: ServerRunner,
  database: string,
  options: ServerOptions,
): Promise<void> {
  const opening: Runner = {
    run: (op) => runner.run(op, atOpening),
    write: (op) => runner.write(op, atOpening),
    writeOnce: runner.writeOnce,
  };
  if (options.migrate) await migrate(opening, migrations, database);
  await checkTables(opening, migrations, database);
}

function storeOver(
  kind: ServerKind,
  reach: ServerReach,
  runner: ServerRunner,
  strategy: Strategy,
  { clock = systemClock, durability, requestTimeout }: ServerOptions,
): FullStore {
  const isRelaxed = durability === "relaxed" && kind.relax !== undefined;
  const ops = kind.operations[strategy](clock, isRelaxed);
  const cycling = { ...settlingAndClaiming, ...(isRelaxed && { first: kind.relax }) };
  const { listener } = reach;
  runner.notifier = listener;
  runner.onRewind = () => ops.cycle.rewind();
  if (listener) listener.onRewind = runner.onRewind;

  const store: FullStore = {
    ...methodsOver(runner, ops),
    requests:
      requestTimeout === undefined
        ? undefined
        : requestsOver(runner.limited(requestTimeout), kind.steps, ops),
    partitions: kind.partitions?.(runner, ops.texts.dialect),
    synchronous: false,
    insert: (tasks, onDuplicate) => insert(runner, kind.steps, ops, tasks, onDuplicate),
    retry: (id) => retry(runner, ops, id),
    log: (lines, keep) => runner.write((tries) => ops.logs.log(lines, keep, tries > 0)),
    // Not repeated when its answer is lost: a second claim would hide which tasks the first one gave.
    settleAndClaim: withRefusals(runner, ops.tasks, (cycle) =>
      settleAndClaim((op) => runner.run(op, cycling), ops.cycle, cycle),
    ),
    cyclesMayOverlap: (later) => kind.cyclesOverlap(strategy) && reach.pool.hasIdle(later),
    register: (worker) => register(runner, ops, worker),
    within: (tx) => inTransaction(kind, ops, tx),
    isInTransaction: () => isInCallback(reach.transacting),
    transaction: async (fn) => {
      const result = await runTransaction(runner, kind.steps, reach.transact, fn);
      listener?.notify("work");
      return result;
    },
    keepAlive: async (workerId, every, onLost) => {
      const send = () => runner.run(() => ops.maintenance.beatWithoutSession(workerId));
      // A thread does not see the steps of a test's clock.
      const thread = clock === systemClock ? reach.heartbeatThread(workerId, strategy) : undefined;
      const heartbeat = new Heartbeat({ every, thread, send, onLost });
      return () => heartbeat.stop();
    },
    watch: (onChange) => listener?.add(onChange) ?? (() => undefined),
    diagnose: () => diagnosed(kind, runner, ops, strategy),
    noting: (note) => notingStore(store, runner, ops, note),
    reader: () => reach.reader?.() ?? Promise.resolve({ ...store, close: async () => undefined }),
    close: async () => {
      runner.close();
      await listener?.close();
      await reach.close();
    },
  };
  return store;
}

/** What the app's own calls need of a store. Workers have more patience. */
function requestsOver(
  runner: ReturnType<ServerRunner["limited"]>,
  steps: ServerKind["steps"],
  ops: Operations,
): FullRequestStore {
  return {
    ...methodsOver(runner, ops),
    insert: (tasks, onDuplicate) => insert(runner, steps, ops, tasks, onDuplicate),
    retry: (id) => retry(runner, ops, id),
  };
}

async function diagnosed(
  { diagnose, migrations }: ServerKind,
  runner: ServerRunner,
  ops: Operations,
  strategy: Strategy,
): Promise<Diagnosis[]> {
  const facts = await runner.ask(diagnose);
  const ofTables = await factsOf(runner, ops, migrations.isDenied);
  return [...facts, { name: "claim strategy", value: strategy }, ...ofTables];
}

function notingStore(store: FullStore, runner: ServerRunner, ops: Operations, note: Note): FullStore {
  const write = noting(runner.write, ops.look, note);
  const noted = { run: runner.run, write, writeOnce: <T>(op: () => Program<T>) => write(op, once) };
  return {
    ...store,
    ...methodsOver(noted, ops),
    // They note nothing.
    requests: undefined,
    insert: (tasks, onDuplicate) => noted.writeOnce(() => ops.tasks.insert(tasks, onDuplicate)),
    retry: (id) => retry(noted, ops, id),
  };
}
