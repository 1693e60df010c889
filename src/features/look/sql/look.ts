/**
 * The operations of people who look at tasks, each written once for all databases. `LookStore` says what they promise.
 *
 * A list is bounded in one of two ways. Where an index holds the filter's tasks and they are few, it reads them all. Else it
 * reads a range of ids, and says how far it came: the caller goes on as long as it likes.
 */

import { type SQL, sql } from "drizzle-orm/sql/sql";
import { waitsForStart } from "../../../base/tasks/pending.ts";
import { isEnding } from "../../../base/values/ending.ts";
import { present } from "../../../base/values/present.ts";
import type { Operated, TaskFilter } from "../../../store.ts";
import type { Batches } from "../../../stores/sql/batches.ts";
import { columnsOf, listed, positionsIn } from "../../../stores/sql/columns.ts";
import type { Dialect, Row } from "../../../stores/sql/dialect.ts";
import type { MaintenanceOperations } from "../../../stores/sql/maintenance.ts";
import type { CoreOperations } from "../../../stores/sql/operations.ts";
import { count, insertedId, type Program, type Runner, rows, rowsOnce } from "../../../stores/sql/program.ts";
import { beginningColumns, int, toTaskBeginning } from "../../../stores/sql/rows.ts";
import { before, type Statement, stateChange } from "../../../stores/sql/statements.ts";
import { isNotEnding } from "../../../stores/sql/statuses.ts";
import type { TaskOperations } from "../../../stores/sql/tasks.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import type { TableLook } from "../../../stores/sql/unreadable.ts";
import { type TaskBeginning, type TaskRecord, type TaskStatus, taskStatuses } from "../../../task.ts";
import type { AuditEntry, IdRange, LookStore, TaskEdit } from "../contract.ts";

const auditColumns = columnsOf("dbq_audit").filter((column) => column !== "id");
const audit = positionsIn(auditColumns);

function toAuditEntry(row: Row): AuditEntry {
  return {
    at: Number(row[audit.at]),
    actor: row[audit.actor] as string | null,
    action: String(row[audit.action]),
    target: String(row[audit.target]),
    count: Number(row[audit.count]),
    reason: row[audit.reason] as string | null,
  };
}

function lookStatements(d: Dialect) {
  const change = stateChange(d);
  const newTime = (p: Readonly<Record<string, unknown>>) => d.time(d.integer(p.waitUntil));
  return {
    /** A new time is no turn at a rate. MySQL sets columns from left to right: the old time is compared before it is replaced. */
    edit: change(
      (p) => sql`put_off_by = case when wait_until = ${newTime(p)} then put_off_by end,
        args = ${d.json(p.args)}, kwargs = ${d.json(p.kwargs)}, priority = ${d.integer(p.priority)},
        queue_name = ${p.queueName}, wait_until = ${newTime(p)}, updated_at = ${d.now(p)},
        expires_at = case when ${d.integer(p.keepsExpiry)} = 1 then expires_at else ${d.plus(d.now(p), d.integer(p.expiresIn))} end,
        status = case when ${newTime(p)} > ${d.now(p)} then 'scheduled' else 'pending' end`,
      sql.raw("and coalesce(status, '') in ('pending', 'scheduled')"),
    ),

    audit: (p) => sql`
      insert into dbq_audit (at, actor, action, target, count, reason)
      values (${d.now(p)}, ${p.actor}, ${p.action}, ${p.target}, ${d.integer(p.count)}, ${p.reason})`,

    /** Further tasks of an action that is kept. */
    auditMore: (p) => sql`
      update dbq_audit set count = count + ${d.integer(p.count)} where id = ${d.integer(p.id)}`,

    audits: (p) => sql`
      select ${listed(d, "dbq_audit", auditColumns)} from dbq_audit order by id desc ${d.atMost(p.limit)}`,

    auditsOf: (p) => sql`
      select ${listed(d, "dbq_audit", auditColumns)} from dbq_audit where ${d.same("target", p.target)}
      order by id desc ${d.atMost(p.limit)}`,

    /** By their ids, which grow with their times: those are the table's order, and no index has the times. */
    oldAudits: (p) => sql`
      select id from (select id, at from dbq_audit order by id ${d.atMost(p.limit)}) as oldest
      where at < ${before(d, p)}`,

    deleteAudits: (p) => sql`delete from dbq_audit where ${d.among("id", p.ids)}`,

    deletable: (p) => sql`
      select id from dbq_tasks where ${d.among("id", p.ids)} and status <> 'running' and ${isNotEnding(d)} ${d.locked}`,
  } satisfies Record<string, Statement>;
}

