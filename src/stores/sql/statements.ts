/**
 * The statements, each written once for all databases. A statement is a function from its parameters to SQL. With
 * placeholders as parameters it is compiled once and prepared. With the columns of a list as parameters, a change of one
 * row becomes a change of many rows.
 *
 * Each `status = '…'` has the same text as the partial index that the statement is meant to use.
 */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { sentOwner } from "../../base/tasks/drained.ts";
import { longestLine } from "../../base/tasks/history.ts";
import type { TaskStatus } from "../../task.ts";
import { itemTypeOf, listed } from "./columns.ts";
import type { Dialect, ItemColumn, Items, Params } from "./dialect.ts";
import { hasNumber } from "./exact-ids.ts";
import {
  attemptColumns,
  candidateColumns,
  logColumns,
  taskColumns,
  taskProgressColumns,
  taskStateColumns,
  taskVersionColumns,
  workerColumns,
} from "./rows.ts";
import { isFinished, isUnfinished } from "./statuses.ts";

/**
 * Characters of an attempt's error that are read. dbq stores fewer; other programs, and agents of earlier versions, may have written
 * rows of any length, and a task may have thousands of attempts.
 */
const longestErrors = { error_name: 1_000, error_message: 12_000, error_stack: 24_000, error_cause: 100_000 };

export type Statement = (p: Params, items?: Items) => SQL;

/** Asks the clock of the database, in milliseconds since 1970. */
export const clockOf =
  (d: Dialect): Statement =>
  (p) =>
    sql`select ${d.millis(d.now(p))}`;

export function itemColumns(names: readonly string[]): ItemColumn[] {
  return names.map((name) => ({ name, column: `item_${name}`, type: itemTypeOf(name) }));
}

/** A parameter of a batch: a column of its list. */
export const itemOf = (name: string): SQL => sql`item.${sql.identifier(`item_${name}`)}`;

/** A statement about one row has no list. */
export const oneRow: Items = {
  beforeTable: sql.raw(""),
  afterTable: sql.raw(""),
  afterSet: sql.raw(""),
};

const sent = sql.raw(`'${sentOwner}'`);

const finished = sql.raw(isFinished);

/** A row at the generation that was read. */
export const held = (d: Dialect, p: Params, isOne = sql`dbq_tasks.id = ${d.only(p.id)}`) =>
  sql`${isOne} and generation_id = ${p.generationId}`;

/** Not `status =`: the row is to be found by its id, not by walking the index of all tasks in this status. */
export const still = (status: TaskStatus) => sql.raw(`and coalesce(status, '') = '${status}'`);

/** A state change: an UPDATE that names the generation that was read, and adds one to it. */
export const stateChange =
  (d: Dialect) =>
  (set: (p: Params) => SQL, and: SQL = sql.raw("")): Statement =>
  (p, { beforeTable, afterTable, afterSet, isOne } = oneRow) =>
    sql`
      update ${beforeTable} ${d.tasks} ${afterTable} set generation_id = generation_id + 1, ${set(p)} ${afterSet}
      where ${held(d, p, isOne)} ${and}`;

export const isDue = (d: Dialect, p: Params) => sql`(wait_until is null or wait_until <= ${d.now(p)})`;

/** Tasks of one queue and function that a claim may take. A row that another client inserted may be pending before its time. */
export const claimable = (
  d: Dialect,
  p: Params,
  queueName: unknown,
  func: unknown,
) => sql`${d.same("queue_name", queueName)} and ${d.same("func", func)}
        and status = 'pending' and ${isDue(d, p)} and ${hasNumber}`;

/** The time `age` milliseconds ago. */
export const before = (d: Dialect, p: Params) => d.plus(d.now(p), sql`-${d.integer(p.age)}`);

/** The columns of a task without options, and their values. Each column more costs such a task 1 to 2 % of its insert. */
const plainColumns = sql.raw("func, args, priority, queue_name, max_retries, created_at, updated_at");

