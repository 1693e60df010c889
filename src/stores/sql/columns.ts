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
    progress_note: "text", fill_defaults: "integer", trace_context: "text", group_key: "text", uses: "json",
    unique_until: "time", schedule_name: "text", slot: "time", parent_id: "integer", root_id: "integer",
    manual_retries: "integer", start_key: "text", put_off_by: "text", failure: "text",
    expires_at: "time",
  },
  dbq_attempts: {
    id: "integer", task_id: "integer", generation_id: "integer", worker_id: "text", started_at: "time",
    ended_at: "time", outcome: "text", error_name: "text", error_message: "text", error_stack: "text",
    error_cause: "text", failure: "text",
  },
  dbq_task_logs: {
    id: "integer", task_id: "integer", generation_id: "integer", at: "time", message: "text",
  },
  dbq_workers: {
    id: "text", queue_names: "text", concurrency: "integer", lease: "integer", host: "text", boot_id: "text",
    pid_namespace: "text", pid: "integer", process_start: "text", started_at: "time", heartbeat_at: "time",
    beat: "integer", session: "text", request_id: "text", requested_at: "time",
    limits_version: "integer",
  },
  dbq_agents: {
    name: "text", token_hash: "text", funcs: "json", queues: "json", created_at: "time", last_seen_at: "time",
    expires_at: "time", revoked_at: "time",
  },
  dbq_settings: { name: "text", value: "text" },
  dbq_drains: {
    queue_name: "text", worker_id: "text", generation_id: "integer", target: "text", updated_at: "time",
  },
  dbq_schedules: {
    name: "text", func: "text", args: "json", kwargs: "json", options: "json", cron: "text", every_ms: "integer",
    time_zone: "text", missed: "text", overlap: "text", jitter_ms: "integer", start_at: "time", end_at: "time",
    anchor_at: "time", next_at: "time", last_slot: "time", last_task_id: "integer", skipped: "integer",
    paused_at: "time", generation_id: "integer", created_at: "time", updated_at: "time",
  },
  dbq_limits: {
    scope: "text", name: "text", group_key: "text", concurrency: "integer", rate_limit: "integer", rate_per: "integer",
    rate_burst: "integer", tat: "integer", throttled_until: "time", paused_at: "time", claims: "integer",
  },
  dbq_audit: { id: "integer", at: "time", actor: "text", action: "text", target: "text", count: "integer", reason: "text" },
  dbq_stats: {
    id: "integer", minute: "time", span: "integer", worker_id: "text", queue_name: "text", func: "text", outcome: "text",
    count: "integer", wait_buckets: "text", run_buckets: "text",
  },
  dbq_failures: {
    id: "text", func: "text", error_name: "text", message: "text", minute: "time", span: "integer", count: "integer",
    first_at: "time", last_at: "time", sample: "integer",
  },
  dbq_owed_hooks: {
    id: "integer", task_id: "integer", generation_id: "integer", queue_name: "text", func: "text", status: "text",
    retry_count: "integer", worker_id: "text", tries: "integer", created_at: "time",
  },
  dbq_steps: {
    id: "integer", task_id: "integer", name: "text", seq: "integer", value: "json", error: "json",
    generation_id: "integer", started_at: "time", ended_at: "time", undo_state: "text", undo_error: "json",
    child_id: "integer",
  },
  dbq_events: { id: "integer", name: "text", payload: "json", emitted_at: "time" },
  dbq_waits: {
    id: "integer", task_id: "integer", name: "text", kind: "text", target: "text", deadline: "time", mode: "text",
  },
  dbq_causes: {
    id: "integer", name: "text", key: "text", cause: "json", began_at: "time", ended_at: "time", seen_at: "time",
    reporter: "text", reported: "text",
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

/** A parameter, cast to the type of its column. */
export function parameterFor(d: Dialect, table: Table, column: string, parameter: unknown): SQL {
  switch (kindOf(table, column)) {
    case "integer":
      return d.integer(parameter);
    case "time":
      return d.time(d.integer(parameter));
    case "json":
      return d.json(parameter);
    default:
      return sql`${parameter}`;
  }
}

/** Where in a row of these columns each one is. */
export function positionsIn<C extends string>(columns: readonly C[]): Readonly<Record<C, number>> {
  return Object.fromEntries(columns.map((column, i) => [column, i])) as Record<C, number>;
}

/** By bytes, of which a character has four at most: each database knows their number without reading the text. */
const beginningOf = (column: string, most: number): string =>
  `case when octet_length(${column}) > ${4 * most} then substr(${column}, 1, ${most}) else ${column} end`;

/**
 * Columns as they are read. Each keeps its name: rows that come as objects have no two columns of one name.
 * `json: false`: null in the place of JSON. `only`: null in the place of all others. `givenKey`: as `unique_key` the key that the
 * enqueue gave, also when the task has given it up. `longest`: a longer text is cut to so many characters, and the rest stays in the database.
 * `unstarted`: null as `expires_at` of a task that has ever started.
 * `characters`: so many of each JSON column, from its begin; behind all columns follow the bytes of each of these.
 */
export function listed(
  d: Dialect,
  table: Table,
  columns: readonly string[],
  {
    json = true,
    givenKey = false,
    unstarted = false,
    only = undefined as ReadonlySet<string> | undefined,
    longest = {} as Readonly<Record<string, number>>,
    characters = undefined as number | undefined,
  } = {},
): SQL {
  const isCut = (name: string) => characters !== undefined && kindOf(table, name) === "json";
  const list = columns.map((name) => {
    const column = sql.raw(name);
    if (only?.has(name) === false) return sql`null as ${column}`;
    if (givenKey && name === "unique_key") return sql`coalesce(unique_key, start_key) as ${column}`;
    if (unstarted && name === "expires_at")
      return sql`case when started_at is null then ${d.millis(column)} end as ${column}`;
    if (longest[name] !== undefined) return sql.raw(`${beginningOf(name, longest[name])} as ${name}`);
    if (isCut(name)) return sql`substr(${d.text(column)}, 1, ${sql.raw(String(characters))}) as ${column}`;
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
  // SQLite knows it without reading the text.
  for (const name of columns.filter(isCut))
    list.push(sql`octet_length(${d.text(sql.raw(name))}) as ${sql.raw(`${name}_bytes`)}`);
  return sql.join(list, sql`, `);
}

/** Parameters of batches that are not named after a column, and are whole numbers. */
const numbersBesideColumns = new Set([
  ...["delay", "charge", "line", "after", "uniqueFor", "debounceLimit", "turn", "expiresIn", "unbegun"],
]);

/** The field of a column: its name in camelCase. */
export const fieldOf = (column: string) =>
  column.replace(/_[a-z]/g, (letter) => letter.slice(1).toUpperCase());

/** The column of a field. */
export const columnOf = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Where tables have columns of one name, these are of one kind. */
const itemKinds: Kinds = {
  ...kindsOf.dbq_failures,
  ...kindsOf.dbq_waits,
  ...kindsOf.dbq_steps,
  ...kindsOf.dbq_schedules,
  ...kindsOf.dbq_stats,
  ...kindsOf.dbq_task_logs,
  ...kindsOf.dbq_attempts,
  ...kindsOf.dbq_tasks,
};

/** The type of a parameter in the list of a batch, by the column of the same name in camelCase. Times are milliseconds there. */
export function itemTypeOf(name: string): "integer" | "real" | "text" {
  if (numbersBesideColumns.has(name)) return "integer";
  const { [columnOf(name)]: kind = "text" } = itemKinds;
  if (kind === "time") return "integer";
  return kind === "json" ? "text" : kind;
}
