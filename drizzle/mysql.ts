/** The tables of dbq on MySQL and MariaDB. An app may import them into its own schema: `dbq-ts/schema/mysql`. */
import { sql } from "drizzle-orm";
import {
  bigint,
  customType,
  datetime,
  double,
  index,
  int,
  mysqlTable,
  primaryKey,
  uniqueIndex,
  varbinary,
  varchar,
} from "drizzle-orm/mysql-core";

const whole = { mode: "number" } as const;

/** In UTC, whatever the session's time zone. */
const time = (name: string) => datetime(name, { fsp: 3 });
const now = sql`(utc_timestamp(3))`;

/** Compared byte by byte, whatever the database's own collation makes equal. */
const name = customType<{ data: string; config: { length: number } }>({
  dataType: (config) => `varchar(${config?.length ?? 255}) character set utf8mb4 collate utf8mb4_bin`,
});
/** As it was written: MySQL's own JSON type is a normal form. */
const json = customType<{ data: string }>({
  dataType: () => "longtext character set utf8mb4 collate utf8mb4_bin",
});

/** One row per task. Every column has a default but `func`, so that a plain INSERT is a valid enqueue. */
export const dbqTasks = mysqlTable(
  "dbq_tasks",
  {
    /** InnoDB keeps the counter across restarts: the id of a deleted task is never given to another. */
    id: bigint("id", whole).autoincrement().primaryKey(),
    func: name("func", { length: 255 }).notNull(),
    args: json("args").notNull().default(sql`('[]')`),
    kwargs: json("kwargs").notNull().default(sql`('{}')`),
    result: json("result"),
    error: json("error"),
    status: name("status", { length: 16 }).notNull().default("pending"),
    generationId: bigint("generation_id", whole).notNull().default(1),
    createdAt: time("created_at").notNull().default(now),
    updatedAt: time("updated_at").notNull().default(now),
    priority: int("priority").notNull().default(5),
    queueName: name("queue_name", { length: 255 }).notNull().default("default"),
    retryCount: int("retry_count").notNull().default(0),
    maxRetries: int("max_retries").notNull().default(3),
    waitUntil: time("wait_until"),
    workerId: name("worker_id", { length: 255 }),
    startedAt: time("started_at"),
    finishedAt: time("finished_at"),
    requestId: name("request_id", { length: 255 }),
    uniqueKey: name("unique_key", { length: 255 }),
    meta: json("meta").notNull().default(sql`('{}')`),
    /** Milliseconds that one attempt may take; null: no limit but the function's own. */
    timeout: bigint("timeout", whole),
    progress: double("progress"),
    progressNote: json("progress_note"),
    /** 1: the call, of a `remoteTask`, did not say maxRetries. The first worker that runs the task fills it in. */
    fillDefaults: int("fill_defaults").notNull().default(0),
    /** JSON: the W3C trace context of the span in which the task was enqueued. */
    traceContext: json("trace_context"),
    /** The group whose limits and turns the task shares. */
    groupKey: name("group_key", { length: 255 }),
    /** JSON: the names of the shared limits that the running task counts for. */
    uses: json("uses"),
    /** Until then no other task takes the key, even when this one has finished; null: until it finishes. */
    uniqueUntil: time("unique_until"),
    /** The schedule that made the task. */
    scheduleName: name("schedule_name", { length: 255 }),
    /** The time of that schedule for which it made the task. */
    slot: time("slot"),
    /** The task that started this one, and waits for it or may. */
    parentId: bigint("parent_id", whole),
    /** The first ancestor of the task. */
    rootId: bigint("root_id", whole),
    /** How often `retryTask` has made the task pending again. */
    manualRetries: int("manual_retries").notNull().default(0),
    /** The unique key of a task that gives it up when it starts, and so has no `unique_key` from then on. */
    startKey: name("start_key", { length: 255 }),
    /** The limit whose rate put the task off to its turn: JSON of its scope, name and group. */
    putOffBy: json("put_off_by"),
    /** The kind of failure with which a failed task has ended: an `id` of `dbq_failures`. */
    failure: name("failure", { length: 16 }),
    /** While the task has never started: when it ends as cancelled; null: it does not expire. */
    expiresAt: time("expires_at"),
    /** The order of claims: MariaDB before 10.8 has no descending indexes. */
    claimRank: bigint("claim_rank", whole).generatedAlwaysAs(sql`(-\`priority\`)`, { mode: "virtual" }),
    /**
     * Where a task with a group, a limit or a rate stands: `p` and its queue while pending, `r` while running, `s` and its
     * rate while put off. Null for all other tasks, so that claiming or settling one of them changes no entry of the index.
     */
    steeredPlace: varchar("steered_place", { length: 40 }).generatedAlwaysAs(
      sql`(case when \`status\` = 'pending' and \`group_key\` is not null then concat('p', md5(\`queue_name\`)) when \`status\` = 'running' and (\`group_key\` is not null or \`uses\` is not null) then 'r' when \`status\` = 'scheduled' and \`put_off_by\` is not null then concat('s', md5(\`put_off_by\`)) end)`,
      { mode: "virtual" },
    ),
    /** Bytes, since trailing spaces count. */
    groupBytes: varbinary("group_bytes", { length: 1020 }).generatedAlwaysAs(
      sql`(cast(\`group_key\` as binary))`,
      { mode: "virtual" },
    ),
    /** The key while no other task may have it; null otherwise, and null is equal to nothing. Bytes, since trailing spaces count. */
    takenKey: varbinary("taken_key", { length: 1020 }).generatedAlwaysAs(
      sql`(case when \`status\` in ('pending', 'scheduled', 'running') or \`status\` = 'waiting' or \`unique_until\` is not null then cast(\`unique_key\` as binary) end)`,
      { mode: "virtual" },
    ),
    /** The schedule while the task is unfinished; null otherwise. */
    unfinishedOf: name("unfinished_of", { length: 255 }).generatedAlwaysAs(
      sql`(case when \`status\` in ('pending', 'scheduled', 'running', 'waiting') then \`schedule_name\` end)`,
      { mode: "virtual" },
    ),
    /** When the task is due, while it is scheduled; 1970 for one without a time. Null for all others, as the next two columns. */
    dueAt: time("due_at").generatedAlwaysAs(
      sql`(case when \`status\` = 'scheduled' then coalesce(\`wait_until\`, timestamp'1970-01-01 00:00:00') end)`,
      { mode: "virtual" },
    ),
    /** The worker, while the task is running. */
    runBy: name("run_by", { length: 255 }).generatedAlwaysAs(
      sql`(case when \`status\` = 'running' then \`worker_id\` end)`,
      { mode: "virtual" },
    ),
    /** The status, once the task has finished. */
    endedAs: name("ended_as", { length: 16 }).generatedAlwaysAs(
      sql`(case when \`status\` in ('completed', 'failed', 'cancelled') then \`status\` end)`,
      { mode: "virtual" },
    ),
    /** When the task expires, while it has never started; null for all others. */
    expiryAt: time("expiry_at").generatedAlwaysAs(
      sql`(case when \`started_at\` is null then \`expires_at\` end)`,
      { mode: "virtual" },
    ),
  },
  // MySQL has no partial indexes. Each change of status changes an entry of each index whose columns it changes: so most are null.
  (t) => [
    index("dbq_tasks_steered").on(t.steeredPlace, t.func, t.groupBytes, t.claimRank, t.id),
    index("dbq_tasks_claim").on(t.status, t.queueName, t.func, t.claimRank, t.id),
    index("dbq_tasks_due").on(t.dueAt),
    index("dbq_tasks_running").on(t.runBy),
    index("dbq_tasks_finished").on(t.endedAs, t.finishedAt),
    index("dbq_tasks_request").on(t.requestId),
    uniqueIndex("dbq_tasks_unique_key").on(t.takenKey),
    uniqueIndex("dbq_tasks_slot").on(t.scheduleName, t.slot),
    index("dbq_tasks_of_schedule").on(t.unfinishedOf),
    index("dbq_tasks_parent").on(t.parentId),
    index("dbq_tasks_failure").on(t.failure),
    index("dbq_tasks_expiry").on(t.expiryAt),
  ],
);

