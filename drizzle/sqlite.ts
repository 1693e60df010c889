/** The tables of dbq on SQLite. An app may import them into its own schema: `dbq-ts/schema/sqlite`. */
import { sql } from "drizzle-orm";
import { index, integer, primaryKey, real, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

/**
 * The host's clock, in milliseconds since 1970, rounded because a Julian day has a fraction. `unixepoch('subsec')` would need
 * SQLite 3.42 in every program that inserts tasks; Debian 12 has 3.40.
 */
const now = sql`(cast(round((julianday('now') - 2440587.5) * 86400000) as integer))`;

/** One row per task. Every column has a default but `func`, so that a plain INSERT is a valid enqueue. */
export const dbqTasks = sqliteTable(
  "dbq_tasks",
  {
    /** AUTOINCREMENT: the id of a deleted task is never given to another. */
    id: integer("id").primaryKey({ autoIncrement: true }),
    func: text("func").notNull(),
    args: text("args").notNull().default("[]"),
    kwargs: text("kwargs").notNull().default("{}"),
    result: text("result"),
    error: text("error"),
    status: text("status").notNull().default("pending"),
    generationId: integer("generation_id").notNull().default(1),
    createdAt: integer("created_at").notNull().default(now),
    updatedAt: integer("updated_at").notNull().default(now),
    priority: integer("priority").notNull().default(5),
    queueName: text("queue_name").notNull().default("default"),
    retryCount: integer("retry_count").notNull().default(0),
    maxRetries: integer("max_retries").notNull().default(3),
    waitUntil: integer("wait_until"),
    workerId: text("worker_id"),
    startedAt: integer("started_at"),
    finishedAt: integer("finished_at"),
    requestId: text("request_id"),
    uniqueKey: text("unique_key"),
    meta: text("meta").notNull().default("{}"),
    /** Milliseconds that one attempt may take; null: no limit but the function's own. */
    timeout: integer("timeout"),
    progress: real("progress"),
    progressNote: text("progress_note"),
    /** 1: the call, of a `remoteTask`, did not say maxRetries. The first worker that runs the task fills it in. */
    fillDefaults: integer("fill_defaults").notNull().default(0),
    /** JSON: the W3C trace context of the span in which the task was enqueued. */
    traceContext: text("trace_context"),
    /** The group whose limits and turns the task shares. */
    groupKey: text("group_key"),
    /** JSON: the names of the shared limits that the running task counts for. */
    uses: text("uses"),
    /** Until then no other task takes the key, even when this one has finished; null: until it finishes. */
    uniqueUntil: integer("unique_until"),
    /** The schedule that made the task. */
    scheduleName: text("schedule_name"),
    /** The time of that schedule for which it made the task. */
    slot: integer("slot"),
    /** The task that started this one, and waits for it or may. */
    parentId: integer("parent_id"),
    /** The first ancestor of the task. */
    rootId: integer("root_id"),
    /** How often `retryTask` has made the task pending again. */
    manualRetries: integer("manual_retries").notNull().default(0),
    /** The unique key of a task that gives it up when it starts, and so has no `unique_key` from then on. */
    startKey: text("start_key"),
    /** The limit whose rate put the task off to its turn: JSON of its scope, name and group. */
    putOffBy: text("put_off_by"),
    /** The kind of failure with which a failed task has ended: an `id` of `dbq_failures`. */
    failure: text("failure"),
    /** While the task has never started: when it ends as cancelled; null: it does not expire. */
    expiresAt: integer("expires_at"),
  },
  (t) => [
    // Each index holds only the rows that its question is about: a claim costs the same beside a million finished rows.
    index("dbq_tasks_claim")
      .on(t.queueName, t.func, sql`priority desc`, t.id, t.waitUntil)
      .where(sql`status = 'pending'`),
    // No entry for a task without a group, a limit or a rate.
    index("dbq_tasks_group")
      .on(t.queueName, t.func, t.groupKey, sql`priority desc`, t.id)
      .where(sql`status = 'pending' and group_key is not null`),
    index("dbq_tasks_in_use")
      .on(t.func, t.groupKey, t.queueName, t.uses)
      .where(sql`status = 'running' and (uses is not null or group_key is not null)`),
    index("dbq_tasks_put_off")
      .on(t.putOffBy, t.waitUntil)
      .where(sql`status = 'scheduled' and put_off_by is not null`),
    index("dbq_tasks_due").on(t.waitUntil).where(sql`status = 'scheduled'`),
    index("dbq_tasks_running").on(t.workerId).where(sql`status = 'running'`),
    index("dbq_tasks_finished").on(t.status, t.finishedAt).where(sql`finished_at is not null`),
    index("dbq_tasks_request").on(t.requestId).where(sql`request_id is not null`),
    uniqueIndex("dbq_tasks_unique")
      .on(t.uniqueKey)
      .where(
        sql`unique_key is not null and (status in ('pending', 'scheduled', 'running') or status = 'waiting' or unique_until is not null)`,
      ),
    uniqueIndex("dbq_tasks_slot").on(t.scheduleName, t.slot).where(sql`schedule_name is not null`),
    index("dbq_tasks_of_schedule")
      .on(t.scheduleName)
      .where(sql`schedule_name is not null and status in ('pending', 'scheduled', 'running', 'waiting')`),
    index("dbq_tasks_parent").on(t.parentId).where(sql`parent_id is not null`),
    // Without the status: else each claim and each end would cost SQLite and Postgres a look at this index.
    index("dbq_tasks_failure").on(t.failure).where(sql`failure is not null`),
    index("dbq_tasks_expiry").on(t.expiresAt).where(sql`expires_at is not null and started_at is null`),
  ],
);

/** One row per attempt that did not end well. A good one is on the task's own row, so it costs nothing here. */
export const dbqAttempts = sqliteTable(
  "dbq_attempts",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    taskId: integer("task_id").notNull(),
    /** The task's generation while this attempt ran. */
    generationId: integer("generation_id").notNull(),
    workerId: text("worker_id"),
    startedAt: integer("started_at"),
    endedAt: integer("ended_at").notNull().default(now),
    /** `failed`, `timeout`, `crashed` or `cancelled`. */
    outcome: text("outcome").notNull(),
    errorName: text("error_name"),
    errorMessage: text("error_message"),
    errorStack: text("error_stack"),
    /** JSON: the nested causes of the error. */
    errorCause: text("error_cause"),
    /** The kind of failure: an `id` of `dbq_failures`. */
    failure: text("failure"),
  },
  (t) => [index("dbq_attempts_task").on(t.taskId)],
);

