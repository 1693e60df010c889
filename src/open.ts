/** Opens queues and keeps the default one. A database's driver is loaded here, when a queue opens, and nowhere else. */

import { show } from "./base/options/durations.ts";
import { encryptionFrom } from "./base/options/encryption.ts";
import {
  type AwaitOptions,
  type QueueOptions,
  type ReadQueueOptions,
  readQueueOptions,
} from "./base/options/options.ts";
import { withoutPassword } from "./base/options/passwords.ts";
import { schemaName } from "./base/options/validators.ts";
import type { Clock } from "./base/runtime/clock.ts";
import { adviceOnReplicas, drizzleClasses, isDrizzle } from "./base/runtime/drizzle-internals.ts";
import { importPackage, isMissingPackage } from "./base/runtime/packages.ts";
import { processGlobal } from "./base/runtime/process-globals.ts";
import type { Enqueueable } from "./base/tasks/enqueueable.ts";
import { traced, traces } from "./events.ts";
import { causes } from "./features/causes/index.ts";
import { settleDrained } from "./features/drain/settle-drained.ts";
import { encryption } from "./features/encryption/index.ts";
import { openChildExecutors } from "./features/executors/executors.ts";
import { failures } from "./features/failures/index.ts";
import { owedHooks } from "./features/hooks/index.ts";
import { health } from "./features/inspect/health.ts";
import { watchTasks } from "./features/inspect/watch-tasks.ts";
import { limits } from "./features/limits/index.ts";
import { look } from "./features/look/index.ts";
import { metricsText } from "./features/metrics/prometheus.ts";
import { partitions } from "./features/partitions/index.ts";
import { internalsOf, type Queue } from "./features/queue.ts";
import { schedules } from "./features/schedules/index.ts";
import { stats } from "./features/stats/index.ts";
import type { FullStore } from "./features/store.ts";
import { workflows } from "./features/workflows/index.ts";
import type { DatabaseOf } from "./queue/drizzle.ts";
import { aboutEnqueue, prepare } from "./queue/enqueue.ts";
import { CoreQueue } from "./queue/queue.ts";
import type { Task, TaskId } from "./task.ts";
import { addFeature, type Feature } from "./worker/feature.ts";

/** A path, a `sqlite:`, `postgres:`, `mysql:` or `mariadb:` URL, `":memory:"`, or the app's own Drizzle database object. */
export type QueueTarget = string | object;

/**
 * Opens the queue in a database. Creates the file and the tables when they are missing. The literal type of a path or URL,
 * and the type of a Drizzle database, become that of the queue's transactions; for any `string` write
 * `const queue: Queue<NodePgDatabase> = await openQueue(url)`, with the type of your Drizzle database.
 * @param target by default `process.env.DBQ_URL ?? "dbq.db"`, with the keys of `DBQ_ENCRYPTION_KEYS`; an `undefined` that is passed is refused, by its type too
 * @throws DatabaseError when the database cannot be used, and why; TypeError for a wrong option, or when the database's
 * driver is not installed
 */
export function openQueue<const Target extends QueueTarget>(
  target: Target | QueueTarget,
  options?: QueueOptions,
): Promise<Queue<DatabaseOf<Target>>>;
export function openQueue(): Promise<Queue>;
export async function openQueue(...given: [target?: QueueTarget, options?: QueueOptions]): Promise<Queue> {
  const [target, options] = given.length === 0 ? ofEnvironment() : given;
  // `openQueue(process.env.NOT_SET)` must not open another database than the one that is meant.
  if (target === undefined)
    throw new TypeError(
      "openQueue: the database is undefined (an environment variable that is not set?): pass a path, a URL or a Drizzle " +
        'database, or call openQueue() without arguments, which opens DBQ_URL, else "dbq.db"',
    );
  refuseInChild();
  return await openWith(target, readQueueOptions(options));
}

/** Each command gives its database and its keys to the default queue of the app's modules in this way. */
function ofEnvironment(): [target: string, options: QueueOptions] {
  const encryption = encryptionFrom(process.env);
  return [process.env.DBQ_URL ?? "dbq.db", encryption ? { encryption } : {}];
}

/**
 * Opens a queue whose time is the test's: what is due, how old a heartbeat is and all that follows from it are judged by
 * `clock`, in SQL too. Not for production: a server's own clock is one for all of its clients. Apps use `testQueue` of
 * `dbq-ts/testing`.
 * @throws as `openQueue`
 * @internal
 */
