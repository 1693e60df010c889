/**
 * Every statement, once, for each database. A statement is a function from its parameters to SQL: with
 * placeholders it is compiled once and prepared; on a server, a change of one row is one of many too: then its parameters
 * are the columns of a list.
 *
 * The text of each `status = '…'` is that of the partial index which it is meant to use.
 */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { itemTypeOf, listed } from "./columns.ts";
import type { Dialect, ItemColumn } from "./dialect.ts";
import {
  attemptColumns,
  candidateColumns,
  taskColumns,
  taskStateColumns,
  taskVersionColumns,
  workerColumns,
} from "./rows.ts";
import { isFinished, isUnfinished } from "./statuses.ts";

export type Params = Readonly<Record<string, unknown>>;

/** The places in an UPDATE of many rows where the list of their parameters may stand. */
export interface Items {
  beforeTable: SQL;
  afterTable: SQL;
  afterSet: SQL;
}

export type Statement = (p: Params, items?: Items) => SQL;

export function itemColumns(names: readonly string[]): ItemColumn[] {
  return names.map((name) => ({ name, column: `item_${name}`, type: itemTypeOf(name) }));
}

/** A parameter in a change of many rows. */
export const itemOf = (name: string): SQL => sql`item.${sql.identifier(`item_${name}`)}`;

/** Of a statement over one row, and of one that nobody runs. */
export const oneRow: Items = {
  beforeTable: sql.raw(""),
  afterTable: sql.raw(""),
  afterSet: sql.raw(""),
};

const [finished, unfinished] = [sql.raw(isFinished), sql.raw(isUnfinished)];

const held = (d: Dialect, p: Params) =>
  sql`dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId}`;

/** Not `status = `: a row is found by its id, and not by a walk through an index of all that have this status. */
const still = (status: string) => sql.raw(`and coalesce(status, '') = '${status}'`);

/** A state change: it names the generation that was read, and adds one to it. */
const changes =
  (d: Dialect) =>
  (set: (p: Params) => SQL, and: SQL = sql.raw("")): Statement =>
  (p, { beforeTable, afterTable, afterSet } = oneRow) =>
    sql`
      update ${beforeTable} dbq_tasks ${afterTable} set generation_id = generation_id + 1, ${set(p)} ${afterSet} where ${held(d, p)} ${and}`;

const insertInto = sql.raw(`
      insert into dbq_tasks (func, args, kwargs, meta, priority, queue_name, max_retries, timeout, request_id,
        unique_key, created_at, updated_at, wait_until, status)`);

/** What a new task has in these columns. */
function newRow(d: Dialect, p: Params): SQL {
  const now = d.now(p);
  const due = sql`coalesce(${d.time(d.integer(p.waitUntil))}, ${d.plus(now, d.integer(p.delay))})`;
  return sql`
      ${p.func}, ${d.json(p.args)}, ${d.json(p.kwargs)}, ${d.json(p.meta)}, ${d.integer(p.priority)}, ${p.queueName},
        ${d.integer(p.maxRetries)}, ${d.integer(p.timeout)}, ${p.requestId}, ${p.uniqueKey}, ${now}, ${now}, ${due},
        case when ${due} > ${now} then 'scheduled' else 'pending' end`;
}

