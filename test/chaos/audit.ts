/**
 * The audit: triggers that record each state change of each task in the transaction that makes it. It holds exactly
 * what happened, whichever process was killed, so the checker need not trust any process.
 */
import { backendOf, openRaw } from "./backends/backend.ts";

/** One change of a task's row. The `was…` columns are null for an insert, the others for a deletion. */
export interface Move {
  seq: number;
  task: number;
  /** Milliseconds since 1970. */
  at: number;
  wasStatus: string | null;
  status: string | null;
  wasGeneration: number | null;
  generation: number | null;
  /** The worker in the row after the change. */
  worker: string | null;
  wasRetries: number | null;
  retries: number | null;
  /** The limit whose rate has put the task off; null or undefined: none. */
  putOff?: string | null;
  /** For a task that now runs: 1 when its worker has a row, else 0. */
  registered: number | null;
}

/** A row of `dbq_workers` that was inserted or deleted. */
export interface WorkerMove {
  worker: string;
  at: number;
  /** 1 for an insert, 0 for a deletion. */
  came: number;
  /** How many running tasks the worker has. */
  holds: number;
  /** Milliseconds since its last heartbeat. */
  silent: number;
  lease: number;
}

/** What a trigger records about a changed row. */
export interface Trigger {
  name: string;
  event: "insert" | "update" | "delete";
  table: string;
  /** A condition; without one, the trigger records all changes. */
  when?: string;
  columns: readonly string[];
  /** The values to insert, in terms of `old` and `new`. A query is in parentheses. */
  values: readonly string[];
}

/** Where the SQL of an audit differs between databases. */
export interface AuditDialect {
  /** The type of an ascending key. */
  serial: string;
  /** Milliseconds since 1970: the current time, and that of a column. */
  now: string;
  millis: (time: string) => string;
  /** Which tasks a worker runs, by an index: in a trigger MySQL locks every row that a query reads. */
  runBy: (worker: string) => string;
  /** Whether a column has changed. */
  differs: (column: string) => string;
  /** The statements that create a trigger which inserts into the table `into`. */
  trigger: (trigger: Trigger, into: string) => string[];
}

const watched = ["status", "generation_id", "retry_count", "worker_id", "result", "error"];

const taskTriggers = ({ now, differs }: AuditDialect): Trigger[] => [
  {
    name: "audit_insert",
    event: "insert",
    table: "dbq_tasks",
    columns: ["task", "at", "status", "generation", "worker", "retries"],
    values: ["new.id", now, "new.status", "new.generation_id", "new.worker_id", "new.retry_count"],
  },
  {
    name: "audit_update",
    event: "update",
    table: "dbq_tasks",
    when: watched.map(differs).join(" or "),
    columns: [
      ...["task", "at", "was_status", "status", "was_generation", "generation", "worker"],
      ...["was_retries", "retries", "put_off", "registered"],
    ],
    values: [
      ...["new.id", now, "old.status", "new.status", "old.generation_id", "new.generation_id"],
      ...["new.worker_id", "old.retry_count", "new.retry_count", "new.put_off_by"],
      "(select case when new.status = 'running' then (select count(*) from dbq_workers where id = new.worker_id) end)",
    ],
  },
  {
    name: "audit_delete",
    event: "delete",
    table: "dbq_tasks",
    columns: ["task", "at", "was_status", "was_generation", "was_retries"],
    values: ["old.id", now, "old.status", "old.generation_id", "old.retry_count"],
  },
];

const workerTrigger = ({ now, millis, runBy }: AuditDialect, event: "insert" | "delete"): Trigger => {
  const row = event === "insert" ? "new" : "old";
  return {
    name: `audit_worker_${event}`,
    event,
    table: "dbq_workers",
    columns: ["worker", "at", "came", "holds", "silent", "lease"],
    values: [
      ...[`${row}.id`, now, event === "insert" ? "1" : "0"],
      `(select count(*) from dbq_tasks where ${runBy(`${row}.id`)})`,
      ...[`${now} - ${millis(`${row}.heartbeat_at`)}`, `${row}.lease`],
    ],
  };
};

const tables = ({ serial }: AuditDialect): string[] => [
  `create table audit (
    seq ${serial}, task bigint not null, at bigint not null, was_status text, status text,
    was_generation bigint, generation bigint, worker text, was_retries bigint, retries bigint, put_off text, registered bigint
  )`,
  `create table audit_workers (
    seq ${serial}, worker text not null, at bigint not null, came bigint not null, holds bigint not null,
    silent bigint not null, lease bigint not null
  )`,
  `create table effects (seq ${serial}, task bigint not null)`,
  `create table orders (seq ${serial}, name text not null)`,
];

/** Creates the audit. `effects` is for what handlers do in their own transactions, `orders` for the enqueuers. */
export async function audit(database: string): Promise<void> {
  const { audit: dialect } = backendOf(database);
  const triggers = [
    ...taskTriggers(dialect).flatMap((each) => dialect.trigger(each, "audit")),
    ...(["insert", "delete"] as const).flatMap((event) =>
      dialect.trigger(workerTrigger(dialect, event), "audit_workers"),
    ),
  ];
  await using raw = await openRaw(database);
  for (const statement of [...tables(dialect), ...triggers]) await raw.run(statement);
}
