/**
 * Every statement, once, for each database. A statement is a function from its parameters to SQL: with
 * placeholders it is compiled once and prepared; with values it runs inside a transaction of the app's.
 *
 * The text of each `status = '…'` is that of the partial index which it is meant to use.
 */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { PurgeFilter, TaskFilter } from "../store.ts";
import type { Dialect } from "./dialect.ts";
import {
  attemptColumns,
  candidateColumns,
  countColumns,
  heldColumns,
  standingColumns,
  taskColumns,
  workerColumns,
} from "./rows.ts";

export type Params = Readonly<Record<string, unknown>>;
export type Statement = (p: Params) => SQL;

const columns = {
  task: sql.raw(taskColumns),
  candidate: sql.raw(candidateColumns),
  held: sql.raw(heldColumns),
  standing: sql.raw(standingColumns),
  attempt: sql.raw(attemptColumns),
  worker: sql.raw(workerColumns),
  count: sql.raw(countColumns),
};

const unfinished = sql.raw("status in ('pending', 'scheduled', 'running')");

export function statements(d: Dialect) {
  const held = (p: Params) => sql`id = ${p.id} and generation_id = ${p.generationId}`;

  return {
    insert: (p) => sql`
      insert into dbq_tasks (func, args, kwargs, meta, priority, queue_name, max_retries, timeout, request_id,
        unique_key, created_at, updated_at, wait_until, status)
      values (${p.func}, ${p.args}, ${p.kwargs}, ${p.meta}, ${p.priority}, ${p.queueName}, ${p.maxRetries},
        ${p.timeout}, ${p.requestId}, ${p.uniqueKey},
        ${d.now(p)}, ${d.now(p)}, coalesce(${d.integer(p.waitUntil)}, ${d.now(p)} + ${d.integer(p.delay)}),
        case when coalesce(${d.integer(p.waitUntil)}, ${d.now(p)} + ${d.integer(p.delay)}) > ${d.now(p)} then 'scheduled' else 'pending' end)
      ${d.ignoreConflict}`,

    holder: (p) => sql`
      select id from dbq_tasks where unique_key = ${p.uniqueKey} and ${unfinished}`,

    get: (p) => sql`
      select ${columns.task} from dbq_tasks where id in ${d.integers(p.ids)}`,

    attempts: (p) => sql`
      select ${columns.attempt} from dbq_attempts where task_id = ${p.taskId} order by id`,

    claim: (p) => sql`
      update dbq_tasks
      set status = 'running', generation_id = generation_id + 1, worker_id = ${p.workerId},
        started_at = ${p.startedAt}, updated_at = ${p.startedAt}, progress = null, progress_note = null
      where ${held(p)} and status = 'pending'`,

    complete: (p) => sql`
      update dbq_tasks
      set status = 'completed', generation_id = generation_id + 1, result = ${p.result}, error = null,
        updated_at = ${d.now(p)}, finished_at = ${d.now(p)}
      where ${held(p)}`,

    finish: (p) => sql`
      update dbq_tasks
      set status = ${p.status}, generation_id = generation_id + 1, result = ${p.result}, error = ${p.error},
        updated_at = ${d.now(p)}, finished_at = ${d.now(p)}
      where ${held(p)}`,

    /** Back to pending or scheduled; no delay means at once. */
    release: (p) => sql`
      update dbq_tasks
      set status = ${p.status}, generation_id = generation_id + 1, error = coalesce(${p.error}, error),
        retry_count = retry_count + ${d.integer(p.charge)}, wait_until = ${d.now(p)} + ${d.integer(p.delay)}, updated_at = ${d.now(p)}
      where ${held(p)}`,

    reset: (p) => sql`
      update dbq_tasks
      set status = 'pending', generation_id = generation_id + 1, result = null, error = null, retry_count = 0,
        wait_until = null, started_at = null, finished_at = null, progress = null, progress_note = null,
        updated_at = ${d.now(p)}
      where ${held(p)}`,

    recordAttempt: (p) => sql`
      insert into dbq_attempts (task_id, generation_id, worker_id, started_at, outcome, error_name, error_message,
        error_stack)
      values (${p.id}, ${p.generationId}, ${p.workerId}, ${p.startedAt}, ${p.outcome}, ${p.errorName},
        ${p.errorMessage}, ${p.errorStack})`,

    /** With each id that was asked for; of a task that is gone, nothing else. */
    ended: (p) => sql`
      select asked.value, ${columns.task} from ${d.integers(p.ids)} as asked
      left join dbq_tasks on id = asked.value
      where id is null or status in ('completed', 'failed', 'cancelled')`,

    standings: (p) => sql`
      select ${columns.standing} from dbq_tasks where id in ${d.integers(p.ids)}`,

    busy: (p) => sql`
      select 1 where exists (select 1 from dbq_tasks where queue_name = ${p.queueName} and status = 'pending')
        or exists (select 1 from dbq_tasks where queue_name = ${p.queueName} and status = 'running')`,

    noteProgress: (p) => sql`
      update dbq_tasks set progress = ${p.progress}, progress_note = ${p.note}, updated_at = ${d.now(p)}
      where ${held(p)} and status = 'running'`,

    due: (p) => sql`
      select ${columns.held} from dbq_tasks where status = 'scheduled' and wait_until <= ${d.now(p)}
      order by wait_until ${d.atMost(p.limit)} ${d.skipLocked}`,

    /** Inserted from elsewhere without a moment to wait for: due at once. */
    dueAnyway: (p) => sql`
      select ${columns.held} from dbq_tasks where status = 'scheduled' and wait_until is null ${d.atMost(p.limit)}`,

    nextDue: (p) => sql`
      select case when exists (select 1 from dbq_tasks where status = 'scheduled' and wait_until is null) then 0
        else (select min(wait_until) from dbq_tasks where status = 'scheduled') - ${d.now(p)} end`,

    promote: (p) => sql`
      update dbq_tasks set status = 'pending', generation_id = generation_id + 1, updated_at = ${d.now(p)}
      where ${held(p)} and status = 'scheduled'`,

    expired: (p) => sql`
      select id from dbq_tasks where status = ${p.status} and finished_at < ${d.now(p)} - ${d.integer(p.age)} ${d.atMost(p.limit)}`,

    deleteTasks: (p) => sql`
      delete from dbq_tasks where id in ${d.integers(p.ids)}`,

    deleteAttempts: (p) => sql`
      delete from dbq_attempts where task_id in ${d.integers(p.ids)}`,

    register: (p) => sql`
      insert into dbq_workers (id, queue_names, concurrency, lease, host, boot_id, pid_namespace, pid, process_start,
        beat)
      values (${p.id}, ${p.queueNames}, ${p.concurrency}, ${p.lease}, ${p.host}, ${p.bootId}, ${p.pidNamespace},
        ${p.pid}, ${p.processStart}, ${p.beat})`,

    beat: (p) => sql`
      update dbq_workers set heartbeat_at = ${d.now(p)}, beat = beat + 1 where id = ${p.workerId}`,

    worker: (p) => sql`
      select ${d.now(p)} from dbq_workers where id = ${p.workerId}`,

    workers: (p) => sql`
      select ${columns.worker}, ${d.now(p)} - heartbeat_at from dbq_workers order by started_at, id`,

    removeWorker: (p) => sql`
      delete from dbq_workers where id = ${p.workerId}`,

    /** Fenced: a worker that has beaten since it was looked at is alive. */
    removeDeadWorker: (p) => sql`
      delete from dbq_workers where id = ${p.workerId} and beat = ${p.beat}`,

    heldBy: (p) => sql`
      select ${columns.task} from dbq_tasks where status = 'running' and worker_id = ${p.workerId}`,

    orphans: (p) => sql`
      select ${columns.task} from dbq_tasks
      where status = 'running' and coalesce(started_at, updated_at) < ${d.now(p)} - ${d.integer(p.age)}
        and not exists (select 1 from dbq_workers where dbq_workers.id = dbq_tasks.worker_id)
      ${d.atMost(p.limit)}`,
  } satisfies Record<string, Statement>;
}

