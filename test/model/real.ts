/** The real store on SQLite in memory: its rows can be read directly, and its statements can be made to fail. */
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import type { FullStore } from "../../src/features/store.ts";
import type { Table } from "../../src/stores/sql/columns.ts";
import { openSqliteDatabase } from "../../src/stores/sqlite/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { type ClaimCursors, noFreedom } from "./following.ts";
import {
  type Fault,
  inCamelCase,
  type RealStore,
  type Row,
  type Rows,
  rowsOf,
  snakeCase,
  wiped,
} from "./real-store.ts";

/** A row with a dangling reference: its transaction cannot be committed. */
const neverCommitted = `
  create table dbq_test_targets (id integer primary key);
  create table dbq_test_pointers (target integer references dbq_test_targets (id) deferrable initially deferred);`;

export class Real implements RealStore {
  readonly client: Database.Database;
  readonly store: FullStore;
  readonly freedom = noFreedom;
  readonly cursors: ClaimCursors = new Map();
  readonly #faults: Faults;
  readonly #prepare: Database.Database["prepare"];
  readonly #reads = new Map<Table, Database.Statement<[], Row>>();
  readonly #tables: Record<"tasks" | "attempts" | "workers", Database.Statement<[], Row>>;

  static async open(): Promise<Real> {
    const client = new Database(":memory:");
    // SQLite's clock in the columns' defaults is stepped together with the host's.
    client.function("julianday", { varargs: true }, () => Date.now() / 86_400_000 + 2_440_587.5);
    client.exec(neverCommitted);
    const prepare = client.prepare.bind(client);
    const faults = new Faults(client);
    client.prepare = ((text: string) => faults.around(prepare(text))) as typeof client.prepare;
    const store = await openSqliteDatabase(drizzle({ client }), { migrate: true, synchronous: "full" });
    client.prepare = ((text: string) => faults.around(prepare(text))) as typeof client.prepare;
    return new Real(client, store, faults, prepare);
  }

  private constructor(
    client: Database.Database,
    store: FullStore,
    faults: Faults,
    prepare: Database.Database["prepare"],
  ) {
    this.client = client;
    this.store = store;
    this.#faults = faults;
    this.#prepare = prepare;
    this.#tables = {
      tasks: prepare<[], Row>("select * from dbq_tasks order by id"),
      attempts: prepare<[], Row>("select * from dbq_attempts order by id"),
      workers: prepare<[], Row>("select * from dbq_workers order by id"),
    };
  }

  get inTransaction(): boolean {
    return this.client.inTransaction;
  }

  rows(): Rows {
    const { tasks, attempts, workers } = this.#tables;
    return rowsOf(tasks.all(), attempts.all(), workers.all());
  }

  read(table: Table): Row[] {
    const read = this.#reads.get(table) ?? this.#prepare<[], Row>(`select * from ${table}`);
    this.#reads.set(table, read);
    return read.all().map(inCamelCase);
  }

  put(row: Partial<TaskRecord>): number {
    const names = Object.keys(row).map(snakeCase);
    const values = names.map(() => "?").join(", ");
    const insert = this.client.prepare(`insert into dbq_tasks (${names.join(", ")}) values (${values})`);
    return Number(insert.run(...Object.values(row)).lastInsertRowid);
  }

  wipe(): void {
    const tables = [...wiped, "sqlite_sequence"];
    this.client.exec(tables.map((table) => `delete from ${table}`).join("; "));
  }

  /** SQLite's time functions ask the host. */
  setClock(): void {}

  async failing<T>(fault: Fault, call: () => Promise<T>): Promise<{ answer: T; fired: boolean }> {
    this.#faults.next = fault;
    try {
      const answer = await call();
      return { answer, fired: this.#faults.next === undefined };
    } finally {
      this.#faults.next = undefined;
    }
  }

  close(): void {
    this.client.close();
  }
}

/** Intercepts the statements of a client; does nothing while no fault is set. */
class Faults {
  next: Fault | undefined;
  readonly #client: Database.Database;

  constructor(client: Database.Database) {
    this.#client = client;
  }

  around(statement: Database.Statement): Database.Statement {
    const { run, all } = statement;
    statement.run = (...values) => {
      this.#tick();
      return run.apply(statement, values);
    };
    statement.all = (...values) => {
      this.#tick();
      return all.apply(statement, values);
    };
    return statement;
  }

  #tick(): void {
    const { next } = this;
    if (!next) return;
    if (next.statement > 0) {
      this.next = { ...next, statement: next.statement - 1 };
      return;
    }
    this.next = undefined;
    if (next.how === "throws" || !this.#client.inTransaction)
      throw new Database.SqliteError("database or disk is full", "SQLITE_FULL");
    this.#client.exec("insert into dbq_test_pointers values (1)");
  }
}