/** False: the change is about an expiry, and the task's first attempt has started. */
const mayExpire = ({ startedAt }: Pick<TaskRecord, "startedAt">, { expiresIn = null }: TaskEdit): boolean =>
  expiresIn === null || startedAt === null;

/** Conditions that an index holds, with the text of its WHERE. `completed` tasks have one, too, and are many. */
function indexedOf(d: Dialect): Readonly<Record<TaskStatus, SQL | undefined>> {
  const ended = (status: string) =>
    sql`${d.indexed.endedAs} = ${sql.raw(`'${status}'`)} and finished_at is not null`;
  return {
    pending: sql.raw("status = 'pending'"),
    scheduled: sql.raw("status = 'scheduled'"),
    running: sql.raw("status = 'running'"),
    waiting: undefined,
    completed: ended("completed"),
    failed: ended("failed"),
    cancelled: ended("cancelled"),
  };
}

export const auditLook: TableLook = { table: "dbq_audit", key: ["id"], columns: ["at", "count"] };

export class LookOperations {
  readonly #d: Dialect;
  readonly #s: ReturnType<typeof lookStatements>;
  readonly #queries: Texts["queries"];
  readonly #tasks: TaskOperations;
  readonly #maintenance: MaintenanceOperations;

  constructor({ texts: { dialect, queries }, tasks, maintenance }: CoreOperations) {
    this.#d = dialect;
    this.#s = lookStatements(dialect);
    this.#queries = queries;
    this.#tasks = tasks;
    this.#maintenance = maintenance;
  }

  // ---- read ----------------------------------------------------------------------------------

