/**
 * One better-sqlite3 connection: prepares each statement once, begins transactions that may write from their start, and waits
 * for locks without blocking the event loop.
 */
import type Database from "better-sqlite3";
import type { SQL } from "drizzle-orm/sql/sql";
import { type Clock, systemClock } from "../../base/runtime/clock.ts";
import { performance, sleep } from "../../base/runtime/timers.ts";
import { type AnotherTry, DatabaseError, DbqError, QueueClosedError, withAnotherTry } from "../../errors.ts";
import { Compiler } from "../sql/compile.ts";
import type { Params } from "../sql/dialect.ts";
import { type InsertedId, type Program, type Runner, runSync, type Step } from "../sql/program.ts";
import type { Statement } from "../sql/statements.ts";

export const compiler = new Compiler({ quote: '"', parameter: () => "?", items: undefined });

/** The class of connections. */
export type Driver = typeof Database;

/** The driver of an app's connection, which may be in the app's bundle. */
export const driverOf = (client: Database.Database): Driver => client.constructor as Driver;

interface Prepared {
  run: Database.Statement;
  /** Of an INSERT: the same for `rowsTogether` rows. */
  many?: Database.Statement;
  names: readonly string[];
}

/** Rows of one INSERT: with more, a row takes as long, and the last ones of a batch, each by itself, are more. */
const rowsTogether = 50;

export class SqliteConnection {
  readonly client: Database.Database;
  /** Called after a commit that a worker or an await of another process may be waiting for. */
  onCommit: () => void = () => undefined;
  /** Called after each commit that changed anything, before the caller gets its answer. An error of it reaches that caller. */
  verify: () => void = () => undefined;
  #changed = false;
  #wrote = false;
  readonly #prepared = new Map<Statement, Prepared>();
  #triggers: Database.Statement | undefined;
  /** Made once, since that takes as long as a statement. Inside of an open transaction it is a savepoint. */
  readonly #transaction: Database.Transaction<(op: () => Program<unknown>) => unknown>;

  readonly #clock: Clock;

  constructor(client: Database.Database, clock: Clock = systemClock) {
    this.client = client;
    this.#clock = clock;
    this.#transaction = client.transaction((op) => runSync(op(), this.#execute));
  }

  readonly #execute = (step: Step): unknown => {
    if (step.want === "notify" || step.want === "rewind" || step.want === "quiet") return;
    if (step.want === "rowsOnce") return this.#once(step.query);
    if (step.want === "transaction") return this.#inTransaction(step.op, step.awaited);
    const { run, names } = this.prepare(step.query);
    if (!run.readonly) this.#wrote = true;
    switch (step.want) {
      case "rows":
        return run.all(...bind(names, step.params, this.#clock.now()));
      case "id":
        return this.#insert(run, bind(names, step.params, this.#clock.now()));
      case "ids":
        return this.#insertAll(step.query, step.params);
      case "count":
        return this.#change(run, bind(names, step.params, this.#clock.now()), step.awaited).changes;
      case "changes":
        return this.#each(names, step.params, (values) => this.#change(run, values).changes > 0);
    }
  };

  /** All rows of a batch are written with the same time, as on a server. */
  #each<A>(names: readonly string[], items: readonly Params[], act: (values: unknown[]) => A): A[] {
    const now = this.#clock.now();
    return items.map((params) => act(bind(names, params, now)));
  }

