/** The store on SQLite, over better-sqlite3. */
import type { Database } from "better-sqlite3";
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import { type Clock, systemClock } from "../../base/runtime/clock.ts";
import { importPackage } from "../../base/runtime/packages.ts";
import type { Store } from "../../store.ts";
import { driverFile, Heartbeat, type HeartbeatThread } from "../sql/heartbeat.ts";
import { checkTables, migrate } from "../sql/migrations.ts";
import { operationsOf } from "../sql/operations.ts";
import { methodsOver } from "../sql/store-methods.ts";
import { textsOf } from "../sql/texts.ts";
import { transferFacts } from "../sql/transfer.ts";
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
import { clientOf, drizzleOver } from "./drizzle.ts";
import { heartbeatProgram } from "./embedded.ts";
import { FileIdentity } from "./file-identity.ts";
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
import { fileIdentities, inTransaction, runTransaction } from "./within.ts";

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
  drizzle: () => Promise<BetterSQLite3Database>;
  transacting: Database;
}

/** Opens a file or `:memory:`. @throws DatabaseError that says what is wrong with it */
export async function openSqlite(path: string, options: SqliteOptions): Promise<Store> {
  return await withOpenErrors(path, async () => {
    const { default: Driver } = await importPackage<{ default: Driver }>("better-sqlite3");
    const client = await retryWhileBusy(() => openFile(Driver, path, options));
    const store = await openStore(
      { client, owned: true, drizzle: () => drizzleOver(client), transacting: client },
      options,
    );
    await useWal(client);
    return store;
  });
}

/**
 * Opens a queue on the app's own Drizzle database. On a file, dbq uses a connection of its own: what it writes is then never
 * part of a transaction that the app has open, and the settings of the app's connection stay as they are.
 * @throws DatabaseError that says what is wrong with it; TypeError when it is not a Drizzle database over better-sqlite3
 */
export async function openSqliteDatabase(db: unknown, options: SqliteOptions): Promise<Store> {
  const appClient = clientOf(db);
  return await withOpenErrors(appClient.name, async () => {
    const own = await retryWhileBusy(() => withoutWaiting(appClient, () => openBeside(appClient, options)));
    const drizzle = async () => db as BetterSQLite3Database;
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

async function openStore(opened: Opened, options: SqliteOptions): Promise<Store> {
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
    return sqliteStore(opened, connection, await retryWhileBusy(() => fileOf(client)), clock);
  } catch (error) {
    if (owned) client.close();
    throw error;
  }
}

/** `path`: the file, when there is one that other connections can open. */
function sqliteStore(
  { client, owned, drizzle, transacting }: Opened,
  connection: SqliteConnection,
  path: string | undefined,
  clock: Clock,
): Store {
  const file =
    path === undefined
      ? undefined
      : {
          identity: new FileIdentity(path),
          touch: new FileTouch(path),
          watch: new SqliteWatch(path, client),
        };
  if (file) fileIdentities.set(client, file.identity);
  connection.onCommit = () => file?.touch.committed();
  const runner = runnerOver(connection, () => {
    file?.identity.check();
    refuseOpenTransaction(client);
  });
  const ops = operationsOf(texts);
  let db: BetterSQLite3Database | undefined;
  const store: Store = {
    ...methodsOver(runner, ops),
    synchronous: true,
    cyclesMayOverlap: () => false,
    within: (tx) => inTransaction(ops, tx, clock),
    // Takes 10 ns.
    isInTransaction: () => transacting.inTransaction,
    transaction: async (fn) => {
      file?.identity.check();
      db ??= await drizzle();
      return await runTransaction(db, fn);
    },
    keepAlive: async (workerId, every, onLost) => {
      const send = () => runner.write(() => ops.maintenance.beat(workerId));
      // Another thread cannot open a database in memory, and no other process can judge its workers.
      const thread = path === undefined ? undefined : heartbeatThread(path, workerId, clock);
      const heartbeat = new Heartbeat({ every, thread, send, onLost });
      return () => heartbeat.stop();
    },
    watch: (listener) => file?.watch.add(() => listener(true)) ?? (() => undefined),
    diagnose: async () => [
      ...diagnoseSqlite(client),
      ...transferFacts(await runner.run(() => ops.transfer.state())),
    ],
    reader: async () => {
      const reading = await retryWhileBusy(() => openReading(client));
      if (!reading) return { ...store, close: async () => undefined };
      const reads = new SqliteConnection(reading, clock);
      return sqliteStore({ client: reading, owned: true, drizzle, transacting }, reads, path, clock);
    },
    close: async () => {
      file?.watch.close();
      file?.touch.close();
      if (owned) client.close();
    },
  };
  return store;
}

function heartbeatThread(path: string, workerId: string, clock: Clock): HeartbeatThread | undefined {
  // A thread does not see the steps of a test's clock.
  if (clock !== systemClock) return undefined;
  const driver = driverFile("better-sqlite3");
  if (driver === undefined) return undefined;
  const data = { driver, path, pragmas: walPragmas, ...compiler.compile(texts.statements.beat) };
  return { program: heartbeatProgram, data, worker: { workerId } };
}
