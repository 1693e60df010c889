/** Opening queues, and the default one. Drivers are loaded here, when a queue opens, and nowhere else. */

import { show } from "./base/options/durations.ts";
import {
  type AwaitOptions,
  type QueueOptions,
  type ReadQueueOptions,
  readQueueOptions,
} from "./base/options/options.ts";
import { processGlobal } from "./base/runtime/process-globals.ts";
import type { AnyFunction } from "./base/tasks/registry.ts";
import { prepare } from "./queue/enqueue.ts";
import { internalsOf } from "./queue/internals.ts";
import { Queue } from "./queue/queue.ts";
import type { Store } from "./store.ts";
import type { Task, TaskId } from "./task.ts";

/** A path, a `sqlite:`, `postgres:` or `mysql:` URL, `":memory:"`, or the app's own Drizzle database object. */
export type QueueTarget = string | object;

/**
 * Opens the queue in a database; creates the file and the tables where they are missing.
 * @param target @default process.env.DBQ_URL ?? "dbq.db"
 * @throws DatabaseError that says what is wrong with the database; TypeError for wrong options
 */
export async function openQueue(
  target: QueueTarget = process.env.DBQ_URL ?? "dbq.db",
  options?: QueueOptions,
): Promise<Queue> {
  const read = readQueueOptions(options);
  return new Queue(await openStore(target, read), read);
}

async function openStore(target: unknown, options: ReadQueueOptions): Promise<Store> {
  if (typeof target === "string") return await openTarget(target, options);
  if (typeof target !== "object" || target === null) {
    throw new TypeError(`openQueue: expected a path, a URL or a Drizzle database, got ${show(target)}`);
  }
  if (isOf(target, "PgDatabase"))
    return await (await import("./stores/postgres/store.ts")).openPostgresDatabase(target, options);
  if (isOf(target, "MySqlDatabase"))
    return await (await import("./stores/mysql/store.ts")).openMysqlDatabase(target, options);
  return await (await import("./stores/sqlite/store.ts")).openSqliteDatabase(target, options);
}

const entityKind = Symbol.for("drizzle:entityKind");

/** Whether it is one of Drizzle's databases: it knows its classes by these names, and so do copies of it. */
function isOf(target: object, kind: string): boolean {
  for (let above = Object.getPrototypeOf(target); above !== null; above = Object.getPrototypeOf(above))
    if (above.constructor?.[entityKind] === kind) return true;
  return false;
}

async function openTarget(target: string, options: ReadQueueOptions): Promise<Store> {
  if (target === "") throw new TypeError('openQueue: expected a path or a URL, got ""');
  if (/^[\s"']+[a-z]+:/i.test(target))
    throw new TypeError("openQueue: the URL begins with a space or a quotation mark: leave that out");
  const scheme = schemeOf(target);
  switch (scheme) {
    case undefined:
    case "sqlite":
      return await (await import("./stores/sqlite/store.ts")).openSqlite(sqlitePath(target), options);
    case "postgres":
    case "postgresql":
      return await (await driver(() => import("./stores/postgres/store.ts"), "pg")).openPostgres(
        target,
        options,
      );
    case "mysql":
    case "mariadb":
      return await (await driver(() => import("./stores/mysql/store.ts"), "mysql2")).openMysql(
        target,
        options,
      );
    default:
      throw new TypeError(
        `openQueue: there is no store for ${scheme}: URLs; there are sqlite:, postgres:, mysql: and mariadb:`,
      );
  }
}

/** Two letters at least: "C:" begins a path on Windows. */
function schemeOf(target: string): string | undefined {
  if (target === ":memory:") return undefined;
  return /^([a-z][a-z0-9+.-]+):/i.exec(target)?.[1]?.toLowerCase();
}

/** @throws TypeError when the package is missing that the app has to install beside dbq */
async function driver<T>(load: () => Promise<T>, name: string): Promise<T> {
  try {
    await import(name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new TypeError(`openQueue: the package "${name}" is missing: npm install ${name}`, { cause: error });
  }
  return await load();
}

/** @throws TypeError for a URL that names no file */
function sqlitePath(target: string): string {
  if (schemeOf(target) === undefined) return target;
  const path = target
    .slice("sqlite:".length)
    .replace(/^\/\/(?=\/|$)/, "")
    .replace(/^\/\//, "");
  if (path === "") throw new TypeError(`openQueue: the URL ${show(target)} names no file`);
  return path;
}

// ---- the default queue -----------------------------------------------------------------------

const defaults = processGlobal<{ queue: Promise<Queue> | undefined }>("defaults", () => ({
  queue: undefined,
}));

/** Makes `queue` what `enqueueTask`, `awaitTaskCompletion` and `awaitTaskResult` use; `undefined`: opened anew on next use. */
export function setDefaultQueue(queue: Queue | undefined): void {
  if (queue !== undefined) internalsOf(queue);
  defaults.queue = queue && Promise.resolve(queue);
}

/** The default queue: the one that was set, or one that is opened now by `openQueue()`. @throws as `openQueue` */
export function getDefaultQueue(): Promise<Queue> {
  if (defaults.queue) return defaults.queue;
  const opening = openQueue();
  defaults.queue = opening;
  // A failure is not remembered: the next use tries again.
  opening.catch(() => {
    if (defaults.queue === opening) defaults.queue = undefined;
  });
  return opening;
}

/** `Queue.enqueueTask` of the default queue. */
export async function enqueueTask<F extends AnyFunction>(
  fn: F,
  ...args: Parameters<F>
): Promise<TaskId<Awaited<ReturnType<F>>>> {
  // Encoded now: what happens to the arguments while the queue opens does not matter.
  const prepared = prepare(fn, args);
  return (await internalsOf(await getDefaultQueue()).enqueue(prepared)) as TaskId<Awaited<ReturnType<F>>>;
}

/** `Queue.awaitTaskCompletion` of the default queue. */
export async function awaitTaskCompletion<R = unknown>(
  id: TaskId<R> | number,
  options?: AwaitOptions,
): Promise<Task<R>> {
  return await (await getDefaultQueue()).awaitTaskCompletion<R>(id, options);
}

/** `Queue.awaitTaskResult` of the default queue. */
export async function awaitTaskResult<R = unknown>(
  id: TaskId<R> | number,
  options?: AwaitOptions,
): Promise<R> {
  return await (await getDefaultQueue()).awaitTaskResult<R>(id, options);
}
