/** One better-sqlite3 connection: statements prepared once, transactions that may write from their start, and patience that blocks nobody. */
import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import type { SQL } from "drizzle-orm/sql/sql";
import { DatabaseError, DbqError, QueueClosedError } from "../../errors.ts";
import { Compiler } from "../sql/compile.ts";
import { type Program, runSync, type Step } from "../sql/program.ts";
import type { Params, Statement } from "../sql/statements.ts";

export const compiler = new Compiler({ quote: '"', parameter: () => "?", items: undefined });

interface Prepared {
  run: Database.Statement;
  names: readonly string[];
}

export class SqliteConnection {
  readonly client: Database.Database;
  /** Called when something was committed that somebody may be waiting for. */
  onCommit: () => void = () => undefined;
  #changed = false;
  readonly #prepared = new Map<Statement, Prepared>();
  /** Made once: making one costs as much as a statement. Inside of an open transaction it is a savepoint. */
  readonly #transaction: Database.Transaction<(op: () => Program<unknown>) => unknown>;

  constructor(client: Database.Database) {
    this.client = client;
    this.#transaction = client.transaction((op) => runSync(op(), this.#execute));
  }

  readonly #execute = (step: Step): unknown => {
    if (step.want === "tell" || step.want === "rewind") return;
    if (step.want === "rowsOnce") return this.#once(step.query);
    if (step.want === "transaction") return this.#inTransaction(step.op, step.awaited);
    const { run, names } = this.prepare(step.query);
    switch (step.want) {
      case "rows":
        return run.all(...bind(names, step.params));
      case "id":
        return this.#insert(run, bind(names, step.params));
      case "ids":
        return step.params.map((params) => this.#insert(run, bind(names, params)));
      case "count":
        return this.#change(run, bind(names, step.params)).changes;
      case "changes":
        return step.params.map((params) => this.#change(run, bind(names, params)).changes > 0);
    }
  };

  /** Not RETURNING, which takes 2 µs of 5. */
  #insert(statement: Database.Statement, values: unknown[]): number | undefined {
    const { changes, lastInsertRowid } = this.#change(statement, values);
    return changes > 0 ? Number(lastInsertRowid) : undefined;
  }

  #change(statement: Database.Statement, values: unknown[]): Database.RunResult {
    const result = statement.run(...values);
    if (result.changes > 0) this.#changed = true;
    return result;
  }

  /** Once for each statement. */
  prepare(statement: Statement): Prepared {
    const known = this.#prepared.get(statement);
    if (known) return known;
    const { text, names } = compiler.compile(statement);
    const entry = { run: asArrays(this.client.prepare(text)), names };
    this.#prepared.set(statement, entry);
    return entry;
  }

  #once(query: SQL): unknown[] {
    const { sql: text, params } = compiler.once(query);
    return asArrays(this.client.prepare(text)).all(...params);
  }

  /** Runs an operation as part of whatever transaction is open, if any. @throws DatabaseError */
  run<T>(op: Program<T>): T {
    return this.toDatabaseErrors(() => this.#notifyingCommit(() => runSync(op, this.#execute)));
  }

  /** Runs an operation in an IMMEDIATE transaction, or in a savepoint of the one that is open. @throws DatabaseError */
  atomically<T>(op: () => Program<T>): T {
    return this.toDatabaseErrors(() => this.#notifyingCommit(() => this.#transaction.immediate(op))) as T;
  }

  /** A transaction inside of an operation: unless somebody awaits what it wrote, it is not told. */
  #inTransaction(op: () => Program<unknown>, awaited: boolean): unknown {
    const result = this.#transaction.immediate(op);
    if (!awaited) this.#changed = false;
    return result;
  }

  /** What has changed nothing is not worth telling. */
  #notifyingCommit<T>(act: () => T): T {
    this.#changed = false;
    const result = act();
    if (this.#changed) this.onCommit();
    return result;
  }

  /** Calls `fn`; what the driver throws becomes a `DatabaseError` that says where. */
  toDatabaseErrors<T>(fn: () => T): T {
    try {
      return fn();
    } catch (error) {
      throw toQueueError(error, this.client);
    }
  }
}

/** Whatever an app has made the default of its connection: rows are arrays, and whole numbers are numbers. */
function asArrays(statement: Database.Statement): Database.Statement {
  statement.safeIntegers(false);
  return statement.reader ? statement.raw() : statement;
}

/** The host's clock is SQLite's too: as a parameter it costs nothing, as `unixepoch('subsec')` 5 µs each time. */
function bind(names: readonly string[], params: Params): unknown[] {
  const values = new Array<unknown>(names.length);
  const now = Date.now();
  for (let i = 0; i < names.length; i += 1) {
    const name = names[i] as string;
    values[i] = name === "now" ? now : params[name];
  }
  return values;
}

/**
 * Busy while the app has a transaction open on this very connection: what the queue does on its own account must not
 * be rolled back with it.
 */
export function refuseOpenTransaction(client: Database.Database): void {
  if (client.inTransaction)
    throw new Database.SqliteError("a transaction is open on this connection", "SQLITE_BUSY");
}

/** What a client threw, for the caller of a queue. */
export function toQueueError(error: unknown, client: Database.Database): unknown {
  // A queue was closed under what waited for a lock.
  if (!client.open && error instanceof TypeError) return new QueueClosedError();
  return toDatabaseError(error, client.name);
}

/** An app's connection may wait for seconds inside SQLite, and its event loop with it. */
export function withoutWaiting<T>(client: Database.Database, fn: () => T): T {
  const timeout = Number(client.pragma("busy_timeout", { simple: true }));
  client.pragma(`busy_timeout = ${nativeTimeout}`);
  try {
    return fn();
  } finally {
    client.pragma(`busy_timeout = ${timeout}`);
  }
}

/** A driver's error as a `DatabaseError` that names the file; any other as it is. */
export function toDatabaseError(error: unknown, name: string): unknown {
  const code = codeOf(error);
  if (error instanceof DbqError || !(error instanceof Error) || code === undefined) return error;
  return new DatabaseError(`${name}: ${error.message} (${code})`, { cause: error });
}

function codeOf(error: unknown): string | undefined {
  const code: unknown = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" && code.startsWith("SQLITE_") ? code : undefined;
}

/** Whether somebody else has the lock that was needed: it will be free soon. */
export function isBusy(error: unknown): boolean {
  const cause = error instanceof DatabaseError ? error.cause : error;
  // An app that goes through rows on a connection which it shares with the queue.
  if (cause instanceof TypeError && cause.message.includes("busy executing a query")) return true;
  const code = codeOf(cause) ?? "";
  return code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED");
}

/** Milliseconds that SQLite itself may wait for a lock; longer waits are `patiently`'s, off the thread. */
export const nativeTimeout = 5;

/** How long a lock that never comes free is waited for, in milliseconds. */
const longestBusyMs = 60_000;

/**
 * Tries until the database is not busy, waiting on the event loop and never inside SQLite: with the usual 5 s
 * `busy_timeout`, eight processes on one file blocked their event loops for up to 740 ms, and some got no work at all.
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
