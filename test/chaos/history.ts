/** What the checker judges, read when a scenario's queue has been drained. */
import type { Entry } from "../fixtures/event-log.ts";
import type { Harness } from "../fixtures/harness.ts";
import type { Move, WorkerMove } from "./audit.ts";
import { backendOf, openRaw, type Raw } from "./backends/backend.ts";

export interface TaskRow {
  id: number;
  func: string;
  status: string;
  generation: number;
  retries: number;
  maxRetries: number;
  worker: string | null;
  requestId: string | null;
  result: string | null;
  error: string | null;
}

export interface AttemptRow {
  task: number;
  generation: number;
  outcome: string;
  error: string | null;
}

export interface History {
  /** The event log: what the processes report. */
  entries: readonly Entry[];
  /** The audit: what happened to the tasks. */
  moves: readonly Move[];
  /** The audit of the workers. */
  workerMoves: readonly WorkerMove[];
  tasks: readonly TaskRow[];
  attempts: readonly AttemptRow[];
  /** The ids of tasks whose handlers wrote in the transaction of their completion. */
  effects: readonly number[];
  /** The `requestId` of each order that an enqueuer wrote in the transaction of its enqueue. */
  orders: readonly string[];
  /** The ids of `dbq_workers`. */
  workers: readonly string[];
  /** The result of the database's own check: "ok", or a description of the damage. */
  integrity: string;
  /** The size of the write-ahead log in bytes; 0 on a server. */
  wal: number;
  /** On a server, workers claim ahead of their slots, and hand back tasks that get none. */
  ahead: boolean;
}

export async function historyOf({
  database,
  eventLog,
}: Pick<Harness, "database" | "eventLog">): Promise<History> {
  await using raw = await openRaw(database);
  return {
    entries: eventLog.entries(),
    ...(await rowsOf(raw)),
    ...(await backendOf(database).health(raw, database)),
    ahead: /^(postgres|mysql|mariadb)/.test(database),
  };
}

async function rowsOf(raw: Raw): Promise<Omit<History, "entries" | "integrity" | "wal" | "ahead">> {
  const effects = await raw.all<{ task: number }>("select task from effects order by seq");
  const orders = await raw.all<{ name: string }>("select name from orders order by seq");
  const workers = await raw.all<{ id: string }>("select id from dbq_workers");
  return {
    moves: await raw.all<Move>(`select seq, task, at, was_status, status, was_generation, generation, worker,
      was_retries, retries, put_off, registered from audit order by seq`),
    workerMoves: await raw.all<WorkerMove>(
      "select worker, at, came, holds, silent, lease from audit_workers order by seq",
    ),
    tasks:
      await raw.all<TaskRow>(`select id, func, status, generation_id as generation, retry_count as retries,
      max_retries, worker_id as worker, request_id, result, error from dbq_tasks order by id`),
    attempts: await raw.all<AttemptRow>(`select task_id as task, generation_id as generation, outcome,
      error_message as error from dbq_attempts order by id`),
    effects: effects.map(({ task }) => task),
    orders: orders.map(({ name }) => name),
    workers: workers.map(({ id }) => id),
  };
}
