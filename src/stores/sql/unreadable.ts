/**
 * Rows that dbq would not have written: a status or scope that does not exist, a text in the place of a number, a time that no
 * `Date` holds, broken JSON. Readers pass over such a row, or read what they can of it. This names them, for `dbq doctor`.
 */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { Diagnosis } from "../../store.ts";
import { taskStatuses } from "../../task.ts";
import { kindOf, type Table } from "./columns.ts";
import { fact } from "./diagnosis.ts";
import type { Dialect } from "./dialect.ts";
import { type Program, rowsOnce } from "./program.ts";
import { exactIdFacts } from "./refused-ids.ts";
import { isCount, textOf } from "./rows.ts";

/** The last `Date`, in milliseconds since 1970. */
const lastTime = 8.64e15;

/** What a time is read as that is not null, and that the database cannot turn into milliseconds: a zero date of MySQL. */
const noTime = 9_000_000_000_000_000;

/** The rows of a table that one look reads: of tasks, the newest ones. */
const mostRows = 10_000;

/** Rows that one fact names. */
const mostNamed = 5;

/** The columns of a table in which dbq looks for values that it cannot read. Each feature declares those of its own tables. */
export interface TableLook {
  table: Table;
  /** The columns that name a row. */
  key: readonly string[];
  columns: readonly string[];
  /** Of columns whose kind does not say it: whether a value is one that dbq writes. */
  accepts?: Readonly<Record<string, (value: string, key: string) => boolean>>;
}

/** Whether a text is JSON of names, or of one. */
export function isNames(json: string): boolean {
  try {
    return [JSON.parse(json)].flat().every((name) => typeof name === "string");
  } catch {
    return false;
  }
}

const isStatus = (value: string) => (taskStatuses as readonly string[]).includes(value);

// biome-ignore format: a table to read
const coreLooks: readonly TableLook[] = [
  {
    table: "dbq_tasks", key: ["id"],
    columns: ["status", "generation_id", "created_at", "updated_at", "priority", "retry_count", "max_retries", "wait_until",
      "started_at", "finished_at", "timeout", "progress", "unique_until", "slot"],
    accepts: { status: isStatus },
  },
  {
    table: "dbq_attempts", key: ["id"], columns: ["task_id", "generation_id", "started_at", "ended_at"],
  },
  { table: "dbq_task_logs", key: ["id"], columns: ["task_id", "generation_id", "at"] },
  {
    table: "dbq_workers", key: ["id"],
    columns: ["queue_names", "concurrency", "lease", "pid", "started_at", "heartbeat_at", "beat", "limits_version"],
    accepts: { queue_names: isNames, concurrency: isCount, lease: isCount },
  },
];

function isReadable(table: Table, column: string, value: unknown): boolean {
  if (value === null) return true;
  switch (kindOf(table, column)) {
    case "integer":
      return Number.isSafeInteger(Number(value));
    case "time":
      return Math.abs(Number(value)) <= lastTime;
    case "real":
      return Number.isFinite(Number(value));
    default:
      return true;
  }
}

/**
 * The facts of the tables that have such rows.
 * @param looks those of features
 * @param isDenied whether an error says that this user may not read a table
 */
export function* unreadableFacts(
  d: Dialect,
  looks: readonly TableLook[],
  isDenied: (error: unknown) => boolean,
): Program<Diagnosis[]> {
  const facts = yield* exactIdFacts(d, isDenied);
  for (const one of [...coreLooks, ...looks]) {
    try {
      const problems = yield* problemsIn(d, one);
      if (problems.length > 0) facts.push(unreadableFact(one.table, problems));
    } catch (error) {
      if (!isDenied(error)) throw error;
    }
  }
  return facts;
}

/** The keys of such rows, each with a column that cannot be read. */
function* problemsIn(d: Dialect, { table, key, columns, accepts = {} }: TableLook): Program<string[]> {
  const keys = key.map((name) => sql`${exactKey(table, name)} as ${sql.raw(`key_${name}`)}`);
  const list = columns.map((column) => columnOfLook(d, table, column));
  const order = sql.raw(kindOf(table, key[0] as string) === "integer" ? "order by id desc" : "");
  const found = yield* rowsOnce(sql`
    select ${sql.join([...keys, ...list], sql`, `)} from ${sql.raw(table)} ${order} limit ${sql.raw(String(mostRows))}`);
  return found.flatMap((row) => {
    const bad = columns.find((column, i) => {
      const value = row[key.length + i];
      const isAccepted = value === null || accepts[column]?.(textOf(value), textOf(row[0])) !== false;
      return !isAccepted || !isReadable(table, column, value);
    });
    return bad === undefined ? [] : [`${row.slice(0, key.length).map(textOf).join(" ").trim()} (${bad})`];
  });
}

/** A whole number as a text: a driver may round it. */
const exactKey = (table: Table, name: string): SQL =>
  sql.raw(kindOf(table, name) === "integer" ? `concat(${name}, '')` : name);

function columnOfLook(d: Dialect, table: Table, name: string): SQL {
  const column = sql.raw(name);
  const kind = kindOf(table, name);
  if (kind === "json") return sql`${d.text(column)} as ${column}`;
  if (kind !== "time") return column;
  return sql`case when ${column} is not null then coalesce(${d.millis(column)}, ${sql.raw(String(noTime))}) end as ${column}`;
}

function unreadableFact(table: Table, problems: readonly string[]): Diagnosis {
  const others = problems.length - mostNamed;
  const named = `${problems.slice(0, mostNamed).join(", ")}${others > 0 ? ` and ${others} others` : ""}`;
  return fact(
    `unreadable rows of ${table}`,
    problems.length,
    true,
    `another program has written what dbq cannot read, and passes over: ${named}. Correct or delete them`,
  );
}
