/**
 * The columns of the tables: which there are, and what each holds. Statements, parameters of batches and `dbq move` ask
 * here how a column is read and written.
 *
 * A record of our own, although `drizzle/` says the same: loading a schema loads Drizzle's query builders, 40 to 55 ms at
 * each start, and no schema but Postgres' tells times from integers and JSON from text. A test proves that this record
 * and all three schemas agree.
 */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { Dialect } from "./dialect.ts";

/** `time`: milliseconds since 1970 outside of the database. `json`: text outside of the database. */
export type ColumnKind = "integer" | "time" | "real" | "json" | "text";

type Kinds = Readonly<Record<string, ColumnKind>>;

/** In the order in which rows of all columns are read. */
// biome-ignore format: a record to read, not a column of names
export const kindsOf = {
  dbq_tasks: {
    id: "integer", func: "text", args: "json", kwargs: "json", result: "json", error: "json", status: "text",
    generation_id: "integer", created_at: "time", updated_at: "time", priority: "integer", queue_name: "text",
    retry_count: "integer", max_retries: "integer", wait_until: "time", worker_id: "text", started_at: "time",
    finished_at: "time", request_id: "text", unique_key: "text", meta: "json", timeout: "integer", progress: "real",
    progress_note: "text", fill_defaults: "integer", trace_context: "text",
  },
  dbq_attempts: {
    id: "integer", task_id: "integer", generation_id: "integer", worker_id: "text", started_at: "time",
    ended_at: "time", outcome: "text", error_name: "text", error_message: "text", error_stack: "text",
    error_cause: "text",
  },
  dbq_task_logs: {
    id: "integer", task_id: "integer", generation_id: "integer", at: "time", message: "text",
  },
  dbq_workers: {
    id: "text", queue_names: "text", concurrency: "integer", lease: "integer", host: "text", boot_id: "text",
    pid_namespace: "text", pid: "integer", process_start: "text", started_at: "time", heartbeat_at: "time",
    beat: "integer", session: "text",
  },
} as const satisfies Record<string, Kinds>;

export type Table = keyof typeof kindsOf;
export type ColumnOf<T extends Table> = keyof (typeof kindsOf)[T] & string;

export function columnsOf<T extends Table>(table: T): readonly ColumnOf<T>[] {
  return Object.keys(kindsOf[table]) as ColumnOf<T>[];
}

export function kindOf(table: Table, column: string): ColumnKind {
  const kind = (kindsOf[table] as Kinds)[column];
  if (kind === undefined) throw new TypeError(`${table} has no column ${column}`);
  return kind;
}

/** Where in a row of these columns each one is. */
export function positionsIn<C extends string>(columns: readonly C[]): Readonly<Record<C, number>> {
  return Object.fromEntries(columns.map((column, i) => [column, i])) as Record<C, number>;
}

/**
 * Columns as they are read. Each keeps its name: rows that come as objects have no two columns of one name.
 * `json: false`: null in the place of JSON.
 */
export function listed(d: Dialect, table: Table, columns: readonly string[], { json = true } = {}): SQL {
  const list = columns.map((name) => {
    const column = sql.raw(name);
    switch (kindOf(table, name)) {
      case "time":
        return sql`${d.millis(column)} as ${column}`;
      case "real":
        return sql`${d.real(column)} as ${column}`;
      case "json":
        return sql`${json ? d.text(column) : sql.raw("null")} as ${column}`;
      default:
        return column;
    }
  });
  return sql.join(list, sql`, `);
}

/** Parameters of batches that are not named after a column, and are whole numbers. */
const numbersBesideColumns = new Set(["delay", "charge", "line", "after"]);

const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** The type of a parameter in the list of a batch, by the column of the same name in camelCase. Times are milliseconds there. */
export function itemTypeOf(name: string): "integer" | "real" | "text" {
  if (numbersBesideColumns.has(name)) return "integer";
  const { dbq_tasks, dbq_attempts, dbq_task_logs } = kindsOf;
  const { [snakeCase(name)]: kind = "text" }: Kinds = { ...dbq_task_logs, ...dbq_attempts, ...dbq_tasks };
  if (kind === "time") return "integer";
  return kind === "json" ? "text" : kind;
}