/** One row per attempt that did not end well. A good one is on the task's own row, so it costs nothing here. */
export const dbqAttempts = mysqlTable(
  "dbq_attempts",
  {
    id: bigint("id", whole).autoincrement().primaryKey(),
    taskId: bigint("task_id", whole).notNull(),
    /** The task's generation while this attempt ran. */
    generationId: bigint("generation_id", whole).notNull(),
    workerId: name("worker_id", { length: 255 }),
    startedAt: time("started_at"),
    endedAt: time("ended_at").notNull().default(now),
    /** `failed`, `timeout`, `crashed` or `cancelled`. */
    outcome: name("outcome", { length: 16 }).notNull(),
    errorName: json("error_name"),
    errorMessage: json("error_message"),
    errorStack: json("error_stack"),
    /** JSON: the nested causes of the error. */
    errorCause: json("error_cause"),
    /** The kind of failure: an `id` of `dbq_failures`. */
    failure: name("failure", { length: 16 }),
  },
  (t) => [index("dbq_attempts_task").on(t.taskId)],
);

/** One row per line that a task logged, in the order of its ids. */
export const dbqTaskLogs = mysqlTable(
  "dbq_task_logs",
  {
    id: bigint("id", whole).autoincrement().primaryKey(),
    taskId: bigint("task_id", whole).notNull(),
    /** The task's generation while the attempt ran that logged the line. */
    generationId: bigint("generation_id", whole).notNull(),
    at: time("at").notNull().default(now),
    message: json("message").notNull(),
  },
  (t) => [index("dbq_task_logs_task").on(t.taskId, t.id)],
);