/** One row per line that a task logged, in the order of its ids. */
export const dbqTaskLogs = sqliteTable(
  "dbq_task_logs",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    taskId: integer("task_id").notNull(),
    /** The task's generation while the attempt ran that logged the line. */
    generationId: integer("generation_id").notNull(),
    at: integer("at").notNull().default(now),
    message: text("message").notNull(),
  },
  (t) => [index("dbq_task_logs_task").on(t.taskId, t.id)],
);

/** One row per live worker: its heartbeat, and what tells others on the same host that its process has died. */
export const dbqWorkers = sqliteTable("dbq_workers", {
  id: text("id").primaryKey(),
  queueNames: text("queue_names").notNull(),
  concurrency: integer("concurrency").notNull(),
  lease: integer("lease").notNull(),
  host: text("host").notNull(),
  bootId: text("boot_id"),
  pidNamespace: text("pid_namespace"),
  pid: integer("pid").notNull(),
  processStart: text("process_start"),
  startedAt: integer("started_at").notNull().default(now),
  heartbeatAt: integer("heartbeat_at").notNull().default(now),
  /** Grows by one with each heartbeat: other workers see that it stands still without a common clock. */
  beat: integer("beat").notNull().default(1),
  /** On a server: the lock that the worker's own database session holds while it lives. */
  session: text("session"),
  /** Of an agent's session: the last claim that was asked for, and when. Asked for again, it gets the same tasks. */
  requestId: text("request_id"),
  requestedAt: integer("requested_at"),
  /** The version of the limits that its claims must know; see `dbq_settings`. */
  limitsVersion: integer("limits_version").notNull().default(0),
});