export function statements(d: Dialect) {
  const columns = {
    task: listed(d, "dbq_tasks", taskColumns),
    held: listed(d, "dbq_tasks", taskVersionColumns),
    standing: listed(d, "dbq_tasks", taskStateColumns),
    attempt: listed(d, "dbq_attempts", attemptColumns),
    worker: listed(d, "dbq_workers", workerColumns),
    candidate: listed(d, "dbq_tasks", candidateColumns),
  };
  const change = changes(d);
  const before = (p: Params, age: unknown) => d.plus(d.now(p), sql`-${d.integer(age)}`);
  const heldBy: Statement = (p) => sql`
      select ${columns.task} from dbq_tasks where status = 'running' and worker_id = ${p.workerId}`;
  const dueNow = (p: Params) => sql`(wait_until is null or wait_until <= ${d.now(p)})`;

  return {
    /** Many go from their list in its order, and so do their ids. */
    insert: (p, many) =>
      many === undefined
        ? sql`${insertInto} values (${newRow(d, p)}) ${d.ignoreConflict}`
        : sql`${insertInto} select ${newRow(d, p)} ${many.afterSet}`,

    holder: (p) => sql`
      select id from dbq_tasks where ${d.same("unique_key", p.uniqueKey)} and ${unfinished}`,

    /** As it is now, and not as it was when the transaction began. */
    holderNow: (p) => sql`
      select id from dbq_tasks where ${d.same("unique_key", p.uniqueKey)} and ${unfinished} ${d.shared}`,

    get: (p) => sql`
      select ${columns.task} from dbq_tasks where ${d.among("id", p.ids)}`,

    attempts: (p) => sql`
      select ${columns.attempt} from dbq_attempts where task_id = ${p.taskId} order by generation_id, id`,

    /** Candidates of one queue and one function, which nobody else can claim until this transaction ends. */
    lock: (p) => sql`
      select ${columns.candidate} from dbq_tasks
      where ${d.same("queue_name", p.queueName)} and ${d.same("func", p.func)} and status = 'pending' and ${dueNow(p)}
      order by ${d.byPriority} ${d.atMost(p.limit)} ${d.skipLocked}`,

    claim: change((p) => {
      const startedAt = d.time(p.startedAt);
      return sql`status = 'running', worker_id = ${p.workerId}, started_at = ${startedAt}, updated_at = ${startedAt},
        progress = null, progress_note = null`;
    }, still("pending")),

    complete: change(
      (p) => sql`status = 'completed', result = ${d.json(p.result)}, error = null,
        updated_at = ${d.now(p)}, finished_at = ${d.now(p)}`,
    ),

    finish: change(
      (p) => sql`status = ${p.status}, result = ${d.json(p.result)}, error = ${d.json(p.error)},
        updated_at = ${d.now(p)}, finished_at = ${d.now(p)}`,
    ),

    /** Back to pending or scheduled; no delay means at once. */
    release: change(
      (p) => sql`status = ${p.status}, error = coalesce(${d.json(p.error)}, error),
        retry_count = retry_count + ${d.integer(p.charge)}, wait_until = ${d.plus(d.now(p), d.integer(p.delay))},
        updated_at = ${d.now(p)}`,
    ),

    reset: change(
      (p) => sql`status = 'pending', result = null, error = null, retry_count = 0, wait_until = null,
        started_at = null, finished_at = null, progress = null, progress_note = null, updated_at = ${d.now(p)}`,
    ),

    promote: change((p) => sql`status = 'pending', updated_at = ${d.now(p)}`, still("scheduled")),

    /** Not a state change: the generation stays. */
    noteProgress: (p, { beforeTable, afterTable, afterSet } = oneRow) => sql`
      update ${beforeTable} dbq_tasks ${afterTable} set progress = ${p.progress}, progress_note = ${p.note}, updated_at = ${d.now(p)} ${afterSet}
      where ${held(d, p)} ${still("running")}`,

    recordAttempt: (p, many) => {
      const row = sql`${p.id}, ${p.generationId}, ${p.workerId}, ${d.time(p.startedAt)}, ${p.outcome}, ${p.errorName},
        ${p.errorMessage}, ${p.errorStack}`;
      return sql`
      insert into dbq_attempts (task_id, generation_id, worker_id, started_at, outcome, error_name, error_message,
        error_stack) ${many === undefined ? sql`values (${row})` : sql`select ${row} ${many.afterSet}`}`;
    },

    /** With each id that was asked for; of a task that is gone, nothing else. */
    ended: (p) => sql`
      select asked.value, ${columns.task} from ${d.integers(p.ids)} as asked
      left join dbq_tasks on id = ${d.only(sql.raw("asked.value"))}
      where id is null or ${finished}`,

    standings: (p) => sql`
      select ${columns.standing} from dbq_tasks where ${d.among("id", p.ids)}`,

    busy: (p) => sql`
      select 1 where (select 1 from dbq_tasks where ${d.same("queue_name", p.queueName)} and status = 'pending' order by func limit 1) is not null
        or (select 1 from dbq_tasks where ${d.same("queue_name", p.queueName)} and status = 'running' order by worker_id limit 1) is not null`,

    due: (p) => sql`
      select ${columns.held} from dbq_tasks where status = 'scheduled' and wait_until <= ${d.now(p)}
      order by wait_until ${d.atMost(p.limit)} ${d.skipLocked}`,

    /** Inserted from elsewhere without a moment to wait for: due at once. */
    dueAnyway: (p) => sql`
      select ${columns.held} from dbq_tasks where status = 'scheduled' and wait_until is null
      ${d.atMost(p.limit)} ${d.skipLocked}`,

    nextDue: (p) => sql`
      select case when (select 1 from dbq_tasks where status = 'scheduled' and wait_until is null order by wait_until limit 1) is not null then 0
        else (select ${d.minus(sql.raw("wait_until"), d.now(p))} from dbq_tasks where status = 'scheduled' and wait_until is not null order by wait_until limit 1) end`,

    expired: (p) => sql`
      select id from dbq_tasks where status = ${p.status} and finished_at < ${before(p, p.age)}
      ${d.atMost(p.limit)} ${d.skipLocked}`,

    deleteTasks: (p) => sql`
      delete from dbq_tasks where ${d.among("id", p.ids)}`,

    deleteAttempts: (p) => sql`
      delete from dbq_attempts where ${d.among("task_id", p.ids)}`,

    register: (p) => sql`
      insert into dbq_workers (id, queue_names, concurrency, lease, host, boot_id, pid_namespace, pid, process_start,
        beat)
      values (${p.id}, ${p.queueNames}, ${p.concurrency}, ${p.lease}, ${p.host}, ${p.bootId}, ${p.pidNamespace},
        ${p.pid}, ${p.processStart}, ${p.beat})`,

    beat: (p) => sql`
      update dbq_workers set heartbeat_at = ${d.now(p)}, beat = beat + 1 where id = ${p.workerId}`,

    /** `session`: what it holds; null where it beats on a connection that others share. */
    beatInSession: (p) => sql`
      update dbq_workers set heartbeat_at = ${d.now(p)}, beat = beat + 1, session = ${p.session}
      where id = ${p.workerId}`,

    /** Whoever claims must not be declared dead at the same moment: what it claims then would not be freed. */
    worker: (p) => sql`
      select ${d.millis(d.now(p))} from dbq_workers where id = ${p.workerId} ${d.shared}`,

    workers: (p) => sql`
      select ${columns.worker}, ${d.minus(d.now(p), sql`heartbeat_at`)}, ${d.sessionLives}
      from dbq_workers order by started_at, id`,

    removeWorker: (p) => sql`
      delete from dbq_workers where id = ${p.workerId}`,

    /**
     * No row when the worker has beaten since it was looked at, or when another transaction has its row. While this
     * transaction has it, the worker cannot claim.
     */
    lockDeadWorker: (p) => sql`
      select 1 from dbq_workers where id = ${p.workerId} and beat = ${p.beat} ${d.skipLocked}`,

    unlockedDeadWorker: (p) => sql`
      select 1 from dbq_workers where id = ${p.workerId} and beat = ${p.beat}`,

    heldBy,

    lockHeldBy: (p) => sql`${heldBy(p)} ${d.skipLocked}`,

    orphans: (p) => sql`
      select ${columns.task} from dbq_tasks
      where status = 'running' and coalesce(started_at, updated_at) < ${before(p, p.age)}
        and not exists (select 1 from dbq_workers where dbq_workers.id = dbq_tasks.worker_id)
      ${d.atMost(p.limit)} ${d.skipLocked}`,
  } satisfies Record<string, Statement>;
}

export type Statements = ReturnType<typeof statements>;