const plainRow = (d: Dialect, p: Params) => sql`
      ${p.func}, ${d.json(p.args)}, ${d.integer(p.priority)}, ${p.queueName}, ${d.integer(p.maxRetries)},
        ${d.now(p)}, ${d.now(p)}`;

type Columns = Readonly<Record<string, SQL>>;

/** All columns that an enqueue sets but the key, and their values. `due`: when the task is due; null: now. */
function newRow(d: Dialect, p: Params, due: SQL): Columns {
  const now = d.now(p);
  return {
    func: sql`${p.func}`,
    args: d.json(p.args),
    kwargs: d.json(p.kwargs),
    meta: d.json(p.meta),
    priority: d.integer(p.priority),
    queue_name: sql`${p.queueName}`,
    max_retries: d.integer(p.maxRetries),
    timeout: d.integer(p.timeout),
    expires_at: d.plus(d.now(p), d.integer(p.expiresIn)),
    request_id: sql`${p.requestId}`,
    fill_defaults: d.integer(p.fillDefaults),
    trace_context: sql`${p.traceContext}`,
    group_key: sql`${p.groupKey}`,
    updated_at: now,
    wait_until: due,
    status: sql`case when ${due} > ${now} then 'scheduled' else 'pending' end`,
  };
}

const dueOf = (d: Dialect, p: Params) =>
  sql`coalesce(${d.time(d.integer(p.waitUntil))}, ${d.plus(d.now(p), d.integer(p.delay))})`;

/** How a task holds its key: `Uniqueness` in `store.ts`. */
const keyColumns = (d: Dialect, p: Params): Columns => ({
  unique_until: d.plus(d.now(p), d.integer(p.uniqueFor)),
  start_key: sql`${p.startKey}`,
});

const createdRow = (d: Dialect, p: Params): Columns => ({
  ...newRow(d, p, dueOf(d, p)),
  created_at: d.now(p),
  parent_id: d.integer(p.parentId),
  root_id: d.integer(p.rootId),
});

const listOf = (parts: readonly SQL[]) => sql.join([...parts], sql`, `);
const namesOf = (columns: Columns) => sql.raw(Object.keys(columns).join(", "));

/** In a batch, ids are in the order of the list. */
const inserts =
  (columns: SQL, values: (p: Params) => SQL): Statement =>
  (p, many) =>
    many === undefined
      ? sql`insert into dbq_tasks (${columns}) values (${values(p)})`
      : sql`insert into dbq_tasks (${columns}) select ${values(p)} ${many.afterSet}`;

/** Whether a task holds its key for no other reason than its `unique_until`, and that has passed. */
const isLapsed = (d: Dialect, p: Params) =>
  sql`(unique_until is null or unique_until <= ${d.now(p)})
        and (${finished} or (start_key is not null and started_at is not null))`;

/** No worker has ever claimed it, unless before a `retryTask`. */
const neverStarted = sql.raw("started_at is null and coalesce(status, '') in ('pending', 'scheduled')");

/** As `insert`, for tasks that have none of `optionDefaults`. */
const plainInserts = (d: Dialect) => ({
  insertPlain: inserts(plainColumns, (p) => plainRow(d, p)),

  /** For children of a task. */
  insertPlainChild: inserts(
    sql`${plainColumns}, parent_id, root_id`,
    (p) => sql`${plainRow(d, p)}, ${d.integer(p.parentId)}, ${d.integer(p.rootId)}`,
  ),
});

