/** A finished task as one line of JSON, and back. */
import { show } from "../../base/options/durations.ts";
import { memoize } from "../../base/runtime/memoize.ts";
import { isJson } from "../../base/text/json.ts";
import { DatabaseError, InvalidArchiveError } from "../../errors.ts";
import { finishedStatuses } from "../../task.ts";
import type { ArchivedColumn, ArchiveStore, PartTable, PlainRow, StoredTask } from "./contract.ts";

type Columns = ArchiveStore["columns"];

/** Where the parts of a task stand in its line. */
const partFields: Readonly<Record<PartTable, string>> = {
  dbq_attempts: "attempts",
  dbq_task_logs: "logs",
  dbq_steps: "steps",
};
const parts = Object.entries(partFields) as readonly [PartTable, string][];

/** Columns that no row is without. The database refuses a row without another one that it needs. */
const required: Readonly<Record<"dbq_tasks" | PartTable, ReadonlySet<string>>> = {
  // biome-ignore format: a list to read, not a column of names
  dbq_tasks: new Set(["id", "func", "args", "kwargs", "status", "generation_id", "created_at", "updated_at", "priority",
    "queue_name", "retry_count", "max_retries", "meta", "fill_defaults", "manual_retries"]),
  dbq_attempts: new Set(["generation_id", "ended_at", "outcome"]),
  dbq_task_logs: new Set(["generation_id", "at", "message"]),
  dbq_steps: new Set(["name", "seq", "generation_id", "ended_at"]),
};

const fieldsOf = memoize(
  (columns: readonly ArchivedColumn[]): ReadonlySet<string> => new Set(columns.map(({ field }) => field)),
);

/** @returns the line without its end @throws DatabaseError for a value that JSON cannot keep */
export function toLine(columns: Columns, { task, parts: rows }: StoredTask): string {
  const line = toObject(columns.dbq_tasks, task, `task ${task.id}`);
  for (const [table, field] of parts)
    if (rows[table].length > 0)
      line[field] = rows[table].map((row) => toObject(columns[table], row, `${table} of task ${task.id}`));
  return JSON.stringify(line);
}

function toObject(columns: readonly ArchivedColumn[], row: PlainRow, what: string): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  for (const { name, field, kind } of columns) {
    const value = row[name];
    if (value === null) continue;
    const isKept = value !== undefined && (kind !== "time" || Math.abs(Number(value)) <= 8.64e15);
    if (!isKept) throw new DatabaseError(`${what}: the column ${name} has a value that cannot be exported`);
    object[field] = kind === "time" ? new Date(value as number).toISOString() : value;
  }
  return object;
}

/** @param number the line's, from 1, for messages @throws InvalidArchiveError */
export function fromLine(columns: Columns, text: string, number: number): StoredTask {
  const refuse = (problem: string): never => {
    throw new InvalidArchiveError(number, problem);
  };
  const line = objectOf(text) ?? refuse(`expected a task as a JSON object, got ${show(text.slice(0, 60))}`);
  const others = Object.fromEntries(
    Object.entries(line).filter(([field]) => !parts.some(([, of]) => of === field)),
  );
  const task = toRow("dbq_tasks", columns.dbq_tasks, others, (problem) => refuse(problem));
  if (!(finishedStatuses as readonly unknown[]).includes(task.status))
    refuse(`the status is ${show(task.status)}: an archive holds finished tasks only`);
  const rowsOf = (table: PartTable, field: string): PlainRow[] => {
    const list = line[field] ?? [];
    if (!Array.isArray(list)) return refuse(`${field}: expected an array, got ${show(list)}`);
    return list.map((item: unknown, i) => {
      const where = `${field}[${i}]`;
      if (!isObject(item)) return refuse(`${where}: expected an object, got ${show(item)}`);
      const row = toRow(table, columns[table], item, (problem) => refuse(`${where}: ${problem}`));
      return { ...row, task_id: task.id };
    });
  };
  const rows = Object.fromEntries(parts.map(([table, field]) => [table, rowsOf(table, field)]));
  return { task, parts: rows as unknown as StoredTask["parts"] };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** @param refuse throws an error with this problem */
function toRow(
  table: "dbq_tasks" | PartTable,
  columns: readonly ArchivedColumn[],
  object: Readonly<Record<string, unknown>>,
  refuse: (problem: string) => never,
): PlainRow {
  const row: Record<string, string | number | null> = {};
  for (const { name, field, kind } of columns) {
    const value = Object.hasOwn(object, field) ? (object[field] ?? null) : null;
    if (value === null && required[table].has(name)) refuse(`${field} is missing`);
    const stored = value === null ? null : storedAs(kind, value);
    if (stored === undefined) refuse(`${field}: expected ${expected[kind]}, got ${show(value)}`);
    row[name] = stored as string | number | null;
  }
  const known = fieldsOf(columns);
  const unknown = Object.keys(object).find((field) => !known.has(field));
  if (unknown !== undefined)
    refuse(
      `${show(unknown)} is no field that this version of dbq knows: import it by the version that exported it, or a later one`,
    );
  return row;
}

const expected: Readonly<Record<ArchivedColumn["kind"], string>> = {
  integer: "a whole number",
  time: 'a time such as "2027-01-31T12:00:00.000Z"',
  real: "a number",
  json: "a text that holds JSON",
  text: "a text",
};

/** Undefined: a value of another kind. */
function storedAs(kind: ArchivedColumn["kind"], value: unknown): string | number | undefined {
  if (kind === "integer") return Number.isSafeInteger(value) ? (value as number) : undefined;
  if (kind === "real") return typeof value === "number" ? value : undefined;
  if (typeof value !== "string") return undefined;
  if (kind === "json") return isJson(value) ? value : undefined;
  if (kind === "text") return value;
  const date = new Date(value);
  return !Number.isNaN(date.getTime()) && date.toISOString() === value ? date.getTime() : undefined;
}
