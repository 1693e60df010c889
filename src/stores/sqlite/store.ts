/** The store on SQLite, over better-sqlite3. */
import type { Database } from "better-sqlite3";
import { type Clock, systemClock } from "../../base/runtime/clock.ts";
import { importPackage } from "../../base/runtime/packages.ts";
import type { Note } from "../../features/look/contract.ts";
import { noting } from "../../features/look/sql/noting.ts";
import { factsOf, methodsOver, type Operations, operationsOf } from "../../features/sql.ts";
import type { FullStore } from "../../features/store.ts";
import { driverFile, Heartbeat, type HeartbeatThread } from "../sql/heartbeat.ts";
import { checkTables, migrate } from "../sql/migrations.ts";
import type { Runner } from "../sql/program.ts";
import { textsOf } from "../sql/texts.ts";
import {
  compiler,
  type Driver,
  refuseOpenTransaction,
  retryWhileBusy,
  runnerOver,
  SqliteConnection,
  withoutWaiting,
} from "./connection.ts";
import { diagnoseSqlite } from "./diagnose.ts";
import { sqliteDialect } from "./dialect.ts";
import { clientOf, drizzleOver, type SqliteDrizzle } from "./drizzle.ts";
import { heartbeatProgram } from "./embedded.ts";
import { FileIdentity } from "./file-identity.ts";
import { FileLocks } from "./file-locks.ts";
import { sqliteMigrations } from "./migrations.ts";
import {
  fileOf,
  openBeside,
  openFile,
  openReading,
  type SqliteSettings,
  toOpenError,
  useWal,
  walPragmas,
} from "./open.ts";
import { FileTouch } from "./touch.ts";
import { SqliteWatch } from "./watch.ts";
import { inTransaction, runTransaction } from "./within.ts";

// All queues of a process share the texts of these statements.
const texts = textsOf(sqliteDialect);

export interface SqliteOptions extends SqliteSettings {
  migrate: boolean;
  /** A test's clock. @default the host's */
  clock?: Clock | undefined;
}

/** A connection for a queue. */
interface Opened {
  client: Database;
  /** Whether dbq opened it, and has to close it. */
  owned: boolean;
  /** The Drizzle database for `queue.transaction`, and the connection under it. */
  drizzle: () => Promise<SqliteDrizzle>;
  transacting: Database;
}

/** Opens a file or `:memory:`. @throws DatabaseError that says what is wrong with it */
export async function openSqlite(path: string, options: SqliteOptions): Promise<FullStore> {
  return await withOpenErrors(path, async () => {
    const { default: Driver } = await importPackage<{ default: Driver }>("better-sqlite3");
    const client = await retryWhileBusy(() => openFile(Driver, path, options));
    const opened = { client, owned: true, drizzle: () => drizzleOver(client), transacting: client };
    return await openStore(opened, options, () => useWal(client));
  });
}

/**
 * Opens a queue on the app's own Drizzle database. On a file, dbq uses a connection of its own: what it writes is then never
 * part of a transaction that the app has open, and the settings of the app's connection stay as they are.
 * @throws DatabaseError that says what is wrong with it; TypeError when it is not a Drizzle database over better-sqlite3
 */
export async function openSqliteDatabase(db: unknown, options: SqliteOptions): Promise<FullStore> {
  const appClient = clientOf(db);
  return await withOpenErrors(appClient.name, async () => {
    const own = await retryWhileBusy(() => withoutWaiting(appClient, () => openBeside(appClient, options)));
    const drizzle = async () => db as SqliteDrizzle;
    const client = own ?? appClient;
    return await openStore({ client, owned: own !== undefined, drizzle, transacting: appClient }, options);
  });
}

async function withOpenErrors<T>(path: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    throw toOpenError(error, path);
  }
}