export async function openQueueAt(clock: Clock, target: QueueTarget, options?: QueueOptions): Promise<Queue> {
  return await openWith(target, { ...readQueueOptions(options), clock });
}

async function openWith(target: QueueTarget, read: ReadQueueOptions): Promise<Queue> {
  const store = await openStore(target, read);
  if (read.partitionFinished && !store.partitions) {
    await store.close();
    throw new TypeError(
      "openQueue: the option partitionFinished is Postgres's: leave it out for another database",
    );
  }
  if (!read.encryption) return withFeatures(new CoreQueue(store, read));
  const { openEncrypted } = await import("./features/encryption/open.ts");
  return withFeatures(new CoreQueue(await openEncrypted(store, read.encryption), read));
}

const executors = (): Feature => ({ executors: openChildExecutors });

const metrics = (queue: Queue): Feature => ({ shared: { metrics: () => metricsText(queue) } });

/** The same queue over another store. */
const views = (queue: Queue): Feature => {
  const { store, options } = internalsOf(queue);
  const over = (other: FullStore) => withFeatures(new CoreQueue(other, options));
  return { shared: { over, reader: async () => over(await store.reader()) } };
};

/** What a queue has that is not in the core. Without a line of this list it works, and lacks that feature. */
const features = [
  executors,
  schedules,
  owedHooks,
  limits,
  partitions,
  look,
  health,
  watchTasks,
  stats,
  settleDrained,
  failures,
  causes,
  encryption,
  metrics,
  views,
  workflows,
];

function withFeatures(core: CoreQueue): Queue {
  // Of this type once all features have joined.
  const queue = core as Queue;
  for (const feature of features) addFeature(queue, feature(queue));
  return queue;
}

/** A thread with a database driver cannot be stopped safely. @throws TypeError in the thread or process of a task */
function refuseInChild(): void {
  if (!processGlobal("child", () => false)) return;
  throw new TypeError(
    "openQueue: the threads and processes of tasks open no database: move the task into a module that opens no queue, and " +
      "return what the worker should write or enqueue as its result",
  );
}

/** A process has few connections to a server, however many queues and workers it has. */
const sharesPool = true;

async function openStore(target: unknown, options: ReadQueueOptions): Promise<FullStore> {
  if (typeof target === "string") return await openTarget(target, options);
  if (isDrizzle(target, drizzleClasses.postgres.database))
    return await (await import("./stores/postgres/store.ts")).openPostgresDatabase(target, {
      ...options,
      sharesPool,
    });
  if (isDrizzle(target, drizzleClasses.mysql.database)) {
    refuseSchema(options.schema, onMysql);
    return await (await import("./stores/mysql/store.ts")).openMysqlDatabase(target, {
      ...options,
      sharesPool,
    });
  }
  if (isDrizzle(target, drizzleClasses.sqlite.database)) {
    refuseSchema(options.schema, onSqlite);
    return await (await import("./stores/sqlite/store.ts")).openSqliteDatabase(target, options);
  }
  throw new TypeError(
    `openQueue: expected a path, a URL or a Drizzle database, got ${show(target)}${adviceOnReplicas(target)}`,
  );
}