function enqueueStatements(d: Dialect) {
  const holder = (lock: SQL): Statement => {
    return (p) => sql`
      select id, generation_id, case when ${isLapsed(d, p)} then 1 else 0 end as lapsed,
        case when ${neverStarted} then 1 else 0 end as replaceable
      from ${d.tasks} where ${d.holdsKey(p.uniqueKey)} ${lock}`;
  };
  const [created, change] = [createdRow(d, {}), stateChange(d)];
  return {
    /** For tasks without a key: no unique index can refuse them. */
    insert: inserts(namesOf(created), (p) => listOf(Object.values(createdRow(d, p)))),

    ...plainInserts(d),

    insertKeyed: (p) => {
      const row = { ...createdRow(d, p), unique_key: sql`${p.uniqueKey}`, ...keyColumns(d, p) };
      return sql`
      insert into dbq_tasks (${namesOf(row)}) values (${listOf(Object.values(row))}) ${d.ignoreConflict}`;
    },

    /** The arguments of a task that was just inserted. Not a state change: the generation stays. */
    writeTexts: (p, { beforeTable, afterTable, afterSet, isOne } = oneRow) => sql`
      update ${beforeTable} ${d.tasks} ${afterTable} set args = ${d.json(p.args)}, kwargs = ${d.json(p.kwargs)} ${afterSet}
      where ${held(d, p, isOne)}`,

    /** The task that holds a key, whether it has lapsed, and whether another enqueue may replace it. */
    holder: holder(sql.raw("")),

    /** Reads the latest commit, not the snapshot of the transaction. */
    holderNow: holder(d.shared),

    /** The same, for an enqueue that is about to change the holder. */
    lockHolder: holder(d.locked),

    /** Turns a task that was never claimed into what a new enqueue would have written. */
    replace: change((p) => {
      const limit = d.plus(sql.raw("created_at"), d.integer(p.debounceLimit));
      const due = sql`case when ${limit} < ${dueOf(d, p)} then ${limit} else ${dueOf(d, p)} end`;
      const row = { ...newRow(d, p, due), ...keyColumns(d, p), put_off_by: sql.raw("null") };
      return listOf(Object.entries(row).map(([column, value]) => sql`${sql.raw(column)} = ${value}`));
    }, sql`and ${neverStarted}`),

    /** Not a state change: the generation stays. */
    freeKey: (p) => sql`
      update ${d.tasks} set unique_until = null,
        unique_key = case when start_key is null or started_at is null then unique_key end
      where dbq_tasks.id = ${d.only(p.id)} and ${isLapsed(d, p)}`,

    /** The key that a task itself holds or would hold, not the one that it has given up. */
    ownKey: (p) => sql`
      select unique_key from dbq_tasks where id = ${d.only(p.id)}`,

    nextKeys: (p) => sql`
      select id, unique_key, case when ${isLapsed(d, p)} then 1 else 0 end as lapsed from ${d.tasks}
      where ${d.keysAfter(p.after)} ${d.atMost(p.limit)}`,
  } satisfies Record<string, Statement>;
}

function readStatements(d: Dialect) {
  const [task, state] = [
    listed(d, "dbq_tasks", taskColumns, { givenKey: true }),
    listed(d, "dbq_tasks", taskStateColumns),
  ];
  const attempt = listed(d, "dbq_attempts", attemptColumns, { longest: longestErrors });
  return {
    get: (p) => sql`
      select ${task} from dbq_tasks where ${d.among("id", p.ids)}`,

    attempts: (p) => sql`
      select ${attempt} from dbq_attempts where task_id = ${p.taskId} order by generation_id, id`,

    /** The asked id comes first. The columns of a task that does not exist are null. */
    findEnded: (p) => sql`
      select asked.value, ${task} from ${d.integers(p.ids)} as asked
      left join ${d.tasks} on id = ${d.only(sql.raw("asked.value"))}
      where id is null or ${finished}`,

    taskStates: (p) => sql`
      select ${state} from ${d.tasks} where ${d.among("id", p.ids)}`,

    taskProgress: (p) => sql`
      select ${listed(d, "dbq_tasks", taskProgressColumns)} from dbq_tasks where ${d.among("id", p.ids)}`,

    busy: (p) => sql`
      select 1 where (select 1 from ${d.tasks} where ${d.same("queue_name", p.queueName)} and status = 'pending' order by func limit 1) is not null
        or (select 1 from ${d.tasks} where ${d.same("queue_name", p.queueName)} and status = 'running' order by worker_id limit 1) is not null`,
  } satisfies Record<string, Statement>;
}

