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
  text,
  timestamp,
  uniqueIndex,
} from "drizzle-orm/pg-core";

const whole = { mode: "number" } as const;
const time = { withTimezone: true } as const;

const tasksIn = <S extends string | undefined>(table: PgTableFn<S>) =>
  table(
    "dbq_tasks",
    {
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
    },
    (t) => [
      // Each index holds only the rows that its question is about: a claim costs the same beside a million finished rows.
      index("dbq_tasks_claim")
        .on(t.queueName, t.func, sql`priority desc`, t.id)
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
    /** Grows by one with each heartbeat: whoever watches it needs no common clock. */
    beat: bigint("beat", whole).notNull().default(1),
    /** The advisory lock that the worker's own database session holds while it lives. */
    session: text("session"),
  });

/** One row per live worker: its heartbeat, and what tells others that it has died. */
export const dbqWorkers = workersIn(pgTable);

/**
 * The tables in a schema of their own, as `openQueue(url, { schema })` makes them. Export all that it returns, so that
 * drizzle-kit sees it:
 * `export const { dbqSchema, dbqTasks, dbqAttempts, dbqTaskLogs, dbqWorkers } = dbqTables("dbq")`.
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
  };
}
