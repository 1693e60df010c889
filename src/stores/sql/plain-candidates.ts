/**
 * Candidates of a claim without the columns that most tasks leave at their defaults. One value per row says whether the task
 * is plain: all of those columns have their defaults. SQLite tests a column in a tenth of the time that its driver takes to
 * read it, so a plain task is read in 1.5 µs instead of 2.7. Tasks that are not plain are read again, as a whole. A task with
 * a trace context is plain, too: every task that an instrumented app enqueues has one. So is the child of a task: a parent may have
 * very many.
 */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { TaskRecord } from "../../task.ts";
import { positionsIn } from "./columns.ts";
import type { Row } from "./dialect.ts";
import { candidateColumns, int } from "./rows.ts";

/** These columns are read of each candidate. */
const readColumns = ["id", "generation_id", "args", "created_at", "priority", "max_retries"] as const;

/** The query knows the first two, since it names them. The value that says whether a task is plain has the third. */
const known: readonly string[] = ["queue_name", "func", "trace_context"];

/** The defaults of the other columns in SQL, as conditions compare them; null where none is given. */
const defaults: Readonly<Record<string, string>> = {
  kwargs: "'{}'",
  meta: "'{}'",
  retry_count: "0",
  fill_defaults: "0",
};

const unread = candidateColumns.filter((column) => ![...readColumns, ...known].includes(column));
const isDefault = unread.flatMap((column) =>
  defaults[column] === undefined ? [] : [`${column} = ${defaults[column]}`],
);
const ofChildren: readonly string[] = ["parent_id", "root_id"];
const nulls = unread.filter((column) => defaults[column] === undefined && !ofChildren.includes(column));

/**
 * Of a task that is not plain, and of a plain one without a trace context. Any other value is a plain task's trace context, which is
 * a JSON object, or the parent and the root of a plain child, as `7:5`.
 */
const [notPlain, untraced] = [0, 1] as const;
const childPattern = /^(\d+):(\d+)$/;

/** `pair`: the number of the queue and function that the query names. */
export const plainColumns = (pair: number): SQL =>
  sql.raw(
    `${readColumns.join(", ")}, ${pair} as pair, case when ${isDefault.join(" and ")} and coalesce(${nulls.join(", ")}) is null
      then case
        when coalesce(parent_id, root_id, trace_context) is null then ${untraced}
        when coalesce(parent_id, root_id) is null and trace_context like '{%' then trace_context
        when trace_context is null then coalesce(parent_id || ':' || root_id, ${notPlain})
        else ${notPlain} end
      else ${notPlain} end as plain`,
  );

const at = positionsIn([...readColumns, "pair", "plain"]);

export const isPlain = (row: Row): boolean => row[at.plain] !== notPlain;

export const idOfPlain = (row: Row): number => int(row[at.id]);

export function toPlainCandidate(
  row: Row,
  pairs: readonly (readonly [queueName: string, func: string])[],
): TaskRecord {
  const [queueName, func] = pairs[row[at.pair] as number] as readonly [string, string];
  const plain = row[at.plain] as string | typeof untraced;
  const [, parentId, rootId] = (plain !== untraced && childPattern.exec(plain)) || [];
  return {
    id: int(row[at.id]),
    func,
    args: row[at.args] as string,
    kwargs: "{}",
    result: null,
    error: null,
    status: "pending",
    generationId: int(row[at.generation_id]),
    createdAt: Number(row[at.created_at]),
    updatedAt: 0,
    priority: int(row[at.priority]),
    queueName,
    retryCount: 0,
    maxRetries: int(row[at.max_retries]),
    waitUntil: null,
    workerId: null,
    startedAt: null,
    finishedAt: null,
    requestId: null,
    uniqueKey: null,
    uniqueUntil: null,
    meta: "{}",
    timeout: null,
    progress: null,
    progressNote: null,
    fillDefaults: 0,
    traceContext: plain === untraced || parentId !== undefined ? null : plain,
    groupKey: null,
    scheduleName: null,
    slot: null,
    parentId: parentId === undefined ? null : int(parentId),
    rootId: rootId === undefined ? null : int(rootId),
    expiresAt: null,
  };
}