/** One row per agent: a machine without access to the database, whose Manager claims and settles for it. */
export const dbqAgents = sqliteTable("dbq_agents", {
  name: text("name").primaryKey(),
  /** SHA-256 of the token, in hexadecimal digits. The token itself is nowhere. */
  tokenHash: text("token_hash").notNull(),
  /** JSON: the names of the functions that it may run. */
  funcs: text("funcs").notNull(),
  /** JSON: the names of the queues whose tasks it may run. */
  queues: text("queues").notNull(),
  createdAt: integer("created_at").notNull().default(now),
  lastSeenAt: integer("last_seen_at"),
  expiresAt: integer("expires_at"),
  revokedAt: integer("revoked_at"),
});

/** Facts about this database, such as `origin`: a UUID by which other systems tell its tasks from those of others. */
export const dbqSettings = sqliteTable("dbq_settings", {
  name: text("name").primaryKey(),
  value: text("value").notNull(),
});

/** One row per queue that is drained into another system: which worker does it now. */
export const dbqDrains = sqliteTable("dbq_drains", {
  queueName: text("queue_name").primaryKey(),
  workerId: text("worker_id"),
  /** Grows by one each time that another worker takes over. */
  generationId: integer("generation_id").notNull().default(1),
  target: text("target"),
  updatedAt: integer("updated_at").notNull().default(now),
});

/** One row per schedule: when it makes tasks, and of which function. */
export const dbqSchedules = sqliteTable(
  "dbq_schedules",
  {
    name: text("name").primaryKey(),
    func: text("func").notNull(),
    args: text("args").notNull().default("[]"),
    kwargs: text("kwargs").notNull().default("{}"),
    /** JSON: what else its tasks get, such as their priority. */
    options: text("options").notNull().default("{}"),
    cron: text("cron"),
    everyMs: integer("every_ms"),
    timeZone: text("time_zone").notNull().default("UTC"),
    /** `one`, `skip` or `all:` and how many. */
    missed: text("missed").notNull().default("one"),
    /** `skip` or `allow`. */
    overlap: text("overlap").notNull().default("skip"),
    jitterMs: integer("jitter_ms").notNull().default(0),
    startAt: integer("start_at"),
    endAt: integer("end_at"),
    /** From when intervals without `start_at` are counted: when this timing was written. */
    anchorAt: integer("anchor_at").notNull().default(now),
    /** When it makes its next task; null: never again. */
    nextAt: integer("next_at"),
    lastSlot: integer("last_slot"),
    lastTaskId: integer("last_task_id"),
    /** How many slots made no task. */
    skipped: integer("skipped").notNull().default(0),
    pausedAt: integer("paused_at"),
    generationId: integer("generation_id").notNull().default(1),
    createdAt: integer("created_at").notNull().default(now),
    updatedAt: integer("updated_at").notNull().default(now),
  },
  (t) => [index("dbq_schedules_next").on(t.nextAt).where(sql`paused_at is null and next_at is not null`)],
);

