/** The store on SQLite, over better-sqlite3. */
import { createRequire } from "node:module";
import type { Database } from "better-sqlite3";
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import { sql } from "drizzle-orm/sql/sql";
import { repeat } from "../../base/runtime/timers.ts";
import { AsyncTransactionError } from "../../errors.ts";
import { report } from "../../events.ts";
import type { MaybePromise, Store, StoreTransaction } from "../../store.ts";
import type { Dialect } from "../sql/dialect.ts";
import { Heartbeat } from "../sql/heartbeat.ts";
import { type Operations, operationsOf } from "../sql/operations.ts";
import type { Program } from "../sql/program.ts";
import { methodsOver } from "../sql/store-methods.ts";
import { textsOf } from "../sql/texts.ts";
import { transferFacts } from "../sql/transfer.ts";
import {
  compiler,
  refuseOpenTransaction,
  retryWhileBusy,
  SqliteConnection,
  toQueueError,
  withoutWaiting,
} from "./connection.ts";
import { diagnoseSqlite } from "./diagnose.ts";
import { clientOf, drizzleOver, isTransaction } from "./drizzle.ts";
import { FileIdentity } from "./file-identity.ts";
import { checkTables, migrate } from "./migrate.ts";
import {
  fileOf,
  openBeside,
  openFile,
  type SqliteSettings,
  toOpenError,
  useWal,
  walPragmas,
} from "./open.ts";
import { FileTouch } from "./touch.ts";
import { sqliteMoving } from "./transfer.ts";
import { SqliteWatch } from "./watch.ts";

const nothing = sql.raw("");

const dialect: Dialect = {
  now: ({ now }) => sql`${now}`,
  time: (parameter) => sql`${parameter}`,
  millis: (time) => sql`${time}`,
  plus: (time, milliseconds) => sql`${time} + ${milliseconds}`,
  minus: (later, earlier) => sql`${later} - ${earlier}`,
  among: (column, list) => sql`${sql.raw(column)} in (select value from json_each(${list}))`,
  integers: (list) => sql`(select value from json_each(${list}))`,
  // A LIMIT that is a bare parameter makes SQLite plan the statement anew each time: 25 µs for one row instead of 4.
  atMost: (limit) => sql`limit ${limit} + 0`,
  // Each in its order comes from the index: they are merged as they are read.
  probe: (question) => question,
  // One writer at a time: nobody else can hold a row.
  locks: false,
  spreads: false,
  skipLocked: nothing,
  locked: nothing,
  shared: nothing,
  ignoreConflict: sql.raw("on conflict do nothing"),
  integer: (parameter) => sql`${parameter}`,
  json: (parameter) => sql`${parameter}`,
  text: (column) => sql`${column}`,
  real: (column) => sql`${column}`,
  same: (column, parameter) => sql`${sql.raw(column)} = ${parameter}`,
  exact: (column) => sql.raw(column),
  byPriority: sql.raw("priority desc, id"),
  metaHas: (key, value) => {
    const types = { string: "'text'", number: "'integer', 'real'", boolean: `'${value}'`, object: "'null'" };
    const type = sql.raw(types[typeof value as keyof typeof types]);
    // As JavaScript reads it: beyond 2^53 two whole numbers are the same one.
    const same = { string: sql`and atom = ${value}`, number: sql`and cast(atom as real) = ${value}` };
    return sql`exists (select 1 from json_each(case when json_valid(meta) then meta else '{}' end)
      where key = ${key} and type in (${type}) ${same[typeof value as keyof typeof same]})`;
  },
  sessionLives: sql.raw("null"),
  items: undefined,
  only: (id) => sql`${id}`,
  transfer: sqliteMoving,
};

/** Made once in a process, whichever queue is opened first. */
const texts = textsOf(dialect);

export interface SqliteOptions extends SqliteSettings {
  migrate: boolean;
}

/** Opens a file or `:memory:`. @throws DatabaseError that says what is wrong with it */
export async function openSqlite(path: string, options: SqliteOptions): Promise<Store> {
  return await withOpenErrors(path, async () => {
    const client = await retryWhileBusy(() => openFile(path, options));
    const store = await prepareStore(client, true, options, () => drizzleOver(client));
    await useWal(client);
    return store;
  });
}

/**
 * Opens a queue on the app's own Drizzle database. On a file, dbq works on a connection of its own: what it does is
 * then never part of a transaction that the app has open, and the app's settings stay its own.
 * @throws DatabaseError that says what is wrong with it; TypeError when it is no Drizzle database over better-sqlite3
 */
export async function openSqliteDatabase(db: unknown, options: SqliteOptions): Promise<Store> {
  const theirs = clientOf(db);
  return await withOpenErrors(theirs.name, async () => {
    const beside = await retryWhileBusy(() => withoutWaiting(theirs, () => openBeside(theirs, options)));
    return await prepareStore(
      beside ?? theirs,
      beside !== undefined,
      options,
      async () => db as BetterSQLite3Database,
    );
  });
}

async function withOpenErrors<T>(path: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    throw toOpenError(error, path);
  }
}

async function prepareStore(
  client: Database,
  owned: boolean,
  options: SqliteOptions,
  handle: () => Promise<BetterSQLite3Database>,
): Promise<Store> {
  try {
    if (options.migrate) await migrate(client);
    const connection = new SqliteConnection(client);
    await retryWhileBusy(() => checkTables(connection, texts.statements));
    // A file that can be read and not written would show only at the first enqueue.
    if (options.migrate)
      await retryWhileBusy(() => client.exec("update dbq_workers set beat = beat where false"));
    const path = await retryWhileBusy(() => fileOf(client));
    return sqliteStore(connection, path, owned, handle);
  } catch (error) {
    if (owned) client.close();
    throw error;
  }
}

