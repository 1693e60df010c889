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
  uniqueIndex,
  varbinary,
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
    /** The order of claims: MariaDB before 10.8 has no descending indexes. */
    claimRank: bigint("claim_rank", whole).generatedAlwaysAs(sql`(-\`priority\`)`, { mode: "virtual" }),
    /** The key while the task holds it; null otherwise, and null is equal to nothing. Bytes, since trailing spaces count. */
    heldKey: varbinary("held_key", { length: 1020 }).generatedAlwaysAs(
      sql`(case when \`status\` in ('pending', 'scheduled', 'running') then cast(\`unique_key\` as binary) end)`,
      { mode: "virtual" },
    ),
  },
  (t) => [
    index("dbq_tasks_claim").on(t.status, t.queueName, t.func, t.claimRank, t.id),
    index("dbq_tasks_due").on(t.status, t.waitUntil),
    index("dbq_tasks_running").on(t.status, t.workerId),
    index("dbq_tasks_finished").on(t.status, t.finishedAt),
    index("dbq_tasks_request").on(t.requestId),
    uniqueIndex("dbq_tasks_unique").on(t.heldKey),
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
  /** Grows by one with each heartbeat: whoever watches it needs no common clock. */
  beat: bigint("beat", whole).notNull().default(1),
  /** The lock, by GET_LOCK, that the worker's own database session holds while it lives. */
  session: name("session", { length: 64 }),
});
