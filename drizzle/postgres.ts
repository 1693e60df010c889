/** The tables of dbq on Postgres. An app may import them into its own schema: `dbq-ts/schema/postgres`. */
import { sql } from "drizzle-orm";
import {
  bigint,
  doublePrecision,
  index,
  integer,
  json,
  type PgTableFn,
  pgSchema,
  pgTable,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
} from "drizzle-orm/pg-core";

const whole = { mode: "number" } as const;
const time = { withTimezone: true } as const;

const taskColumns = {
  /** From a sequence: the id of a deleted task is never given to another. */
  id: bigint("id", whole).primaryKey().generatedByDefaultAsIdentity(),
  func: text("func").notNull(),
  /** `json`, not `jsonb`, which refuses some of what JSON can carry, and changes some. */
  args: json("args").notNull().default(sql`'[]'`),
  kwargs: json("kwargs").notNull().default(sql`'{}'`),
  result: json("result"),
  error: json("error"),
  status: text("status").notNull().default("pending"),
  generationId: bigint("generation_id", whole).notNull().default(1),
  createdAt: timestamp("created_at", time).notNull().default(sql`statement_timestamp()`),
  updatedAt: timestamp("updated_at", time).notNull().default(sql`statement_timestamp()`),
  priority: integer("priority").notNull().default(5),
  queueName: text("queue_name").notNull().default("default"),
  retryCount: integer("retry_count").notNull().default(0),
  maxRetries: integer("max_retries").notNull().default(3),
  waitUntil: timestamp("wait_until", time),
  workerId: text("worker_id"),
  startedAt: timestamp("started_at", time),
  finishedAt: timestamp("finished_at", time),
  requestId: text("request_id"),
  uniqueKey: text("unique_key"),
  meta: json("meta").notNull().default(sql`'{}'`),
  /** Milliseconds that one attempt may take; null: no limit but the function's own. */
  timeout: bigint("timeout", whole),
  progress: doublePrecision("progress"),
  progressNote: text("progress_note"),
  /** 1: the call, of a `remoteTask`, did not say maxRetries. The first worker that runs the task fills it in. */
  fillDefaults: integer("fill_defaults").notNull().default(0),
  /** JSON: the W3C trace context of the span in which the task was enqueued. */
  traceContext: text("trace_context"),
  /** The group whose limits and turns the task shares. */
  groupKey: text("group_key"),
  /** JSON: the names of the shared limits that the running task counts for. */
  uses: json("uses"),
  /** Until then no other task takes the key, even when this one has finished; null: until it finishes. */
  uniqueUntil: timestamp("unique_until", time),
  /** The schedule that made the task. */
  scheduleName: text("schedule_name"),
  /** The time of that schedule for which it made the task. */
  slot: timestamp("slot", time),
  /** The task that started this one, and waits for it or may. */
  parentId: bigint("parent_id", whole),
  /** The first ancestor of the task. */
  rootId: bigint("root_id", whole),
  /** How often `retryTask` has made the task pending again. */
  manualRetries: integer("manual_retries").notNull().default(0),
  /** The unique key of a task that gives it up when it starts, and so has no `unique_key` from then on. */
  startKey: text("start_key"),
  /** The limit whose rate put the task off to its turn: JSON of its scope, name and group. */
  putOffBy: text("put_off_by"),
  /** The kind of failure with which a failed task has ended: an `id` of `dbq_failures`. */
  failure: text("failure"),
  /** While the task has never started: when it ends as cancelled; null: it does not expire. */
  expiresAt: timestamp("expires_at", time),
};

const tasksIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table("dbq_tasks", taskColumns, (t) => [
    // Each index holds only the rows that its question is about: a claim costs the same beside a million finished rows.
    // Not by the id itself: a claim that looks for `id > after` could then be planned by the primary key.
    index("dbq_tasks_claim")
      .on(t.queueName, t.func, sql`priority desc`, sql`(id + 0)`)
      .where(sql`status = 'pending'`),
    // No entry for a task without a group, a limit or a rate.
    index("dbq_tasks_group")
      .on(t.queueName, t.func, t.groupKey, sql`priority desc`, sql`(id + 0)`)
      .where(sql`status = 'pending' and group_key is not null`),
    index("dbq_tasks_in_use")
      .on(t.func, t.groupKey, t.queueName, sql`(uses::text)`)
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
    index("dbq_tasks_parent").on(t.parentId, t.id).where(sql`parent_id is not null`),
    // Without the status: else each claim and each end would cost SQLite and Postgres a look at this index.
    index("dbq_tasks_failure").on(t.failure, t.id).where(sql`failure is not null`),
    index("dbq_tasks_expiry").on(t.expiresAt).where(sql`expires_at is not null and started_at is null`),
  ]);