/** `path`: the file, where there is one that other connections can open. */
function sqliteStore(
  connection: SqliteConnection,
  path: string | undefined,
  owned: boolean,
  handle: () => Promise<BetterSQLite3Database>,
): Store {
  const { client } = connection;
  const watch = path === undefined ? undefined : new SqliteWatch(path, client);
  const nudge = path === undefined ? undefined : new FileTouch(path);
  const file = path === undefined ? undefined : new FileIdentity(path);
  if (file) fileIdentities.set(client, file);
  connection.onCommit = () => nudge?.committed();
  let theirs: BetterSQLite3Database | undefined;

  const onceFree = <T>(act: () => T): Promise<T> =>
    retryWhileBusy(() => {
      file?.check();
      refuseOpenTransaction(client);
      return act();
    });
  const run = <T>(op: () => Program<T>): Promise<T> => onceFree(() => connection.run(op()));
  const write = <T>(op: () => Program<T>): Promise<T> => onceFree(() => connection.atomically(op));

  const ops = operationsOf(texts);

  return {
    ...methodsOver({ run, write }, ops),
    synchronous: true,
    within: (tx) => inTransaction(tx, ops),
    transaction: async (fn) => {
      file?.check();
      theirs ??= await handle();
      return await runTransaction(theirs, fn);
    },
    keepAlive: async (workerId, every, onLost) => {
      const beat = async () => {
        if (!(await write(() => ops.maintenance.beat(workerId)))) onLost();
      };
      const beatHere = () => void beat().catch((error: unknown) => report(error, "heartbeat"));
      // In memory no other thread can beat; nor can another process judge.
      if (path === undefined) {
        const stop = repeat(every, beatHere, { keepAlive: false });
        return async () => stop();
      }
      const driver = createRequire(import.meta.url).resolve("better-sqlite3");
      const data = {
        driver,
        path,
        pragmas: walPragmas,
        ...compiler.compile(texts.statements.beat),
        workerId,
      };
      const thread = new URL("./heartbeat-thread.mjs", import.meta.url);
      const heartbeat = new Heartbeat({ thread, data, every }, onLost, beatHere);
      return () => heartbeat.stop();
    },
    watch: (listener) => watch?.add(listener) ?? (() => undefined),
    diagnose: async () => [
      ...diagnoseSqlite(client),
      ...transferFacts(await run(() => ops.transfer.state())),
    ],
    close: async () => {
      watch?.close();
      nudge?.close();
      if (owned) client.close();
    },
  };
}

/** Transactions that are over: their handles write nothing any more. */
const ended = new WeakSet<object>();

/**
 * Waits for the write lock off the thread, on the app's own connection too, and never inside a transaction that the app
 * has open there. Once `fn` has begun, it is never run a second time; what it throws is thrown as it is.
 */
async function runTransaction<T>(
  db: BetterSQLite3Database,
  fn: (tx: unknown) => MaybePromise<T>,
): Promise<T> {
  const client = clientOf(db);
  let begun = false;
  let failure: { error: unknown } | undefined;
  const run = (tx: object): T => {
    begun = true;
    try {
      return refuseThenable(fn(tx));
    } catch (error) {
      failure = { error };
      throw error;
    } finally {
      ended.add(tx);
    }
  };
  const attempt = () => {
    refuseOpenTransaction(client);
    return withoutWaiting(client, () => db.transaction(run, { behavior: "immediate" }));
  };
  try {
    return await retryWhileBusy(attempt, () => !begun);
  } catch (error) {
    throw failure ? failure.error : toQueueError(error, client);
  }
}

function refuseThenable<T>(returned: MaybePromise<T>): T {
  if (typeof (returned as { then?: unknown } | null | undefined)?.then !== "function") return returned as T;
  // It goes on after the rollback; what it throws then is about the transaction that it no longer has.
  Promise.resolve(returned).catch(() => undefined);
  throw new AsyncTransactionError(
    "the callback of a transaction on SQLite returned a promise: it was rolled back; do what is asynchronous before or after it",
  );
}

/** Of the connections of queues: what is written on them inside of a transaction looks at the same file. */
const fileIdentities = new WeakMap<Database, FileIdentity>();

/** An app's own connection, and the file of its file. */
interface AppConnection {
  connection: SqliteConnection;
  file: FileIdentity | undefined;
}

const connections = new WeakMap<Database, AppConnection>();

function fileIdentityOf(client: Database): FileIdentity | undefined {
  const path = fileOf(client);
  return path === undefined ? undefined : new FileIdentity(path);
}

function appConnectionOf(client: Database): AppConnection {
  const known = connections.get(client);
  if (known) return known;
  const theirs = {
    connection: new SqliteConnection(client),
    file: fileIdentities.get(client) ?? fileIdentityOf(client),
  };
  connections.set(client, theirs);
  return theirs;
}

function inTransaction(tx: unknown, ops: Operations): StoreTransaction {
  const client = clientOf(tx);
  // Its callback is synchronous: by the end of this tick it is over, whatever is open on the connection then.
  const scoped = isTransaction(tx as object);
  if (scoped) queueMicrotask(() => ended.add(tx as object));
  const open = () => {
    if (!scoped || (client.inTransaction && !ended.has(tx as object))) return;
    throw new AsyncTransactionError(
      "this transaction has ended, nothing was written: on better-sqlite3 its callback must be synchronous",
    );
  };
  open();
  const { connection, file } = appConnectionOf(client);
  const write = <T>(op: () => Program<T>): T => {
    open();
    file?.check();
    return connection.atomically(op);
  };
  return {
    insert: (tasks, onDuplicate) => write(() => ops.tasks.insert(tasks, onDuplicate)),
    settle: (outcome) => write(() => ops.cycle.settleOne(outcome)),
  };
}