/** One row per limit or pause, and per group whose rate has let a task start. The row is a lock, never a count. */
export const dbqLimits = sqliteTable(
  "dbq_limits",
  {
    /** `name`: shared by `uses`; `queue`; `func`; `group`: one group of a function; `code`: the function's own option. */
    scope: text("scope").notNull(),
    /** Of the shared limit, the queue or the function. */
    name: text("name").notNull(),
    /** Of the scope `group`; empty: the tasks without a group. */
    groupKey: text("group_key").notNull().default(""),
    concurrency: integer("concurrency"),
    rateLimit: integer("rate_limit"),
    /** Milliseconds. */
    ratePer: integer("rate_per"),
    rateBurst: integer("rate_burst"),
    /** The state of the rate: its theoretical arrival time (GCRA), in microseconds since 1970. */
    tat: integer("tat"),
    /** Nothing starts before: a handler has thrown `ThrottleTask`. */
    throttledUntil: integer("throttled_until"),
    pausedAt: integer("paused_at"),
    /** In a Galera cluster each claim under the limit adds one: of two on different nodes, the cluster refuses one. */
    claims: integer("claims").notNull().default(0),
  },
  (t) => [primaryKey({ columns: [t.scope, t.name, t.groupKey] })],
);

/** One row per action that a person took in the dashboard. */
export const dbqAudit = sqliteTable(
  "dbq_audit",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    at: integer("at").notNull().default(now),
    /** Who did it, where the app says so. */
    actor: text("actor"),
    action: text("action").notNull(),
    /** Which task, queue, schedule or limit was acted on, such as `task 42`. */
    target: text("target").notNull(),
    /** How many it changed. */
    count: integer("count").notNull().default(1),
    /** Why, in the words of the person. */
    reason: text("reason"),
  },
  (t) => [index("dbq_audit_target").on(t.target, t.id)],
);

/** What workers have counted: attempts by minute, function and outcome, with histograms of their times. For looking only. */
export const dbqStats = sqliteTable(
  "dbq_stats",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    /** Begins the time that the row is about. */
    minute: integer("minute").notNull(),
    /** How many minutes the row is about: 1, or 60 once they are folded. 0: all time, with 1970 as `minute`. */
    span: integer("span").notNull().default(1),
    /** Empty once the rows of all workers are folded into one. */
    workerId: text("worker_id").notNull().default(""),
    queueName: text("queue_name").notNull(),
    func: text("func").notNull(),
    /** `completed`, `failed`, `retry`, `cancelled` or `snoozed`. */
    outcome: text("outcome").notNull(),
    /** How many attempts ended so. */
    count: integer("count").notNull(),
    /** JSON: the numbers of buckets, each followed by how many attempts are in it. */
    waitBuckets: text("wait_buckets").notNull().default("[]"),
    runBuckets: text("run_buckets").notNull().default("[]"),
  },
  (t) => [index("dbq_stats_minute").on(t.span, t.workerId, t.minute)],
);

/** What workers have counted: failed attempts by minute and kind of failure. For looking only. */
export const dbqFailures = sqliteTable(
  "dbq_failures",
  {
    /** The kind: a hash of the function, the error's name and its normalised message. */
    id: text("id").notNull(),
    func: text("func").notNull(),
    errorName: text("error_name").notNull(),
    /** Without numbers and other values that differ from failure to failure. */
    message: text("message").notNull(),
    /** Begins the time that the row is about. */
    minute: integer("minute").notNull(),
    /** How many minutes the row is about: 1, or 60 once they are folded. */
    span: integer("span").notNull().default(1),
    /** How many attempts ended so. */
    count: integer("count").notNull().default(0),
    firstAt: integer("first_at").notNull().default(now),
    lastAt: integer("last_at").notNull().default(now),
    /** A task of which an attempt ended so. */
    sample: integer("sample"),
  },
  (t) => [
    primaryKey({ columns: [t.id, t.minute, t.span] }),
    index("dbq_failures_minute").on(t.span, t.minute),
  ],
);