/** One row per task. Every column has a default but `func`, so that a plain INSERT is a valid enqueue. */
export const dbqTasks = tasksIn(pgTable);

const attemptsIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_attempts",
    {
      id: bigint("id", whole).primaryKey().generatedByDefaultAsIdentity(),
      taskId: bigint("task_id", whole).notNull(),
      /** The task's generation while this attempt ran. */
      generationId: bigint("generation_id", whole).notNull(),
      workerId: text("worker_id"),
      startedAt: timestamp("started_at", time),
      endedAt: timestamp("ended_at", time).notNull().default(sql`statement_timestamp()`),
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

/** One row per attempt that did not end well. A good one is on the task's own row, so it costs nothing here. */
export const dbqAttempts = attemptsIn(pgTable);

const taskLogsIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_task_logs",
    {
      id: bigint("id", whole).primaryKey().generatedByDefaultAsIdentity(),
      taskId: bigint("task_id", whole).notNull(),
      /** The task's generation while the attempt ran that logged the line. */
      generationId: bigint("generation_id", whole).notNull(),
      at: timestamp("at", time).notNull().default(sql`statement_timestamp()`),
      message: text("message").notNull(),
    },
    (t) => [index("dbq_task_logs_task").on(t.taskId, t.id)],
  );

/** One row per line that a task logged, in the order of its ids. */
export const dbqTaskLogs = taskLogsIn(pgTable);

const workersIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table("dbq_workers", {
    id: text("id").primaryKey(),
    queueNames: text("queue_names").notNull(),
    concurrency: integer("concurrency").notNull(),
    lease: bigint("lease", whole).notNull(),
    host: text("host").notNull(),
    bootId: text("boot_id"),
    pidNamespace: text("pid_namespace"),
    pid: bigint("pid", whole).notNull(),
    processStart: text("process_start"),
    startedAt: timestamp("started_at", time).notNull().default(sql`statement_timestamp()`),
    heartbeatAt: timestamp("heartbeat_at", time).notNull().default(sql`statement_timestamp()`),
    /** Grows by one with each heartbeat: other workers see that it stands still without a common clock. */
    beat: bigint("beat", whole).notNull().default(1),
    /** The advisory lock that the worker's own database session holds while it lives. */
    session: text("session"),
    /** Of an agent's session: the last claim that was asked for, and when. Asked for again, it gets the same tasks. */
    requestId: text("request_id"),
    requestedAt: timestamp("requested_at", time),
    /** The version of the limits that its claims must know; see `dbq_settings`. */
    limitsVersion: bigint("limits_version", whole).notNull().default(0),
  });

/** One row per live worker: its heartbeat, and what tells others that it has died. */
export const dbqWorkers = workersIn(pgTable);

const agentsIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table("dbq_agents", {
    name: text("name").primaryKey(),
    /** SHA-256 of the token, in hexadecimal digits. The token itself is nowhere. */
    tokenHash: text("token_hash").notNull(),
    /** JSON: the names of the functions that it may run. */
    funcs: json("funcs").notNull(),
    /** JSON: the names of the queues whose tasks it may run. */
    queues: json("queues").notNull(),
    createdAt: timestamp("created_at", time).notNull().default(sql`statement_timestamp()`),
    lastSeenAt: timestamp("last_seen_at", time),
    expiresAt: timestamp("expires_at", time),
    revokedAt: timestamp("revoked_at", time),
  });

/** One row per agent: a machine without access to the database, whose Manager claims and settles for it. */
export const dbqAgents = agentsIn(pgTable);

const settingsIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table("dbq_settings", { name: text("name").primaryKey(), value: text("value").notNull() });

