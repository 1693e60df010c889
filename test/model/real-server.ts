/** The real store on a server: the server's clock follows `Date`, and its statements can be made to fail. */
import type { FullStore } from "../../src/features/store.ts";
import { columnsOf, kindOf, type Table } from "../../src/stores/sql/columns.ts";
import type { TaskRecord } from "../../src/task.ts";
import type { ClaimCursors, Freedom } from "./following.ts";
import { inCamelCase, type RealStore, type Row, rowsOf, snakeCase, wiped } from "./real-store.ts";
import type { Wire } from "./wire.ts";

/** Access to a server outside of the store. */
export interface Server {
  /** Runs several statements; returns the rows of each. */
  ask(text: string): Promise<Row[][]>;
  /** Inserts a row, with an SQL expression for each value; returns its id. */
  insert(columns: readonly string[], written: readonly string[], values: readonly unknown[]): Promise<number>;
  /** A column's time in milliseconds, and the reverse. */
  millis(column: string): string;
  time(parameter: string): string;
  /** Any column as text. */
  text(column: string): string;
  parameter(index: number): string;
  setClock(): Promise<void>;
  close(): Promise<void>;
}

const tables = ["dbq_tasks", "dbq_attempts", "dbq_workers"] as const;

const isTime = (table: Table, column: string) => kindOf(table, column) === "time";

export class RealServer implements RealStore {
  readonly store: FullStore;
  readonly freedom: Freedom;
  readonly cursors: ClaimCursors = new Map();
  readonly failing: Wire["failing"];
  readonly #server: Server;
  readonly #wire: Wire;
  readonly #questions: string;

  constructor(store: FullStore, server: Server, wire: Wire, freedom: Freedom) {
    this.store = store;
    this.freedom = freedom;
    this.failing = (fault, call) => wire.failing(fault, call);
    this.#server = server;
    this.#wire = wire;
    this.#questions = tables
      .map((table) => `select ${this.#read(table)} from ${table} order by id`)
      .join("; ");
  }

  #read(table: Table): string {
    const { millis, text } = this.#server;
    return columnsOf(table)
      .map((column) => `${isTime(table, column) ? millis(column) : text(column)} as ${column}`)
      .join(", ");
  }

  get inTransaction(): boolean {
    return this.#wire.inTransaction;
  }

  async rows() {
    const found = await this.#server.ask(this.#questions);
    const [tasks = [], attempts = [], workers = []] = tables.map((table, i) =>
      (found[i] ?? []).map((row) => decoded(table, row)),
    );
    return rowsOf(byId(tasks), byId(attempts), workers);
  }

  async read(table: Table): Promise<Row[]> {
    // The answer to one statement alone has another form.
    const [, found = []] = await this.#server.ask(
      `select 1 as one; select ${this.#read(table)} from ${table}`,
    );
    return found.map((row) => inCamelCase(decoded(table, row)));
  }

  async put(row: Partial<TaskRecord>): Promise<number> {
    const columns = Object.keys(row).map(snakeCase);
    const { time, parameter, insert } = this.#server;
    const written = columns.map((column, i) =>
      isTime("dbq_tasks", column) ? time(parameter(i)) : parameter(i),
    );
    return await insert(columns, written, Object.values(row));
  }

  async wipe(): Promise<void> {
    await this.#server.ask(wiped.map((table) => `delete from ${table}`).join("; "));
  }

  setClock(): Promise<void> {
    return this.#server.setClock();
  }

  async close(): Promise<void> {
    await this.store.close();
    this.#wire.remove();
    await this.#server.close();
  }
}

/** Ids as text would be sorted as text. */
const byId = (rows: Row[]) => rows.sort((a, b) => Number(a.id) - Number(b.id));

function decoded(table: Table, row: Row): Row {
  const entries = Object.entries(row).map(([column, value]) => [
    column,
    value !== null && /^(integer|time|real)$/.test(kindOf(table, column)) ? Number(value) : value,
  ]);
  return Object.fromEntries(entries);
}