function claimStatements(d: Dialect) {
  const candidate = listed(d, "dbq_tasks", candidateColumns, { unstarted: true });
  return {
    /**
     * Locks the worker's row, so that a rescue cannot delete it during the claim: it would not free the claimed tasks.
     * Answers with the time of the claim.
     */
    lockWorker: (p) => sql`
      select ${d.millis(d.now(p))}, limits_version from dbq_workers where id = ${p.workerId} ${d.shared}`,

    /** Claims several tasks of one generation. */
    claimAll: (p) => sql`
      update ${d.tasks} set generation_id = generation_id + 1, ${claimed(d, p)}
      where ${d.among("id", p.ids)} and generation_id = ${p.generationId} ${still("pending")}`,

    /** Locks the first tasks of one queue and function that no other transaction has locked. */
    lockFirst: (p) => sql`
      select ${candidate} from ${d.tasks}
      where ${claimable(d, p, p.queueName, p.func)}
      order by ${d.byPriority} ${d.atMost(p.limit)} ${d.skipLocked}`,

    /** Locks those of these tasks that are still pending and that no other transaction has locked. */
    lockThese: (p) => sql`
      select ${candidate} from ${d.tasksWithIds(p.ids)} ${still("pending")} and ${isDue(d, p)}
      ${d.skipLocked}`,
  } satisfies Record<string, Statement>;
}

/** What each claim sets. */
export const claimed = (d: Dialect, p: Params) => {
  const startedAt = d.time(p.startedAt);
  return sql`status = 'running', worker_id = ${p.workerId}, started_at = ${startedAt}, updated_at = ${startedAt},
        progress = null, progress_note = null`;
};

/** The key that a task has after its claim: null where it gives the key up when it starts. */
export const keyAtClaim = (at: SQL) =>
  sql`case when start_key is null or unique_until > ${at} then unique_key end`;

/** A task that may expire has not started yet when its attempt had not begun. */
const released = (d: Dialect, p: Params) =>
  sql`started_at = case when ${d.integer(p.unbegun)} = 1 and expires_at is not null then null else started_at end`;

function transitionStatements(d: Dialect) {
  const change = stateChange(d);
  return {
    claim: change((p) => claimed(d, p), still("pending")),

    /** Of a task with a unique key. */
    claimKeyed: change(
      (p) => sql`${claimed(d, p)}, unique_key = ${keyAtClaim(d.time(p.startedAt))}`,
      still("pending"),
    ),

    complete: change(
      (p) => sql`status = 'completed', result = ${d.json(p.result)}, error = null,
        updated_at = ${d.now(p)}, finished_at = ${d.now(p)}`,
    ),

    /** Without a result, as `failed` or `cancelled`. */
    finish: change(
      (p) => sql`status = ${p.status}, result = null, error = ${d.json(p.error)}, failure = ${p.failure},
        updated_at = ${d.now(p)}, finished_at = ${d.now(p)}, expires_at = null`,
    ),

    /** Back to `pending` or `scheduled`. No delay: due now. */
    release: change(
      (p) => sql`status = ${p.status}, error = coalesce(${d.json(p.error)}, error),
        retry_count = retry_count + ${d.integer(p.charge)}, wait_until = ${d.plus(d.now(p), d.integer(p.delay))},
        ${released(d, p)}, uses = null, put_off_by = null, updated_at = ${d.now(p)}`,
    ),

    reset: change(
      (
        p,
      ) => sql`status = 'pending', result = null, error = null, failure = null, retry_count = 0, wait_until = null, expires_at = null, uses = null, put_off_by = null,
        manual_retries = manual_retries + 1, started_at = null, finished_at = null, progress = null, progress_note = null, updated_at = ${d.now(p)}`,
    ),

    functions: (p) => sql`select id, func from ${d.tasks} where ${d.among("id", p.ids)}`,

    promote: change((p) => sql`status = 'pending', updated_at = ${d.now(p)}`, still("scheduled")),

    /** Not a state change: the generation stays. */
    noteProgress: (p, { beforeTable, afterTable, afterSet, isOne } = oneRow) => sql`
      update ${beforeTable} ${d.tasks} ${afterTable} set progress = ${p.progress}, progress_note = ${p.note}, updated_at = ${d.now(p)} ${afterSet}
      where ${held(d, p, isOne)} ${still("running")}`,

    /** Not a state change: the generation stays. */
    fillDefaults: (p, { beforeTable, afterTable, afterSet, isOne } = oneRow) => sql`
      update ${beforeTable} ${d.tasks} ${afterTable} set max_retries = ${d.integer(p.maxRetries)}, fill_defaults = 0,
        updated_at = ${d.now(p)} ${afterSet}
      where ${held(d, p, isOne)} ${still("running")} and fill_defaults = 1`,

    recordAttempt: (p, many) => {
      const row = sql`${p.id}, ${p.generationId}, ${p.workerId}, ${d.time(p.startedAt)}, ${p.outcome}, ${p.errorName},
        ${p.errorMessage}, ${p.errorStack}, ${p.errorCause}, ${p.failure}, ${d.now(p)}`;
      return sql`
      insert into dbq_attempts (task_id, generation_id, worker_id, started_at, outcome, error_name, error_message,
        error_stack, error_cause, failure, ended_at) ${many === undefined ? sql`values (${row})` : sql`select ${row} ${many.afterSet}`}`;
    },
  } satisfies Record<string, Statement>;
}