/** One row per live worker: its heartbeat, and what tells others that it has died. */
export const dbqWorkers = mysqlTable("dbq_workers", {
  id: name("id", { length: 255 }).primaryKey(),
  queueNames: json("queue_names").notNull(),
  concurrency: int("concurrency").notNull(),
  lease: bigint("lease", whole).notNull(),
  host: name("host", { length: 255 }).notNull(),
  bootId: name("boot_id", { length: 64 }),
  pidNamespace: name("pid_namespace", { length: 64 }),
  pid: bigint("pid", whole).notNull(),
  processStart: name("process_start", { length: 64 }),
  startedAt: time("started_at").notNull().default(now),
  heartbeatAt: time("heartbeat_at").notNull().default(now),
  /** Grows by one with each heartbeat: other workers see that it stands still without a common clock. */
  beat: bigint("beat", whole).notNull().default(1),
  /** The lock, by GET_LOCK, that the worker's own database session holds while it lives. */
  session: name("session", { length: 64 }),
  /** Of an agent's session: the last claim that was asked for, and when. Asked for again, it gets the same tasks. */
  requestId: name("request_id", { length: 255 }),
  requestedAt: time("requested_at"),
  /** The version of the limits that its claims must know; see `dbq_settings`. */
  limitsVersion: bigint("limits_version", whole).notNull().default(0),
});

/** One row per agent: a machine without access to the database, whose Manager claims and settles for it. */
export const dbqAgents = mysqlTable("dbq_agents", {
  name: name("name", { length: 255 }).primaryKey(),
  /** SHA-256 of the token, in hexadecimal digits. The token itself is nowhere. */
  tokenHash: name("token_hash", { length: 64 }).notNull(),
  /** JSON: the names of the functions that it may run. */
  funcs: json("funcs").notNull(),
  /** JSON: the names of the queues whose tasks it may run. */
  queues: json("queues").notNull(),
  createdAt: time("created_at").notNull().default(now),
  lastSeenAt: time("last_seen_at"),
  expiresAt: time("expires_at"),
  revokedAt: time("revoked_at"),
});

