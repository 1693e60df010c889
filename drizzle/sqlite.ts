/** The tables of dbq on SQLite. An app may import them into its own schema: `dbq-ts/schema/sqlite`. */
import { sql } from "drizzle-orm";
import { index, integer, real, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

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
  },
  (t) => [
    // Each index holds only the rows that its question is about: a claim costs the same beside a million finished rows.
    index("dbq_tasks_claim")
      .on(t.queueName, t.func, sql`priority desc`, t.id, t.waitUntil)
      .where(sql`status = 'pending'`),
    index("dbq_tasks_due").on(t.waitUntil).where(sql`status = 'scheduled'`),
    index("dbq_tasks_running").on(t.workerId).where(sql`status = 'running'`),
    index("dbq_tasks_finished").on(t.status, t.finishedAt).where(sql`finished_at is not null`),
    index("dbq_tasks_request").on(t.requestId).where(sql`request_id is not null`),
    uniqueIndex("dbq_tasks_unique")
      .on(t.uniqueKey)
      .where(sql`unique_key is not null and status in ('pending', 'scheduled', 'running')`),
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
  /** Grows by one with each heartbeat: whoever watches it needs no common clock. */
  beat: integer("beat").notNull().default(1),
  /** On a server: the lock that the worker's own database session holds while it lives. */
  session: text("session"),
});