function logStatements(d: Dialect) {
  const line = listed(d, "dbq_task_logs", logColumns, { longest: { message: longestLine } });
  const [item, asked] = [
    itemColumns(["id", "generationId", "at", "message", "line"]),
    itemColumns(["id", "after"]),
  ];
  const generation = itemOf("generationId");
  return {
    /** A completed task of the next generation: the attempt has completed it, in its function's own transaction. */
    log: (p) => sql`
      insert into dbq_task_logs (task_id, generation_id, at, message)
      select dbq_tasks.id, ${generation}, ${d.time(itemOf("at"))}, ${itemOf("message")}
      from ${d.objects(p.lines, item)} ${d.joinEach} ${d.tasks}
      where dbq_tasks.id = ${d.only(itemOf("id"))} and (generation_id = ${generation} ${still("running")}
        or generation_id = ${generation} + 1 ${still("completed")})
      order by ${itemOf("line")}`,

    /** Whether some of the lines are there: those of one write are stored together. */
    logged: (p) => sql`
      select 1 from ${d.objects(p.lines, item)} ${d.joinEach} dbq_task_logs
      where task_id = ${d.only(itemOf("id"))} and dbq_task_logs.generation_id = ${generation}
        and dbq_task_logs.at = ${d.time(itemOf("at"))} and dbq_task_logs.message = ${itemOf("message")} limit 1`,

    /** Not `order by id`: with a plan that was made while the table was empty, Postgres would read the lines of all tasks. */
    logs: (p) => sql`
      select ${line} from (
        select dbq_task_logs.* from ${d.objects(p.asked, asked)} ${d.joinEach} dbq_task_logs
        where task_id = ${d.only(itemOf("id"))} and ${d.isLaterLine(itemOf("id"), itemOf("after"))}) as found
      order by id + 0 ${d.atMost(p.limit)}`,

    /** The tasks that have more than `keep` lines. */
    longLogs: (p) => sql`
      select task_id from dbq_task_logs where ${d.among("task_id", p.ids)}
      group by task_id having count(*) > ${d.integer(p.keep)}`,

    newestLines: (p) => sql`
      select id from dbq_task_logs where task_id = ${p.taskId} order by id desc ${d.atMost(p.keep)}`,

    trimLog: (p) => sql`
      delete from dbq_task_logs where task_id = ${p.taskId} and id < ${p.oldest}`,
  } satisfies Record<string, Statement>;
}

/** Whether a task has an expiry, and no attempt of it has started. */
export const mayExpire = (d: Dialect) =>
  sql`${d.indexed.hasExpiry} and status in ('pending', 'scheduled', 'waiting')`;