/** Facts about this database, such as `origin`: a UUID by which other systems tell its tasks from those of others. */
export const dbqSettings = settingsIn(pgTable);

const drainsIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table("dbq_drains", {
    queueName: text("queue_name").primaryKey(),
    workerId: text("worker_id"),
    /** Grows by one each time that another worker takes over. */
    generationId: bigint("generation_id", whole).notNull().default(1),
    target: text("target"),
    updatedAt: timestamp("updated_at", time).notNull().default(sql`statement_timestamp()`),
  });

/** One row per queue that is drained into another system: which worker does it now. */
export const dbqDrains = drainsIn(pgTable);

const schedulesIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_schedules",
    {
      name: text("name").primaryKey(),
      func: text("func").notNull(),
      args: json("args").notNull().default(sql`'[]'`),
      kwargs: json("kwargs").notNull().default(sql`'{}'`),
      /** JSON: what else its tasks get, such as their priority. */
      options: json("options").notNull().default(sql`'{}'`),
      cron: text("cron"),
      everyMs: bigint("every_ms", whole),
      timeZone: text("time_zone").notNull().default("UTC"),
      /** `one`, `skip` or `all:` and how many. */
      missed: text("missed").notNull().default("one"),
      /** `skip` or `allow`. */
      overlap: text("overlap").notNull().default("skip"),
      jitterMs: bigint("jitter_ms", whole).notNull().default(0),
      startAt: timestamp("start_at", time),
      endAt: timestamp("end_at", time),
      /** From when intervals without `start_at` are counted: when this timing was written. */
      anchorAt: timestamp("anchor_at", time).notNull().default(sql`statement_timestamp()`),
      /** When it makes its next task; null: never again. */
      nextAt: timestamp("next_at", time),
      lastSlot: timestamp("last_slot", time),
      lastTaskId: bigint("last_task_id", whole),
      /** How many slots made no task. */
      skipped: bigint("skipped", whole).notNull().default(0),
      pausedAt: timestamp("paused_at", time),
      generationId: bigint("generation_id", whole).notNull().default(1),
      createdAt: timestamp("created_at", time).notNull().default(sql`statement_timestamp()`),
      updatedAt: timestamp("updated_at", time).notNull().default(sql`statement_timestamp()`),
    },
    (t) => [index("dbq_schedules_next").on(t.nextAt).where(sql`paused_at is null and next_at is not null`)],
  );

/** One row per schedule: when it makes tasks, and of which function. */
export const dbqSchedules = schedulesIn(pgTable);

const limitsIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
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
      ratePer: bigint("rate_per", whole),
      rateBurst: integer("rate_burst"),
      /** The state of the rate: its theoretical arrival time (GCRA), in microseconds since 1970. */
      tat: bigint("tat", whole),
      /** Nothing starts before: a handler has thrown `ThrottleTask`. */
      throttledUntil: timestamp("throttled_until", time),
      pausedAt: timestamp("paused_at", time),
      /** In a Galera cluster each claim under the limit adds one: of two on different nodes, the cluster refuses one. */
      claims: bigint("claims", whole).notNull().default(0),
    },
    (t) => [primaryKey({ columns: [t.scope, t.name, t.groupKey] })],
  );

/** One row per limit or pause, and per group whose rate has let a task start. The row is a lock, never a count. */
export const dbqLimits = limitsIn(pgTable);

const auditIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_audit",
    {
      id: bigint("id", whole).primaryKey().generatedByDefaultAsIdentity(),
      at: timestamp("at", time).notNull().default(sql`statement_timestamp()`),
      /** Who did it, where the app says so. */
      actor: text("actor"),
      action: text("action").notNull(),
      /** Which task, queue, schedule or limit was acted on, such as `task 42`. */
      target: text("target").notNull(),
      /** How many it changed. */
      count: bigint("count", whole).notNull().default(1),
      /** Why, in the words of the person. */
      reason: text("reason"),
    },
    (t) => [index("dbq_audit_target").on(t.target, t.id)],
  );

/** One row per action that a person took in the dashboard. */
export const dbqAudit = auditIn(pgTable);

const statsIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_stats",
    {
      id: bigint("id", whole).primaryKey().generatedByDefaultAsIdentity(),
      /** Begins the time that the row is about. */
      minute: timestamp("minute", time).notNull(),
      /** How many minutes the row is about: 1, or 60 once they are folded. 0: all time, with 1970 as `minute`. */
      span: integer("span").notNull().default(1),
      /** Empty once the rows of all workers are folded into one. */
      workerId: text("worker_id").notNull().default(""),
      queueName: text("queue_name").notNull(),
      func: text("func").notNull(),
      /** `completed`, `failed`, `retry`, `cancelled` or `snoozed`. */
      outcome: text("outcome").notNull(),
      /** How many attempts ended so. */
      count: bigint("count", whole).notNull(),
      /** JSON: the numbers of buckets, each followed by how many attempts are in it. */
      waitBuckets: text("wait_buckets").notNull().default("[]"),
      runBuckets: text("run_buckets").notNull().default("[]"),
    },
    (t) => [index("dbq_stats_minute").on(t.span, t.workerId, t.minute)],
  );

/** What workers have counted: attempts by minute, function and outcome, with histograms of their times. For looking only. */
export const dbqStats = statsIn(pgTable);

const failuresIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_failures",
    {
      /** The kind: a hash of the function, the error's name and its normalised message. */
      id: text("id").notNull(),
      func: text("func").notNull(),
      errorName: text("error_name").notNull(),
      /** Without numbers and other values that differ from failure to failure. */
      message: text("message").notNull(),
      /** Begins the time that the row is about. */
      minute: timestamp("minute", time).notNull(),
      /** How many minutes the row is about: 1, or 60 once they are folded. */
      span: integer("span").notNull().default(1),
      /** How many attempts ended so. */
      count: bigint("count", whole).notNull().default(0),
      firstAt: timestamp("first_at", time).notNull().default(sql`statement_timestamp()`),
      lastAt: timestamp("last_at", time).notNull().default(sql`statement_timestamp()`),
      /** A task of which an attempt ended so. */
      sample: bigint("sample", whole),
    },
    (t) => [
      primaryKey({ columns: [t.id, t.minute, t.span] }),
      index("dbq_failures_minute").on(t.span, t.minute),
    ],
  );

/** What workers have counted: failed attempts by minute and kind of failure. For looking only. */
export const dbqFailures = failuresIn(pgTable);

const owedHooksIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_owed_hooks",
    {
      id: bigint("id", whole).primaryKey().generatedByDefaultAsIdentity(),
      taskId: bigint("task_id", whole).notNull(),
      /** The task's generation while the attempt ran. */
      generationId: bigint("generation_id", whole).notNull(),
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
      createdAt: timestamp("created_at", time).notNull().default(sql`statement_timestamp()`),
    },
    (t) => [index("dbq_owed_hooks_func").on(t.queueName, t.func, t.id)],
  );

/** One row per crashed attempt whose `onFailure` has not run yet. A worker that knows the function runs it, and deletes the row. */
export const dbqOwedHooks = owedHooksIn(pgTable);

const stepsIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_steps",
    {
      id: bigint("id", whole).primaryKey().generatedByDefaultAsIdentity(),
      taskId: bigint("task_id", whole).notNull(),
      name: text("name").notNull(),
      /** The order in which the steps of a task were stored. */
      seq: integer("seq").notNull(),
      /** What the step returned; null: nothing. */
      value: json("value"),
      /** With what the step failed; null: it did not. */
      error: json("error"),
      /** The task's generation while the attempt ran that stored the step. */
      generationId: bigint("generation_id", whole).notNull(),
      startedAt: timestamp("started_at", time),
      endedAt: timestamp("ended_at", time).notNull().default(sql`statement_timestamp()`),
      /** `wanted`, `done`, `failed` or `unknown`; null: the step has nothing to undo. */
      undoState: text("undo_state"),
      undoError: json("undo_error"),
      /** Of a step that starts a child: the child's id. */
      childId: bigint("child_id", whole),
    },
    (t) => [uniqueIndex("dbq_steps_task").on(t.taskId, t.name)],
  );

/** One row per step of a task that has ended, and per child that a task has started: what a later attempt does not run again. */
export const dbqSteps = stepsIn(pgTable);

const eventsIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_events",
    {
      id: bigint("id", whole).primaryKey().generatedByDefaultAsIdentity(),
      name: text("name").notNull(),
      payload: json("payload"),
      /** Null: tasks wait for the event, and it was not emitted yet. */
      emittedAt: timestamp("emitted_at", time),
    },
    (t) => [uniqueIndex("dbq_events_name").on(t.name), index("dbq_events_emitted").on(t.emittedAt)],
  );

/** One row per event. Of several of the same name the first counts. */
export const dbqEvents = eventsIn(pgTable);

const waitsIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_waits",
    {
      id: bigint("id", whole).primaryKey().generatedByDefaultAsIdentity(),
      taskId: bigint("task_id", whole).notNull(),
      /** The name of the step that waits. */
      name: text("name").notNull(),
      /** `event`, `child` or `time`; `undo` of a task that is to fail or to be cancelled, and undoes its steps before. */
      kind: text("kind").notNull(),
      /** The name of the event, or the id of the child. */
      target: text("target"),
      /** When the wait is over in any case; null: never. */
      deadline: timestamp("deadline", time),
      /** What the end of the child means for the task; null: it goes on. */
      mode: text("mode"),
    },
    (t) => [
      uniqueIndex("dbq_waits_task").on(t.taskId, t.name),
      index("dbq_waits_target").on(t.target),
      index("dbq_waits_deadline").on(t.deadline).where(sql`deadline is not null`),
    ],
  );

/** One row per event, child or time that a task waits for. */
export const dbqWaits = waitsIn(pgTable);

const causesIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_causes",
    {
      id: bigint("id", whole).primaryKey().generatedByDefaultAsIdentity(),
      name: text("name").notNull(),
      /** A longer one ends with its SHA-256. */
      key: text("key").notNull().default(""),
      /** The cause as it was when it began. */
      cause: json("cause"),
      beganAt: timestamp("began_at", time).notNull().default(sql`statement_timestamp()`),
      /** Null: it has not ended. */
      endedAt: timestamp("ended_at", time),
      /** When the reporter has last seen it. */
      seenAt: timestamp("seen_at", time).notNull().default(sql`statement_timestamp()`),
      /** The id of the watch that reports this cause; null: none does now. */
      reporter: text("reporter"),
      /** `began` or `ended`: what the reporter's app has dealt with last; null: nothing. */
      reported: text("reported"),
    },
    (t) => [uniqueIndex("dbq_causes_name").on(t.name, t.key)],
  );

/**
 * What `queue.watchCauses` has reported: for each name of watchers a row for each cause, and one with an empty key, the lease of the
 * process that reports. Its `ended_at` is when the lease runs out.
 */
export const dbqCauses = causesIn(pgTable);

/**
 * The tables in a schema of their own, as `openQueue(url, { schema })` makes them. Export all that it returns, so that
 * drizzle-kit sees it:
 * `export const { dbqSchema, dbqTasks, dbqAttempts, dbqTaskLogs, dbqWorkers, dbqAgents, dbqSettings, dbqDrains,
 *   dbqSchedules, dbqLimits, dbqAudit, dbqStats, dbqFailures, dbqOwedHooks, dbqSteps, dbqEvents, dbqWaits,
 *   dbqCauses } = dbqTables("dbq")`.
 */
export function dbqTables<S extends string>(schema: S) {
  const dbqSchema = pgSchema(schema);
  const { table } = dbqSchema;
  return {
    dbqSchema,
    dbqTasks: tasksIn(table),
    dbqAttempts: attemptsIn(table),
    dbqTaskLogs: taskLogsIn(table),
    dbqWorkers: workersIn(table),
    dbqAgents: agentsIn(table),
    dbqSettings: settingsIn(table),
    dbqDrains: drainsIn(table),
    dbqSchedules: schedulesIn(table),
    dbqLimits: limitsIn(table),
    dbqAudit: auditIn(table),
    dbqStats: statsIn(table),
    dbqFailures: failuresIn(table),
    dbqOwedHooks: owedHooksIn(table),
    dbqSteps: stepsIn(table),
    dbqEvents: eventsIn(table),
    dbqWaits: waitsIn(table),
    dbqCauses: causesIn(table),
  };
}