async function openTarget(target: string, options: ReadQueueOptions): Promise<FullStore> {
  if (target === "") throw new TypeError('openQueue: expected a path or a URL, got ""');
  if (/^[\s"']+[a-z]+:/i.test(target))
    throw new TypeError("openQueue: the URL begins with a space or a quotation mark: leave that out");
  const scheme = schemeOf(target);
  switch (scheme) {
    case undefined:
    case "sqlite":
      refuseSchema(options.schema, onSqlite);
      await checkInstalled("better-sqlite3");
      return await (await import("./stores/sqlite/store.ts")).openSqlite(sqlitePath(target), options);
    case "postgres":
    case "postgresql":
      await checkInstalled("pg");
      return await (await import("./stores/postgres/store.ts")).openPostgres(target, {
        ...options,
        sharesPool,
        schema: schemaOf(target, options),
      });
    case "mysql":
    case "mariadb":
      refuseSchema(schemaOf(target, options), onMysql);
      await checkInstalled("mysql2");
      return await (await import("./stores/mysql/store.ts")).openMysql(target, { ...options, sharesPool });
    default:
      throw new TypeError(
        `openQueue: there is no store for ${scheme}: URLs; there are sqlite:, postgres:, mysql: and mariadb:`,
      );
  }
}

/** The scheme of a URL, of at least two letters: on Windows "C:" begins a path. */
function schemeOf(target: string): string | undefined {
  if (target === ":memory:") return undefined;
  return /^([a-z][a-z0-9+.-]+):/i.exec(target)?.[1]?.toLowerCase();
}

/** The schema that the option or the URL's parameter names. @throws TypeError when they differ, or for a wrong name */
function schemaOf(target: string, { schema }: ReadQueueOptions): string | undefined {
  const parameter = new URLSearchParams(target.split("?")[1] ?? "").get("schema");
  if (parameter === null) return schema;
  const named = schemaName(parameter, `openQueue: the parameter schema of ${withoutPassword(target)}`);
  if (schema === undefined || schema === named) return named;
  throw new TypeError(
    `openQueue: the option schema is ${show(schema)}, and the URL says ${show(named)}: name one schema`,
  );
}

const onMysql = "on MySQL and MariaDB a schema is a database: name it in the URL's path";
const onSqlite = "on SQLite a file has one queue: give this one a file of its own";

/** @throws TypeError when a schema is named for a database that is not Postgres */
function refuseSchema(schema: string | undefined, instead: string): void {
  if (schema !== undefined)
    throw new TypeError(`openQueue: the option schema is Postgres's, got ${show(schema)}: ${instead}`);
}

/** Drivers are optional peers: an app installs those of its databases. @throws TypeError when this one is missing */
async function checkInstalled(name: string): Promise<void> {
  try {
    await importPackage(name);
  } catch (error) {
    if (!isMissingPackage(error)) throw error;
    throw new TypeError(`openQueue: the package "${name}" is missing: npm install ${name}`, { cause: error });
  }
}

/** The path in a `sqlite:` URL; a path as it is. @throws TypeError when the URL has none */
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

/** The default queues that are open. */
const opened = new WeakMap<Promise<Queue>, Queue>();

/**
 * Makes `queue` the default: `enqueueTask`, `awaitTaskCompletion` and `awaitTaskResult` use it. After `undefined`, their next
 * use opens a new default queue.
 */
export function setDefaultQueue(queue: Queue | undefined): void {
  if (queue !== undefined) internalsOf(queue);
  defaults.queue = queue && Promise.resolve(queue);
  if (queue && defaults.queue) opened.set(defaults.queue, queue);
}

/** The default queue: the one that was set, or else one that this call opens with `openQueue()`. @throws as `openQueue` */
export function getDefaultQueue(): Promise<Queue> {
  if (defaults.queue) return defaults.queue;
  const opening = openQueue();
  defaults.queue = opening;
  const failed = () => {
    // After a failure the next use tries again.
    if (defaults.queue === opening) defaults.queue = undefined;
  };
  opening.then((queue) => opened.set(opening, queue), failed);
  return opening;
}

/** `Queue.enqueueTask` on the default queue. */
export async function enqueueTask<F extends Enqueueable>(
  fn: F,
  ...args: Parameters<F>
): Promise<TaskId<Awaited<ReturnType<F>>>> {
  const queue = defaults.queue && opened.get(defaults.queue);
  // The queue sees before the first `await` whether it is called in a transaction: on SQLite that ends in this tick.
  if (queue) return await queue.enqueueTask(fn, ...args);
  const write = async () => {
    // Encode now: the caller may change the arguments while the queue opens.
    const prepared = prepare(fn, args);
    return await internalsOf(await getDefaultQueue()).enqueue(prepared);
  };
  return (await traced(traces.enqueue, () => aboutEnqueue([[fn]]), write)) as TaskId<Awaited<ReturnType<F>>>;
}

/** `Queue.awaitTaskCompletion` on the default queue. */
export async function awaitTaskCompletion<R = unknown>(
  id: TaskId<R> | number,
  options?: AwaitOptions,
): Promise<Task<R>> {
  return await (await getDefaultQueue()).awaitTaskCompletion<R>(id, options);
}

/** `Queue.awaitTaskResult` on the default queue. */
export async function awaitTaskResult<R = unknown>(
  id: TaskId<R> | number,
  options?: AwaitOptions,
): Promise<R> {
  return await (await getDefaultQueue()).awaitTaskResult<R>(id, options);
}