  /** The ids that an index finds for a part of the filter, one more than `most` at most; undefined: no index holds one. */
  #found(
    { status, requestId, uniqueKey, failure, scheduleName, queueName, func }: TaskFilter,
    most: number,
  ): SQL | undefined {
    const d = this.#d;
    const some = (where: SQL) =>
      sql`select id from dbq_tasks where ${where} limit ${sql.raw(String(most + 1))}`;
    if (failure !== undefined) return some(this.#queries.matching({ failure }));
    if (requestId !== undefined) return some(d.same("request_id", requestId));
    if (scheduleName !== undefined)
      return some(sql`schedule_name is not null and ${d.same("schedule_name", scheduleName)}`);
    if (uniqueKey !== undefined || !status || status.length >= taskStatuses.length) return undefined;
    if (queueName !== undefined && status.length === 1 && status[0] === "pending")
      return some(sql`status = 'pending' and ${d.same("queue_name", queueName)}
        ${func === undefined ? sql`` : sql`and ${d.same("func", func)}`}`);
    const indexed = indexedOf(d);
    const conditions = status.flatMap((each) => indexed[each] ?? []);
    if (conditions.length < status.length) return undefined;
    // In parentheses by way of a query of their own: SQLite takes no others around a LIMIT.
    const parts = conditions.map((each, i) => sql`select id from (${some(each)}) as ${sql.raw(`part${i}`)}`);
    return sql.join(parts, sql` union all `);
  }

  *areFew(filter: TaskFilter, most: number): Program<boolean> {
    const found = this.#found(filter, most);
    if (!found) return false;
    const [row] = yield* rowsOnce(sql`select count(*) from (${found}) as found`);
    return Number(row?.[0]) <= most;
  }

  *listFew(
    filter: TaskFilter,
    limit: number,
    after: number | undefined,
    most: number,
    characters: number,
  ): Program<TaskBeginning[]> {
    const where = sql`${this.#isAmong(filter, most)} and ${this.#within({ after, from: undefined })}`;
    return yield* this.#list(where, limit, characters);
  }

  countFew(filter: TaskFilter, most: number): Program<number> {
    return this.#count(this.#isAmong(filter, most));
  }

  countRange(filter: TaskFilter, range: IdRange): Program<number> {
    return this.#count(this.#isInRange(filter, range));
  }

  *#count(where: SQL): Program<number> {
    const [row] = yield* rowsOnce(sql`select count(*) from dbq_tasks where ${where}`);
    return Number(row?.[0] ?? 0);
  }

  #isAmong(filter: TaskFilter, most: number): SQL {
    const found = this.#found(filter, most) ?? sql.raw("select id from dbq_tasks where 1 = 0");
    return sql`id in (select id from (${found}) as found) and ${this.#queries.matching(filter)}`;
  }

  #isInRange(filter: TaskFilter, range: IdRange): SQL {
    return sql`${this.#within(range)} and ${this.#queries.matchingInRange(filter)}`;
  }

  *span(after: number | undefined, most: number): Program<{ rows: number; from: number | null }> {
    const [row] = yield* rowsOnce(sql`
      select count(*), min(id) from (select id from dbq_tasks where ${this.#within({ after, from: undefined })}
        order by id desc limit ${most}) as next`);
    const [found, from] = row ?? [];
    return { rows: Number(found ?? 0), from: from === null || from === undefined ? null : Number(from) };
  }

  listRange(filter: TaskFilter, limit: number, range: IdRange, characters: number): Program<TaskBeginning[]> {
    return this.#list(this.#isInRange(filter, range), limit, characters);
  }

  *#list(where: SQL, limit: number, characters: number): Program<TaskBeginning[]> {
    const found = yield* rowsOnce(sql`
      select ${beginningColumns(this.#d, characters)} from dbq_tasks
      where ${where} order by id desc limit ${limit}`);
    return found.map((row) => toTaskBeginning(row, characters));
  }

  *list(
    filter: TaskFilter,
    limit: number,
    after: number | undefined,
    characters: number,
  ): Program<TaskBeginning[]> {
    const found = yield* rowsOnce(this.#queries.list(filter, limit, after, characters));
    return found.map((row) => toTaskBeginning(row, characters));
  }

  *get(ids: readonly number[], characters: number): Program<TaskBeginning[]> {
    const d = this.#d;
    const found = yield* rowsOnce(sql`
      select ${beginningColumns(d, characters, true)} from dbq_tasks where ${d.among("id", JSON.stringify(ids))}`);
    return found.map((row) => toTaskBeginning(row, characters));
  }

  *texts(filter: TaskFilter, characters: number, range: IdRange): Program<{ id: number; text: string }[]> {
    const [d, length] = [this.#d, sql.raw(String(characters))];
    // Named: some drivers give a row as an object, which has one value for each name.
    const columns = ["args", "kwargs", "error"].map(
      (name) =>
        sql`coalesce(substr(${d.text(sql.raw(name))}, 1, ${length}), '') as ${sql.raw(`${name}_text`)}`,
    );
    const found = yield* rowsOnce(sql`
      select id, ${sql.join(columns, sql`, `)} from dbq_tasks
      where ${this.#isInRange(filter, range)} order by id desc`);
    return found.map(([id, ...texts]) => ({ id: int(id), text: texts.map(String).join("\n") }));
  }

  #within({ after, from }: IdRange): SQL {
    const terms = [sql`1 = 1`];
    if (after !== undefined) terms.push(sql`id < ${after}`);
    if (from !== undefined) terms.push(sql`id >= ${from}`);
    return sql.join(terms, sql` and `);
  }

  // ---- act -----------------------------------------------------------------------------------

  edit(id: number, change: TaskEdit, expected: number | undefined): Program<Operated> {
    const s = this.#s;
    return this.#tasks.operate(id, function* (task) {
      const { status, generationId, args, kwargs, priority, queueName, waitUntil } = task;
      if (!waitsForStart(status) || isEnding(task)) return "as it is";
      if (expected !== undefined && expected !== generationId) return "as it is";
      if (!mayExpire(task, change)) return "as it is";
      const { waitUntil: asked = waitUntil, expiresIn = null, ...given } = change;
      const expiry = { expiresIn, keepsExpiry: change.expiresIn === undefined ? 1 : 0 };
      const now = { args, kwargs, priority, queueName, ...present(given), ...expiry };
      return (yield* count(s.edit, { id, generationId, ...now, waitUntil: asked })) > 0 ? "changed" : "moved";
    });
  }

  /** Those of these tasks that match: a task may have changed since it was found. */
  *#matching(ids: readonly number[], filter: TaskFilter | undefined): Program<readonly number[]> {
    if (filter === undefined || ids.length === 0) return ids;
    const found = yield* rowsOnce(sql`
      select id from dbq_tasks
      where ${this.#d.among("id", JSON.stringify(ids))} and ${this.#queries.matching(filter)}`);
    const matching = new Set(found.map(([id]) => Number(id)));
    return ids.filter((id) => matching.has(id));
  }

  *editEach(ids: readonly number[], change: TaskEdit, still?: TaskFilter): Program<number[]> {
    const changed: number[] = [];
    for (const id of yield* this.#matching(ids, still)) {
      const operated = yield* this.edit(id, change, undefined);
      if (operated?.changed) changed.push(id);
    }
    return changed;
  }

  *retryEach(ids: readonly number[], still?: TaskFilter): Program<number[]> {
    return yield* this.#tasks.retryEach(yield* this.#matching(ids, still));
  }

  *cancelEach(ids: readonly number[], error: string, still?: TaskFilter): Program<number[]> {
    return yield* this.#tasks.cancelEach(yield* this.#matching(ids, still), error);
  }

  /** The rows are locked first: what matches then does not change before it is deleted. */
  *deleteEach(ids: readonly number[], still?: TaskFilter): Program<number[]> {
    const locked = yield* rows(this.#s.deletable, { ids: JSON.stringify(ids) });
    const deletable = yield* this.#matching(
      locked.map(([id]) => Number(id)),
      still,
    );
    return yield* this.#maintenance.removed(deletable.map((id) => [id]));
  }

  // ---- what was done -------------------------------------------------------------------------

  *audit(entry: Parameters<LookStore["audit"]>[0]): Program<void> {
    yield* count(this.#s.audit, { ...entry });
  }

  /** Keeps an action, or adds to the row that keeps it. @returns the id of the row */
  *keep(row: number | undefined, entry: Parameters<LookStore["audit"]>[0]): Program<number | undefined> {
    if (row === undefined) return Number(yield* insertedId(this.#s.audit, { ...entry }));
    yield* count(this.#s.auditMore, { id: row, count: entry.count });
    return row;
  }

  *audits(target: string | undefined, limit: number): Program<AuditEntry[]> {
    const statement = target === undefined ? this.#s.audits : this.#s.auditsOf;
    return (yield* rows(statement, { target, limit })).map(toAuditEntry);
  }

  *pruneAudits(age: number, limit: number): Program<number> {
    const found = yield* rows(this.#s.oldAudits, { age, limit });
    if (found.length === 0) return 0;
    return yield* count(this.#s.deleteAudits, { ids: JSON.stringify(found.map(([id]) => int(id))) });
  }
}

export function lookMethods({ run, write }: Runner, ops: LookOperations, batches: Batches): LookStore {
  return {
    areFew: (filter, most) => run(() => ops.areFew(filter, most)),
    listFew: (filter, limit, after, most, characters) =>
      run(() => ops.listFew(filter, limit, after, most, characters)),
    countFew: (filter, most) => run(() => ops.countFew(filter, most)),
    countRange: (filter, range) => run(() => ops.countRange(filter, range)),
    span: (after, rows) => run(() => ops.span(after, rows)),
    listRange: (filter, limit, range, characters) =>
      run(() => ops.listRange(filter, limit, range, characters)),
    list: (filter, limit, after, characters) => run(() => ops.list(filter, limit, after, characters)),
    get: (ids, characters) => run(() => ops.get(ids, characters)),
    texts: (filter, characters, range) => run(() => ops.texts(filter, characters, range)),
    edit: (id, change, generationId) => write(() => ops.edit(id, change, generationId)),
    editEach: (ids, change, still) => write(() => ops.editEach(ids, change, still)),
    retryEach: (ids, still) => write(() => ops.retryEach(ids, still)),
    cancelEach: (ids, error, still) => write(() => ops.cancelEach(ids, error, still)),
    deleteEach: (ids, onKept, still) =>
      batches.each(ids, (some) => write(() => ops.deleteEach(some, still)), onKept),
    audit: (entry) => write(() => ops.audit(entry)),
    audits: (target, limit) => run(() => ops.audits(target, limit)),
    pruneAudits: (age, limit) => write(() => ops.pruneAudits(age, limit)),
  };
}
