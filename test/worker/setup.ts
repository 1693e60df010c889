/**
 * Shared by the tests of the worker: a queue with a second connection to its file, waits for the end of tasks, error
 * reports.
 */
import { join } from "node:path";
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import type { FullStore } from "../../src/features/store.ts";
import {
  currentTask,
  openQueue,
  type Queue,
  type QueueOptions,
  type Task,
  type TaskFunction,
  type TaskId,
  task,
  type Worker,
} from "../../src/index.ts";
import { temporaryFolder, temporaryQueue, uniqueName } from "../support/queue.ts";

/** No test takes this long. The limit turns a hang into a failure. */
const hang = 20_000;

export interface QueueOnFile {
  queue: Queue;
  path: string;
  /** A plain connection, such as another program would have. */
  raw: Database.Database;
  /** Another queue on the same file, which shares no wake-ups with the first, like a queue of another process. */
  elsewhere(): Promise<Queue>;
}

/** A queue on a new file. */
export async function queueOnFile(options?: QueueOptions): Promise<QueueOnFile> {
  const path = join(temporaryFolder(), "dbq.db");
  const queue = await temporaryQueue(options, path);
  const raw = new Database(path, { timeout: hang });
  onTestFinished(() => {
    raw.close();
  });
  const elsewhere = async () => {
    const other = await openQueue(path, options);
    onTestFinished(() => other.close());
    return other;
  };
  return { queue, path, raw, elsewhere };
}

/** The task once it has ended. */
export function ended<R>(queue: Queue, id: TaskId<R>): Promise<Task<R>> {
  return queue.awaitTaskCompletion(id, { timeout: hang });
}

/** The tasks once all have ended, in order. */
export function allEnded<R>(queue: Queue, ids: readonly TaskId<R>[]): Promise<Task<R>[]> {
  return Promise.all(ids.map((id) => ended(queue, id)));
}

/** The task as it is now. */
export async function read<R>(queue: Queue, id: TaskId<R>): Promise<Task<R>> {
  const task = await queue.getTask(id);
  if (task === undefined) throw new Error(`task ${id} is gone`);
  return task;
}

/**
 * Calls `look` every 5 ms until it returns a value other than `undefined` and `false`: for changes without an event.
 */
export async function until<T>(look: () => T | Promise<T>): Promise<Exclude<T, undefined | false>> {
  const end = performance.now() + hang;
  while (performance.now() < end) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen as Exclude<T, undefined | false>;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`waited ${hang} ms for nothing: ${look}`);
}

/** Waits for this many turns of the event loop. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

export interface Report {
  error: unknown;
  where: string;
}

/** The "error" events of a worker, as they come. */
export function reportsOf(worker: Worker): Report[] {
  const reports: Report[] = [];
  worker.on("error", (error, where) => reports.push({ error, where }));
  return reports;
}

type TaskEvent =
  | "started"
  | "completed"
  | "failed"
  | "retrying"
  | "cancelled"
  | "snoozed"
  | "interrupted"
  | "lost";

/** The next event of this kind, for the task `id` if one is given. */
export function next(worker: Worker, event: TaskEvent, id?: number): Promise<Task> {
  return new Promise((resolve) => {
    const listener = (task: Task) => {
      if (id !== undefined && task.id !== id) return;
      worker.off(event, listener);
      resolve(task);
    };
    worker.on(event, listener);
  });
}

/** The promise's rejection; an error when it does not reject. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    (value) => Promise.reject(new Error(`expected a rejection, got ${String(value)}`)),
    (error: unknown) => error,
  );
}

/** Wraps the store's `settleAndClaim` for a worker; the wrapped calls are real. */
export function aroundTurns(
  queue: Queue,
  around: (turn: FullStore["settleAndClaim"]) => FullStore["settleAndClaim"],
): void {
  const { store } = internalsOf(queue);
  store.settleAndClaim = around(store.settleAndClaim);
}

/** A task that logs `0.0`, `0.1`, … in its first attempt and `1.0`, … in its second. All attempts but the last throw. */
export function loggingTask(attempts: number, lines: number): TaskFunction<[], void> {
  return task(
    uniqueName(),
    async () => {
      const { log, retryCount } = currentTask();
      for (let n = 0; n < lines; n += 1) log(`${retryCount}.${n}`);
      if (retryCount + 1 < attempts) throw new Error("no luck");
    },
    { backoff: () => 1, maxRetries: attempts - 1 },
  );
}

/** Throws any value; elsewhere the linter rightly requires errors. */
export function raise(value: unknown): never {
  throw value;
}

/** Rejects with the signal's reason when it is aborted: a handler that obeys its signal. */
export function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
