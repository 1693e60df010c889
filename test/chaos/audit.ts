/**
 * The audit: triggers that write down each state change of each task, in the transaction that makes it. What is in it
 * has happened, and what has happened is in it, whoever was killed when; so the checker need not believe any process.
 */
import Database from "better-sqlite3";

/** One change of one row; `was…` is null for an insert, the rest for a deletion. */
export interface Move {
  seq: number;
  task: number;
  /** Milliseconds since 1970. */
  at: number;
  wasStatus: string | null;
  status: string | null;
  wasGeneration: number | null;
  generation: number | null;
  /** Of the row after the change. */
  worker: string | null;
  wasRetries: number | null;
  retries: number | null;
  /** Of what runs now: whether its worker has a row. 1 or 0. */
  registered: number | null;
}

/** A row of `dbq_workers` has come, or gone. */
export interface WorkerMove {
  worker: string;
  at: number;
  /** 1 or 0. */
  came: number;
  /** How many tasks run in its name. */
  holds: number;
  /** Milliseconds since its last heartbeat. */
  silent: number;
  lease: number;
}

const now = "cast(unixepoch('subsec') * 1000 as integer)";

const workerTrigger = (event: string, row: "new" | "old", came: 0 | 1) => `
  create trigger audit_worker_${event} after ${event} on dbq_workers begin
    insert into audit_workers (worker, at, came, holds, silent, lease)
    values (${row}.id, ${now}, ${came},
      (select count(*) from dbq_tasks where status = 'running' and worker_id = ${row}.id),
      ${now} - ${row}.heartbeat_at, ${row}.lease);
  end;`;

const tables = `
  create table audit (
    seq integer primary key, task integer not null, at integer not null, was_status text, status text,
    was_generation integer, generation integer, worker text, was_retries integer, retries integer,
    registered integer
  );
  create table audit_workers (
    seq integer primary key, worker text not null, at integer not null, came integer not null,
    holds integer not null, silent integer not null, lease integer not null
  );
  create table effects (task integer not null);
  create table orders (key text not null);
  create trigger audit_insert after insert on dbq_tasks begin
    insert into audit (task, at, status, generation, worker, retries)
    values (new.id, ${now}, new.status, new.generation_id, new.worker_id, new.retry_count);
  end;
  create trigger audit_update after update on dbq_tasks
    when old.status is not new.status or old.generation_id is not new.generation_id
      or old.retry_count is not new.retry_count or old.worker_id is not new.worker_id
      or old.result is not new.result or old.error is not new.error
  begin
    insert into audit (task, at, was_status, status, was_generation, generation, worker, was_retries, retries,
      registered)
    values (new.id, ${now}, old.status, new.status, old.generation_id, new.generation_id, new.worker_id,
      old.retry_count, new.retry_count,
      case when new.status = 'running' then exists (select 1 from dbq_workers where id = new.worker_id) end);
  end;
  create trigger audit_delete after delete on dbq_tasks begin
    insert into audit (task, at, was_status, was_generation, was_retries)
    values (old.id, ${now}, old.status, old.generation_id, old.retry_count);
  end;
  ${workerTrigger("insert", "new", 1)}
  ${workerTrigger("delete", "old", 0)}`;

/** Begins an audit. `effects` is for what handlers do in their own transactions, `orders` for the enqueuers. */
export function audit(database: string): void {
  using raw = open(database);
  raw.client.exec(tables);
}

/** A connection that waits for a lock as long as it takes. */
export function open(database: string): { client: Database.Database } & Disposable {
  const client = new Database(database, { timeout: 60_000, fileMustExist: true });
  return { client, [Symbol.dispose]: () => void client.close() };
}