/** @param ready called once the file is known to be good for a queue */
async function openStore(
  opened: Opened,
  options: SqliteOptions,
  ready: () => Promise<void> = async () => undefined,
): Promise<FullStore> {
  const { client, owned } = opened;
  const { clock = systemClock } = options;
  try {
    const connection = new SqliteConnection(client, clock);
    const runner = runnerOver(connection);
    if (options.migrate) await migrate(runner, sqliteMigrations, client.name);
    await checkTables(runner, sqliteMigrations, client.name);
    // Without this, a read-only file would fail only at the first enqueue.
    if (options.migrate)
      await retryWhileBusy(() => client.exec("update dbq_workers set beat = beat where false"));
    await ready();
    const path = await retryWhileBusy(() => fileOf(client));
    await retryWhileBusy(() => client.exec("select 1 from dbq_workers limit 1"));
    return sqliteStore(opened, connection, path, clock);
  } catch (error) {
    if (owned) client.close();
    throw error;
  }
}

/** What a store does with its file beside SQLite. */
function openedFile(path: string, client: Database, transacting: Database) {
  const identity = new FileIdentity(path, [client, transacting], FileLocks.of(path)).share();
  const [touch, watch] = [new FileTouch(path), new SqliteWatch(path, client)];
  const close = async () => {
    watch.close();
    touch.close();
    await identity.close();
  };
  return { identity, touch, watch, close };
}

/** `path`: the file, when there is one that other connections can open. */
function sqliteStore(
  { client, owned, drizzle, transacting }: Opened,
  connection: SqliteConnection,
  path: string | undefined,
  clock: Clock,
): FullStore {
  const file = path === undefined ? undefined : openedFile(path, client, transacting);
  connection.onCommit = () => file?.touch.committed();
  connection.verify = () => file?.identity.verify();
  const runner = runnerOver(connection, () => {
    file?.identity.check();
    refuseOpenTransaction(client);
  });
  const ops = operationsOf(texts);
  let db: SqliteDrizzle | undefined;
  const methods = methodsOver(runner, ops);
  const store: FullStore = {
    ...methods,
    testing: { ...methods.testing, list: (...asked) => connection.run(ops.tasks.list(...asked)) },
    synchronous: true,
    cyclesMayOverlap: () => false,
    within: (tx) => inTransaction(ops, tx, clock),
    // Takes 10 ns.
    isInTransaction: () => transacting.inTransaction,
    transaction: async (fn) => {
      file?.identity.check();
      db ??= await drizzle();
      const result = await runTransaction(db, fn);
      file?.identity.verify();
      return result;
    },
    keepAlive: async (workerId, every, onLost) => {
      const send = () => runner.write(() => ops.maintenance.beat(workerId));
      // Another thread cannot open a database in memory, and no other process can judge its workers.
      const thread = file && heartbeatThread(file.identity, workerId, clock);
      const heartbeat = new Heartbeat({ every, thread, send, onLost });
      return () => heartbeat.stop();
    },
    watch: (listener) => file?.watch.add(() => listener(true)) ?? (() => undefined),
    diagnose: async () => [
      ...diagnoseSqlite(client, path, file?.identity.locks),
      ...(await factsOf(runner, ops)),
    ],
    noting: (note) => notingStore(store, runner, ops, note),
    reader: async () => {
      const reading = await retryWhileBusy(() => openReading(client));
      if (!reading) return { ...store, close: async () => undefined };
      const reads = new SqliteConnection(reading, clock);
      return sqliteStore({ client: reading, owned: true, drizzle, transacting }, reads, path, clock);
    },
    close: async () => {
      await file?.close();
      if (owned) client.close();
    },
  };
  return store;
}

function notingStore(store: FullStore, runner: Runner, ops: Operations, note: Note): FullStore {
  const write: Runner["write"] = noting((op) => runner.write(() => op(0)), ops.look, note);
  const noted = { run: runner.run, write, writeOnce: write };
  const insert: FullStore["insert"] = (tasks, onDuplicate) =>
    noted.write(() => ops.tasks.insert(tasks, onDuplicate));
  return { ...store, ...methodsOver(noted, ops), insert };
}

function heartbeatThread(
  { path, inodes }: FileIdentity,
  workerId: string,
  clock: Clock,
): HeartbeatThread | undefined {
  // A thread does not see the steps of a test's clock.
  if (clock !== systemClock) return undefined;
  const driver = driverFile("better-sqlite3");
  if (driver === undefined) return undefined;
  const data = { driver, path, inodes, pragmas: walPragmas, ...compiler.compile(texts.statements.beat) };
  return { program: heartbeatProgram, data, worker: { workerId } };
}