/** One row per crashed attempt whose `onFailure` has not run yet. A worker that knows the function runs it, and deletes the row. */
export const dbqOwedHooks = sqliteTable(
  "dbq_owed_hooks",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    taskId: integer("task_id").notNull(),
    /** The task's generation while the attempt ran. */
    generationId: integer("generation_id").notNull(),
    queueName: text("queue_name").notNull(),
    func: text("func").notNull(),
    /** What the hook reads in `task.status`: `scheduled` if the task runs again, else `failed`. */
    status: text("status").notNull(),
    /** What the hook reads in `task.retryCount`. */
    retryCount: integer("retry_count").notNull(),
    /** The worker that runs the hook; null: none has begun. While that worker is registered, no other one does. */
    workerId: text("worker_id"),
    /** How many workers have begun. */
    tries: integer("tries").notNull().default(0),
    createdAt: integer("created_at").notNull().default(now),
  },
  (t) => [index("dbq_owed_hooks_func").on(t.queueName, t.func, t.id)],
);

/** One row per step of a task that has ended, and per child that a task has started: what a later attempt does not run again. */
export const dbqSteps = sqliteTable(
  "dbq_steps",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    taskId: integer("task_id").notNull(),
    name: text("name").notNull(),
    /** The order in which the steps of a task were stored. */
    seq: integer("seq").notNull(),
    /** JSON: what the step returned; null: nothing. */
    value: text("value"),
    /** JSON: with what the step failed; null: it did not. */
    error: text("error"),
    /** The task's generation while the attempt ran that stored the step. */
    generationId: integer("generation_id").notNull(),
    startedAt: integer("started_at"),
    endedAt: integer("ended_at").notNull().default(now),
    /** `wanted`, `done`, `failed` or `unknown`; null: the step has nothing to undo. */
    undoState: text("undo_state"),
    /** JSON. */
    undoError: text("undo_error"),
    /** Of a step that starts a child: the child's id. */
    childId: integer("child_id"),
  },
  (t) => [uniqueIndex("dbq_steps_task").on(t.taskId, t.name)],
);

/** One row per event. Of several of the same name the first counts. */
export const dbqEvents = sqliteTable(
  "dbq_events",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    name: text("name").notNull(),
    /** JSON. */
    payload: text("payload"),
    /** Null: tasks wait for the event, and it was not emitted yet. */
    emittedAt: integer("emitted_at"),
  },
  (t) => [uniqueIndex("dbq_events_name").on(t.name), index("dbq_events_emitted").on(t.emittedAt)],
);

/** One row per event, child or time that a task waits for. */
export const dbqWaits = sqliteTable(
  "dbq_waits",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    taskId: integer("task_id").notNull(),
    /** The name of the step that waits. */
    name: text("name").notNull(),
    /** `event`, `child` or `time`; `undo` of a task that is to fail or to be cancelled, and undoes its steps before. */
    kind: text("kind").notNull(),
    /** The name of the event, or the id of the child. */
    target: text("target"),
    /** When the wait is over in any case; null: never. */
    deadline: integer("deadline"),
    /** What the end of the child means for the task; null: it goes on. */
    mode: text("mode"),
  },
  (t) => [
    uniqueIndex("dbq_waits_task").on(t.taskId, t.name),
    index("dbq_waits_target").on(t.target),
    index("dbq_waits_deadline").on(t.deadline).where(sql`deadline is not null`),
  ],
);

/**
 * What `queue.watchCauses` has reported: for each name of watchers a row for each cause, and one with an empty key, the lease of the
 * process that reports. Its `ended_at` is when the lease runs out.
 */
export const dbqCauses = sqliteTable(
  "dbq_causes",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    name: text("name").notNull(),
    /** A longer one ends with its SHA-256. */
    key: text("key").notNull().default(""),
    /** JSON: the cause as it was when it began. */
    cause: text("cause"),
    beganAt: integer("began_at").notNull().default(now),
    /** Null: it has not ended. */
    endedAt: integer("ended_at"),
    /** When the reporter has last seen it. */
    seenAt: integer("seen_at").notNull().default(now),
    /** The id of the watch that reports this cause; null: none does now. */
    reporter: text("reporter"),
    /** `began` or `ended`: what the reporter's app has dealt with last; null: nothing. */
    reported: text("reported"),
  },
  (t) => [uniqueIndex("dbq_causes_name").on(t.name, t.key)],
);