/** Facts about this database, such as `origin`: a UUID by which other systems tell its tasks from those of others. */
export const dbqSettings = mysqlTable("dbq_settings", {
  name: name("name", { length: 255 }).primaryKey(),
  value: json("value").notNull(),
});

/** One row per queue that is drained into another system: which worker does it now. */
export const dbqDrains = mysqlTable("dbq_drains", {
  queueName: name("queue_name", { length: 255 }).primaryKey(),
  workerId: name("worker_id", { length: 255 }),
  /** Grows by one each time that another worker takes over. */
  generationId: bigint("generation_id", whole).notNull().default(1),
  target: json("target"),
  updatedAt: time("updated_at").notNull().default(now),
});

/** One row per schedule: when it makes tasks, and of which function. */
export const dbqSchedules = mysqlTable(
  "dbq_schedules",
  {
    name: name("name", { length: 255 }).primaryKey(),
    func: name("func", { length: 255 }).notNull(),
    args: json("args").notNull().default(sql`('[]')`),
    kwargs: json("kwargs").notNull().default(sql`('{}')`),
    /** JSON: what else its tasks get, such as their priority. */
    options: json("options").notNull().default(sql`('{}')`),
    cron: name("cron", { length: 255 }),
    everyMs: bigint("every_ms", whole),
    timeZone: name("time_zone", { length: 255 }).notNull().default("UTC"),
    /** `one`, `skip` or `all:` and how many. */
    missed: name("missed", { length: 32 }).notNull().default("one"),
    /** `skip` or `allow`. */
    overlap: name("overlap", { length: 16 }).notNull().default("skip"),
    jitterMs: bigint("jitter_ms", whole).notNull().default(0),
    startAt: time("start_at"),
    endAt: time("end_at"),
    /** From when intervals without `start_at` are counted: when this timing was written. */
    anchorAt: time("anchor_at").notNull().default(now),
    /** When it makes its next task; null: never again. */
    nextAt: time("next_at"),
    lastSlot: time("last_slot"),
    lastTaskId: bigint("last_task_id", whole),
    /** How many slots made no task. */
    skipped: bigint("skipped", whole).notNull().default(0),
    pausedAt: time("paused_at"),
    generationId: bigint("generation_id", whole).notNull().default(1),
    createdAt: time("created_at").notNull().default(now),
    updatedAt: time("updated_at").notNull().default(now),
  },
  (t) => [index("dbq_schedules_next").on(t.pausedAt, t.nextAt)],
);

/** One row per limit or pause, and per group whose rate has let a task start. The row is a lock, never a count. */
export const dbqLimits = mysqlTable(
  "dbq_limits",
  {
    /** `name`: shared by `uses`; `queue`; `func`; `group`: one group of a function; `code`: the function's own option. */
    scope: name("scope", { length: 16 }).notNull(),
    /** Of the shared limit, the queue or the function. Bytes, since trailing spaces count. */
    name: varbinary("name", { length: 1020 }).notNull(),
    // The default as SQL: drizzle-kit 1.0 writes an empty binary text as `0x`, which is no value.
    /** Of the scope `group`; empty: the tasks without a group. */
    groupKey: varbinary("group_key", { length: 1020 }).notNull().default(sql`''`),
    concurrency: int("concurrency"),
    rateLimit: int("rate_limit"),
    /** Milliseconds. */
    ratePer: bigint("rate_per", whole),
    rateBurst: int("rate_burst"),
    /** The state of the rate: its theoretical arrival time (GCRA), in microseconds since 1970. */
    tat: bigint("tat", whole),
    /** Nothing starts before: a handler has thrown `ThrottleTask`. */
    throttledUntil: time("throttled_until"),
    pausedAt: time("paused_at"),
    /** In a Galera cluster each claim under the limit adds one: of two on different nodes, the cluster refuses one. */
    claims: bigint("claims", whole).notNull().default(0),
  },
  (t) => [primaryKey({ columns: [t.scope, t.name, t.groupKey] })],
);