  /** Not with RETURNING, which would take 2 of 5 µs. */
  #insert(statement: Database.Statement, values: unknown[]): InsertedId | undefined {
    const { changes, lastInsertRowid } = this.#change(statement, values);
    if (changes === 0) return undefined;
    const id = Number(lastInsertRowid);
    return Number.isSafeInteger(id) ? id : this.#exactRowid();
  }

  /** The most of them in statements of many rows: there, a row takes less than half as long as by itself. */
  #insertAll(query: Statement, items: readonly Params[]): (InsertedId | undefined)[] {
    const { run, names } = this.prepare(query);
    const now = this.#clock.now();
    const isLarge = items.length >= rowsTogether && !this.#hasTriggers();
    const together = isLarge ? items.length - (items.length % rowsTogether) : 0;
    const ids: (InsertedId | undefined)[] = [];
    for (let from = 0; from < together; from += rowsTogether) {
      const values: unknown[] = [];
      for (let i = from; i < from + rowsTogether; i += 1)
        for (const name of names) values.push(parameterOf(name, items[i] as Params, now));
      const last = this.#insert(this.#ofManyRows(query), values) ?? 0;
      for (let before = rowsTogether - 1; before >= 0; before -= 1) ids.push(idBefore(last, before));
    }
    for (let i = together; i < items.length; i += 1)
      ids.push(this.#insert(run, bind(names, items[i] as Params, now)));
    return ids;
  }

  /** An app's trigger may insert rows between those of a statement, or leave some of them out: then their ids do not follow each other. */
  #hasTriggers(): boolean {
    this.#triggers ??= this.client
      .prepare(
        "select 1 from sqlite_master where type = 'trigger' union all select 1 from sqlite_temp_master where type = 'trigger' limit 1",
      )
      .pluck();
    return this.#triggers.get() !== undefined;
  }

  #ofManyRows(query: Statement): Database.Statement {
    const known = this.#prepared.get(query)?.many;
    if (known) return known;
    const [into = "", row = ""] = compiler.compile(query).text.split(/(?<=\svalues\s)/);
    const many = this.client.prepare(into + Array(rowsTogether).fill(row).join(", "));
    (this.#prepared.get(query) as Prepared).many = many;
    return many;
  }

  #exactRowid(): string {
    const statement = this.client.prepare("select concat(last_insert_rowid(), '')");
    return String(statement.pluck().get());
  }

  #change(statement: Database.Statement, values: unknown[], awaited = true): Database.RunResult {
    const result = statement.run(...values);
    if (awaited && result.changes > 0) this.#changed = true;
    return result;
  }

  prepare(statement: Statement): Prepared {
    const known = this.#prepared.get(statement);
    if (known) return known;
    const { text, names } = compiler.compile(statement);
    const entry = { run: asArrays(this.client.prepare(text)), names: names as readonly string[] };
    this.#prepared.set(statement, entry);
    return entry;
  }

  #once(query: SQL): unknown[] {
    const { sql: text, params } = compiler.once(query);
    const statement = asArrays(this.client.prepare(text));
    if (!statement.readonly) this.#wrote = true;
    if (statement.reader) return statement.all(...params);
    statement.run(...params);
    return [];
  }

  /** Runs an operation, inside of the open transaction if there is one. @throws DatabaseError */
  run<T>(op: Program<T>): T {
    return this.toDatabaseErrors(() => this.#notifyingCommit(() => runSync(op, this.#execute)));
  }

  /** Runs an operation in an IMMEDIATE transaction, or in a savepoint of the open one. @throws DatabaseError */
  atomically<T>(op: () => Program<T>): T {
    return this.toDatabaseErrors(() => this.#notifyingCommit(() => this.#transaction.immediate(op))) as T;
  }

  /** A transaction inside of an operation. Other processes hear of its commit only when they may be waiting for it. */
  #inTransaction(op: () => Program<unknown>, awaited: boolean): unknown {
    const result = this.#transaction.immediate(op);
    if (!awaited) this.#changed = false;
    return result;
  }

  #notifyingCommit<T>(act: () => T): T {
    this.#changed = false;
    this.#wrote = false;
    const result = act();
    if (this.#wrote) this.verify();
    if (this.#changed) this.onCommit();
    return result;
  }

  /** Calls `fn`. An error of the driver becomes a `DatabaseError` that names the file. */
  toDatabaseErrors<T>(fn: () => T): T {
    try {
      return fn();
    } catch (error) {
      throw toQueueError(error, this.client);
    }
  }
}

/** The id so many ids before this one. */
function idBefore(id: InsertedId, before: number): InsertedId {
  if (typeof id === "number") return id - before;
  const exact = BigInt(id) - BigInt(before);
  return exact > BigInt(Number.MAX_SAFE_INTEGER) ? String(exact) : Number(exact);
}

/** Rows are arrays and whole numbers are numbers, whatever defaults the app has set on its connection. */
function asArrays(statement: Database.Statement): Database.Statement {
  statement.safeIntegers(false);
  return statement.reader ? statement.raw() : statement;
}

/** The clock is the host's: as a parameter it costs nothing, as `unixepoch('subsec')` 5 µs each time. */
function bind(names: readonly string[], params: Params, now: number): unknown[] {
  const values = new Array<unknown>(names.length);
  for (let i = 0; i < names.length; i += 1) values[i] = parameterOf(names[i] as string, params, now);
  return values;
}

const parameterOf = (name: string, params: Params, now: number): unknown =>
  name === "now" ? now : params[name];

/** Busy while the app has a transaction open on this connection: its rollback would undo the queue's own writes. */
export function refuseOpenTransaction(client: Database.Database): void {
  if (client.inTransaction)
    throw new (driverOf(client).SqliteError)("a transaction is open on this connection", "SQLITE_BUSY");
}

/** An error of a client, as a queue throws it. */
export function toQueueError(error: unknown, client: Database.Database): unknown {
  // The queue was closed while this operation waited for a lock.
  if (!client.open && error instanceof TypeError) return new QueueClosedError();
  return toDatabaseError(error, `${client.name}${referringTo(error, client)}`);
}

/** SQLite does not say which foreign key it is that keeps a task from being deleted. */
function referringTo(error: unknown, client: Database.Database): string {
  if (codeOf(error) !== "SQLITE_CONSTRAINT_FOREIGNKEY" || !client.open) return "";
  const keys = client
    .prepare(
      `select tables.name || '.' || keys."from" from sqlite_master as tables join pragma_foreign_key_list(tables.name) as keys
       where tables.type = 'table' and keys."table" = 'dbq_tasks' and keys.on_delete in ('NO ACTION', 'RESTRICT')`,
    )
    .pluck()
    .all();
  return keys.length === 0 ? "" : `: a foreign key refers to dbq_tasks: ${keys.join(", ")}`;
}

/** Calls `fn` without the connection's own `busy_timeout`, which may block the event loop for seconds. */
export function withoutWaiting<T>(client: Database.Database, fn: () => T): T {
  const timeout = Number(client.pragma("busy_timeout", { simple: true }));
  client.pragma(`busy_timeout = ${nativeTimeout}`);
  try {
    return fn();
  } finally {
    client.pragma(`busy_timeout = ${timeout}`);
  }
}

/** A driver's error as a `DatabaseError` that names the file; any other error as it is. */
export function toDatabaseError(error: unknown, name: string): unknown {
  const code = codeOf(error);
  if (error instanceof DbqError || !(error instanceof Error) || code === undefined) return error;
  const problem = `${name}: ${error.message} (${code})`;
  return withAnotherTry(new DatabaseError(problem, { cause: error }), anotherTryByCode(code));
}

/** `SQLITE_ERROR` may be anything; the other codes are about locks, disks and files. */
function anotherTryByCode(code: string): AnotherTry {
  if (/^SQLITE_(CONSTRAINT|TOOBIG|MISMATCH)/.test(code)) return "fails";
  return code === "SQLITE_ERROR" ? undefined : "may succeed";
}

function codeOf(error: unknown): string | undefined {
  const code: unknown = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" && code.startsWith("SQLITE_") ? code : undefined;
}

/** Whether another connection holds the lock that was needed. */
export function isBusy(error: unknown): boolean {
  const cause = error instanceof DatabaseError ? error.cause : error;
  // The app iterates over rows on a connection that it shares with the queue.
  if (cause instanceof TypeError && cause.message.includes("busy executing a query")) return true;
  const code = codeOf(cause) ?? "";
  return code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED");
}

/** Milliseconds that SQLite itself may wait for a lock, and block the thread; longer waits are `retryWhileBusy`'s. */
export const nativeTimeout = 5;

/** Milliseconds after which `retryWhileBusy` gives up. */
const longestBusyMs = 60_000;

/**
 * Repeats `attempt` until the database is not busy, and waits on the event loop, never inside SQLite: with the usual
 * `busy_timeout` of 5 s, eight processes on one file blocked their event loops for up to 740 ms, and some got no work.
 */
export async function retryWhileBusy<T>(attempt: () => T, mayRepeat: () => boolean = () => true): Promise<T> {
  const start = performance.now();
  for (let longest = 2; ; longest = Math.min(longest * 2, 32)) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error) || !mayRepeat() || performance.now() - start > longestBusyMs) throw error;
    }
    await sleep(Math.random() * longest);
  }
}

/** Runs operations once the database is not busy. `check` is called before each attempt. */
export function runnerOver(connection: SqliteConnection, check: () => void = () => undefined): Runner {
  const onceFree = <T>(act: () => T): Promise<T> =>
    retryWhileBusy(() => {
      check();
      return act();
    });
  // Whether a commit has happened is always known here.
  const write: Runner["write"] = (op) => onceFree(() => connection.atomically(() => op(0)));
  return { run: (op) => onceFree(() => connection.run(op(0))), write, writeOnce: write };
}