export type Statements = ReturnType<typeof statements>;

/** The names of a probe's parameters: its queue and its function. */
export const probeNames = (i: number) => [`queue${i}`, `func${i}`] as const;

/**
 * What may be claimed of so many pairs of a queue and a function, highest priority first, then oldest. Each pair is a
 * probe of its own into the index that begins with both, so that a backlog of other functions costs nothing; SQLite
 * merges them as it reads, and stops at the limit. A row inserted from elsewhere may be pending before its time.
 */
export function claimable(d: Dialect): (probes: number) => Statement {
  const made = new Map<number, Statement>();
  const probe = (p: Params, i: number) => {
    const [queue, func] = probeNames(i);
    return sql`select ${columns.candidate} from dbq_tasks
      where queue_name = ${p[queue]} and func = ${p[func]} and status = 'pending'
        and (wait_until is null or wait_until <= ${d.now(p)})`;
  };
  const make = (probes: number): Statement => {
    const all = Array.from({ length: probes }, (_, i) => i);
    return (p) => sql`
      ${sql.join(
        all.map((i) => probe(p, i)),
        sql` union all `,
      )}
      order by priority desc, id ${d.atMost(p.limit)}`;
  };
  return (probes) => {
    const statement = made.get(probes) ?? make(probes);
    made.set(probes, statement);
    return statement;
  };
}

/** Questions whose text depends on what is asked: compiled at each call, never on a hot path. */
export function queries(d: Dialect) {
  const matching = (filter: TaskFilter): SQL => {
    const terms: SQL[] = [sql`1 = 1`];
    // Written out: a partial index cannot be used for a parameter. They are statuses, nothing that a user wrote.
    if (filter.status)
      terms.push(sql.raw(`status in (${filter.status.map((status) => `'${status}'`).join(", ")})`));
    if (filter.func !== undefined) terms.push(sql`func = ${filter.func}`);
    if (filter.queueName !== undefined) terms.push(sql`queue_name = ${filter.queueName}`);
    if (filter.requestId !== undefined) terms.push(sql`request_id = ${filter.requestId}`);
    for (const [key, value] of Object.entries(filter.meta ?? {})) terms.push(d.metaHas(key, value));
    return sql.join(terms, sql` and `);
  };

  return {
    list: (filter: TaskFilter, limit: number, after: number | undefined) => sql`
      select ${columns.task} from dbq_tasks where ${matching(filter)} ${after === undefined ? sql`` : sql`and id < ${after}`}
      order by id desc limit ${limit}`,

    count: (filter: TaskFilter) => sql`
      select ${columns.count} from dbq_tasks where ${matching(filter)}
      group by queue_name, func, status order by queue_name, func, status`,

    /** With whether the filter names them: a look at so many takes the same time, however few it names. */
    purgeable: (filter: PurgeFilter, limit: number, after: number) => sql`
      select id, case when ${matching({ func: filter.func, queueName: filter.queueName })}
        ${filter.includeRunning ? sql`` : sql`and status <> 'running'`} then 1 else 0 end
      from dbq_tasks where id > ${after} order by id limit ${limit}`,
  };
}
