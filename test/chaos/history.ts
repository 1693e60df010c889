/** What there is to judge when a scenario has come to rest. */
import { existsSync, statSync } from "node:fs";
import type Database from "better-sqlite3";
import type { Entry } from "../fixtures/ledger.ts";
import type { Scene } from "../fixtures/scene.ts";
import { type Move, open, type WorkerMove } from "./audit.ts";

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
  /** The ledger: what the processes say. */
  entries: readonly Entry[];
  /** The audit: what has happened. */
  moves: readonly Move[];
  /** The audit of the workers. */
  workerMoves: readonly WorkerMove[];
  tasks: readonly TaskRow[];
  attempts: readonly AttemptRow[];
  /** What handlers did in the transaction of their task's completion, as the ids of those tasks. */
  effects: readonly number[];
  /** What enqueuers wrote in the transaction of an enqueue, as the `requestId` of its tasks. */
  orders: readonly string[];
  /** The ids of `dbq_workers`. */
  workers: readonly string[];
  /** What SQLite says of the file: "ok", or what is wrong. */
  integrity: string;
  /** Bytes of the write-ahead log. */
  wal: number;
}

export function historyOf({ database, ledger }: Scene): History {
  using raw = open(database);
  const all = <T>(text: string) => raw.client.prepare<[], T>(text).all();
  const column = <T>(text: string) => raw.client.prepare<[], T>(text).pluck().all();
  return {
    entries: ledger.entries(),
    moves: all<Move>(`select seq, task, at, was_status as wasStatus, status, was_generation as wasGeneration,
      generation, worker, was_retries as wasRetries, retries, registered from audit order by seq`),
    workerMoves: all<WorkerMove>(
      "select worker, at, came, holds, silent, lease from audit_workers order by seq",
    ),
    tasks: all<TaskRow>(`select id, func, status, generation_id as generation, retry_count as retries,
      max_retries as maxRetries, worker_id as worker, request_id as requestId, result, error from dbq_tasks order by id`),
    attempts: all<AttemptRow>(
      "select task_id as task, generation_id as generation, outcome, error_message as error from dbq_attempts order by id",
    ),
    effects: column<number>("select task from effects"),
    orders: column<string>("select key from orders"),
    workers: column<string>("select id from dbq_workers"),
    integrity: integrityOf(raw.client),
    wal: sizeOf(`${database}-wal`),
  };
}

function integrityOf(client: Database.Database): string {
  return (client.pragma("integrity_check(10)") as { integrity_check: string }[])
    .map(({ integrity_check: found }) => found)
    .join("; ");
}

const sizeOf = (path: string) => (existsSync(path) ? statSync(path).size : 0);