/** Reads the tasks that are due. @param isAny a further condition for them */
function dueTexts(d: Dialect, isAny: (p: Params) => SQL) {
  const version = listed(d, "dbq_tasks", taskVersionColumns);
  return {
    due: (p) => sql`
      select ${version} from ${d.tasks} where status = 'scheduled' and ${d.indexed.dueAt} <= ${d.now(p)} and ${isAny(p)}
      order by ${d.indexed.dueAt} ${d.atMost(p.limit)} ${d.skipLocked}`,

    /** Rows of other clients may be scheduled without a time: they are due. */
    dueAnyway: (p) => sql`
      select ${version} from ${d.tasks} where status = 'scheduled' and ${d.indexed.hasNoTime} and ${isAny(p)}
      ${d.atMost(p.limit)} ${d.skipLocked}`,
  } satisfies Record<string, Statement>;
}

/** Whether the task is not one that maintenance passes over, since the database refuses to change it. */
export const isNotPassed = (d: Dialect, p: Params) =>
  sql`${hasNumber} and dbq_tasks.id not in ${d.integers(p.passed)}`;

function dueStatements(d: Dialect) {
  const but = dueTexts(d, (p) => isNotPassed(d, p));
  return {
    ...dueTexts(d, () => hasNumber),
    dueBut: but.due,
    dueAnywayBut: but.dueAnyway,

    overdue: (p) => sql`
      select ${listed(d, "dbq_tasks", taskColumns)} from ${d.tasks}
      where ${mayExpire(d)} and ${d.indexed.expiresAt} <= ${d.now(p)} and ${isNotPassed(d, p)}
      order by ${d.indexed.expiresAt} ${d.atMost(p.limit)} ${d.skipLocked}`,
  } satisfies Record<string, Statement>;
}

/** Whether no unfinished task may still ask how this finished one has ended: neither its parent nor the first ancestor. */
export const isNotAskedFor = (d: Dialect): SQL => {
  const isUnfinishedAt = (column: string) => sql`
          exists (select 1 from ${d.tasks} as above where above.id = dbq_tasks.${sql.raw(column)} and above.${sql.raw(isUnfinished)})`;
  return sql`(parent_id is null or not (${isUnfinishedAt("parent_id")} or ${isUnfinishedAt("root_id")}))`;
};

function oldStatements(d: Dialect) {
  const isOld = (p: Params) => sql`${d.indexed.endedAs} = ${p.status} and finished_at < ${before(d, p)}
        and (unique_until is null or unique_until <= ${d.now(p)}) and ${isNotAskedFor(d)} and ${hasNumber}`;
  const oldest = (p: Params, further = sql``) => sql`
      select id, ${d.millis(sql.raw("finished_at"))} from ${d.tasks} where ${isOld(p)} ${further} order by finished_at`;
  return {
    old: (p) => sql`
      select id from ${d.tasks} where ${isOld(p)} ${d.atMost(p.limit)} ${d.skipLocked}`,

    /** The same, the oldest first, and when they finished. */
    oldest: (p) => sql`${oldest(p)} ${d.atMost(p.limit)} ${d.skipLocked}`,

    /** Those behind the ones that the database keeps. */
    oldestFrom: (p) =>
      sql`${oldest(
        p,
        sql`and finished_at >= ${d.time(d.integer(p.from))}
        and id not in ${d.integers(p.passed)}`,
      )} ${d.atMost(p.limit)} ${d.skipLocked}`,

    oldAmong: (p) => sql`
      select id from ${d.tasks} where ${isOld(p)} and ${d.among("id", p.ids)} ${d.locked}`,

    deleteTasks: (p) => sql`
      delete from dbq_tasks where ${d.among("id", p.ids)}`,

    deleteAttempts: (p) => sql`
      delete from dbq_attempts where ${d.among("task_id", p.ids)}`,

    deleteLogs: (p) => sql`
      delete from dbq_task_logs where ${d.among("task_id", p.ids)}`,
  } satisfies Record<string, Statement>;
}