/** One row per action that a person took in the dashboard. */
export const dbqAudit = mysqlTable(
  "dbq_audit",
  {
    id: bigint("id", whole).autoincrement().primaryKey(),
    at: time("at").notNull().default(now),
    /** Who did it, where the app says so. */
    actor: name("actor", { length: 255 }),
    action: name("action", { length: 64 }).notNull(),
    /** Which task, queue, schedule or limit was acted on, such as `task 42`. */
    target: name("target", { length: 255 }).notNull(),
    /** How many it changed. */
    count: bigint("count", whole).notNull().default(1),
    /** Why, in the words of the person. */
    reason: name("reason", { length: 255 }),
  },
  (t) => [index("dbq_audit_target").on(t.target, t.id)],
);

/** What workers have counted: attempts by minute, function and outcome, with histograms of their times. For looking only. */
export const dbqStats = mysqlTable(
  "dbq_stats",
  {
    id: bigint("id", whole).autoincrement().primaryKey(),
    /** Begins the time that the row is about. */
    minute: time("minute").notNull(),
    /** How many minutes the row is about: 1, or 60 once they are folded. 0: all time, with 1970 as `minute`. */
    span: int("span").notNull().default(1),
    /** Empty once the rows of all workers are folded into one. */
    workerId: name("worker_id", { length: 255 }).notNull().default(""),
    queueName: name("queue_name", { length: 255 }).notNull(),
    func: name("func", { length: 255 }).notNull(),
    /** `completed`, `failed`, `retry`, `cancelled` or `snoozed`. */
    outcome: name("outcome", { length: 16 }).notNull(),
    /** How many attempts ended so. */
    count: bigint("count", whole).notNull(),
    /** JSON: the numbers of buckets, each followed by how many attempts are in it. */
    waitBuckets: json("wait_buckets").notNull().default(sql`('[]')`),
    runBuckets: json("run_buckets").notNull().default(sql`('[]')`),
  },
  (t) => [index("dbq_stats_minute").on(t.span, t.workerId, t.minute)],
);

/** What workers have counted: failed attempts by minute and kind of failure. For looking only. */
export const dbqFailures = mysqlTable(
  "dbq_failures",
  {
    /** The kind: a hash of the function, the error's name and its normalised message. */
    id: name("id", { length: 16 }).notNull(),
    func: name("func", { length: 255 }).notNull(),
    errorName: json("error_name").notNull(),
    /** Without numbers and other values that differ from failure to failure. */
    message: json("message").notNull(),
    /** Begins the time that the row is about. */
    minute: time("minute").notNull(),
    /** How many minutes the row is about: 1, or 60 once they are folded. */
    span: int("span").notNull().default(1),
    /** How many attempts ended so. */
    count: bigint("count", whole).notNull().default(0),
    firstAt: time("first_at").notNull().default(now),
    lastAt: time("last_at").notNull().default(now),
    /** A task of which an attempt ended so. */
    sample: bigint("sample", whole),
  },
  (t) => [
    primaryKey({ columns: [t.id, t.minute, t.span] }),
    index("dbq_failures_minute").on(t.span, t.minute),
  ],
);

/** One row per crashed attempt whose `onFailure` has not run yet. A worker that knows the function runs it, and deletes the row. */
export const dbqOwedHooks = mysqlTable(
  "dbq_owed_hooks",
  {
    id: bigint("id", whole).autoincrement().primaryKey(),
    taskId: bigint("task_id", whole).notNull(),
    /** The task's generation while the attempt ran. */
    generationId: bigint("generation_id", whole).notNull(),
    queueName: name("queue_name", { length: 255 }).notNull(),
    func: name("func", { length: 255 }).notNull(),
    /** What the hook reads in `task.status`: `scheduled` if the task runs again, else `failed`. */
    status: name("status", { length: 16 }).notNull(),
    /** What the hook reads in `task.retryCount`. */
    retryCount: int("retry_count").notNull(),
    /** The worker that runs the hook; null: none has begun. While that worker is registered, no other one does. */
    workerId: name("worker_id", { length: 255 }),
    /** How many workers have begun. */
    tries: int("tries").notNull().default(0),
    createdAt: time("created_at").notNull().default(now),
  },
  (t) => [index("dbq_owed_hooks_func").on(t.queueName, t.func, t.id)],
);

/** One row per step of a task that has ended, and per child that a task has started: what a later attempt does not run again. */
export const dbqSteps = mysqlTable(
  "dbq_steps",
  {
    id: bigint("id", whole).autoincrement().primaryKey(),
    taskId: bigint("task_id", whole).notNull(),
    name: name("name", { length: 300 }).notNull(),
    /** The order in which the steps of a task were stored. */
    seq: int("seq").notNull(),
    /** JSON: what the step returned; null: nothing. */
    value: json("value"),
    /** JSON: with what the step failed; null: it did not. */
    error: json("error"),
    /** The task's generation while the attempt ran that stored the step. */
    generationId: bigint("generation_id", whole).notNull(),
    startedAt: time("started_at"),
    endedAt: time("ended_at").notNull().default(now),
    /** `wanted`, `done`, `failed` or `unknown`; null: the step has nothing to undo. */
    undoState: name("undo_state", { length: 16 }),
    /** JSON. */
    undoError: json("undo_error"),
    /** Of a step that starts a child: the child's id. */
    childId: bigint("child_id", whole),
  },
  (t) => [uniqueIndex("dbq_steps_task").on(t.taskId, t.name)],
);

/** One row per event. Of several of the same name the first counts. */
export const dbqEvents = mysqlTable(
  "dbq_events",
  {
    id: bigint("id", whole).autoincrement().primaryKey(),
    name: name("name", { length: 255 }).notNull(),
    /** JSON. */
    payload: json("payload"),
    /** Null: tasks wait for the event, and it was not emitted yet. */
    emittedAt: time("emitted_at"),
  },
  (t) => [uniqueIndex("dbq_events_name").on(t.name), index("dbq_events_emitted").on(t.emittedAt)],
);

/** One row per event, child or time that a task waits for. */
export const dbqWaits = mysqlTable(
  "dbq_waits",
  {
    id: bigint("id", whole).autoincrement().primaryKey(),
    taskId: bigint("task_id", whole).notNull(),
    /** The name of the step that waits. */
    name: name("name", { length: 300 }).notNull(),
    /** `event`, `child` or `time`; `undo` of a task that is to fail or to be cancelled, and undoes its steps before. */
    kind: name("kind", { length: 16 }).notNull(),
    /** The name of the event, or the id of the child. */
    target: name("target", { length: 255 }),
    /** When the wait is over in any case; null: never. */
    deadline: time("deadline"),
    /** What the end of the child means for the task; null: it goes on. */
    mode: name("mode", { length: 64 }),
  },
  (t) => [
    uniqueIndex("dbq_waits_task").on(t.taskId, t.name),
    index("dbq_waits_target").on(t.target),
    index("dbq_waits_deadline").on(t.deadline),
  ],
);

/**
 * What `queue.watchCauses` has reported: for each name of watchers a row for each cause, and one with an empty key, the lease of the
 * process that reports. Its `ended_at` is when the lease runs out.
 */
export const dbqCauses = mysqlTable(
  "dbq_causes",
  {
    id: bigint("id", whole).autoincrement().primaryKey(),
    name: name("name", { length: 255 }).notNull(),
    /** A longer one ends with its SHA-256. */
    key: name("key", { length: 255 }).notNull().default(""),
    /** JSON: the cause as it was when it began. */
    cause: json("cause"),
    beganAt: time("began_at").notNull().default(now),
    /** Null: it has not ended. */
    endedAt: time("ended_at"),
    /** When the reporter has last seen it. */
    seenAt: time("seen_at").notNull().default(now),
    /** The id of the watch that reports this cause; null: none does now. */
    reporter: name("reporter", { length: 255 }),
    /** `began` or `ended`: what the reporter's app has dealt with last; null: nothing. */
    reported: name("reported", { length: 16 }),
  },
  (t) => [uniqueIndex("dbq_causes_name").on(t.name, t.key)],
);