/** Tasks of workers without a row. Not those whose message a drain has sent: they run elsewhere. */
function orphanStatements(d: Dialect, task: SQL) {
  const orphans = (p: Params, isAny: SQL) => sql`
      select ${task} from ${d.tasks}
      where status = 'running' and coalesce(started_at, updated_at) < ${before(d, p)} and coalesce(worker_id, '') <> ${sent}
        and ${isAny}
        and not exists (select 1 from dbq_workers where dbq_workers.id = dbq_tasks.worker_id)
      ${d.atMost(p.limit)} ${d.skipLocked}`;
  return {
    orphans: (p) => orphans(p, hasNumber),

    orphansBut: (p) => orphans(p, isNotPassed(d, p)),
  } satisfies Record<string, Statement>;
}

function workerStatements(d: Dialect) {
  const [worker, task] = [
    listed(d, "dbq_workers", workerColumns),
    listed(d, "dbq_tasks", taskColumns, { givenKey: true }),
  ];
  const heldBy: Statement = (p) => sql`
      select ${task} from ${d.tasks} where status = 'running' and ${d.indexed.runBy} = ${p.workerId} and ${hasNumber}`;
  return {
    register: (p) => sql`
      insert into dbq_workers (id, queue_names, concurrency, lease, host, boot_id, pid_namespace, pid, process_start,
        beat, started_at, heartbeat_at, limits_version)
      values (${p.id}, ${p.queueNames}, ${p.concurrency}, ${p.lease}, ${p.host}, ${p.bootId}, ${p.pidNamespace},
        ${p.pid}, ${p.processStart}, ${p.beat}, ${d.now(p)}, ${d.now(p)}, ${d.integer(p.limitsVersion)})`,

    /** Waits for a change that is under way, and makes the next one wait. */
    version: () => sql`select value from dbq_settings where name = 'limits' ${d.shared}`,

    addVersion: () =>
      sql`insert into dbq_settings (name, value) values ('limits', '0') ${d.keepExisting("value")}`,

    resize: (p) =>
      sql`update dbq_workers set concurrency = ${d.integer(p.concurrency)} where id = ${p.workerId}`,

    beat: (p) => sql`
      update dbq_workers set heartbeat_at = ${d.now(p)}, beat = beat + 1 where id = ${p.workerId}`,

    /**
     * `session`: the lock that the worker's own session holds; null when the heartbeat uses a shared connection. `anew`: 1 for the
     * first heartbeat in this session. A later one that the network holds back must not undo the first one of the next session.
     */
    beatInSession: (p) => sql`
      update dbq_workers set heartbeat_at = ${d.now(p)}, beat = beat + 1, session = ${p.session}
      where id = ${p.workerId} and (${d.integer(p.anew)} = 1 or session is null or session = ${p.session})`,

    workers: (p) => sql`
      select ${worker}, ${d.minus(d.now(p), sql`heartbeat_at`)}, ${d.sessionLives}
      from dbq_workers order by started_at, id`,

    removeWorker: (p) => sql`
      delete from dbq_workers where id = ${p.workerId}`,

    /**
     * Answers with the time. No row when the worker has beaten since it was looked at, or when another transaction has its
     * row. While this transaction has it, the worker cannot claim.
     */
    lockDeadWorker: (p) => sql`
      select ${d.millis(d.now(p))} from dbq_workers where id = ${p.workerId} and beat = ${p.beat} ${d.skipLocked}`,

    unlockedDeadWorker: (p) => sql`
      select 1 from dbq_workers where id = ${p.workerId} and beat = ${p.beat}`,

    heldBy,

    lockHeldBy: (p) => sql`${heldBy(p)} ${d.skipLocked}`,

    ...orphanStatements(d, task),
  } satisfies Record<string, Statement>;
}

/** All statements whose text is the same at each call. */
export function statements(d: Dialect) {
  return {
    ...enqueueStatements(d),
    ...readStatements(d),
    ...claimStatements(d),
    ...transitionStatements(d),
    ...logStatements(d),
    ...dueStatements(d),
    ...oldStatements(d),
    ...workerStatements(d),
  };
}

export type Statements = ReturnType<typeof statements>;
