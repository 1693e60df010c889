/** The content of the projects: programs as users write them, and one that observes what an import does. */

export const tasks = `
import { task } from "dbq-ts";

export const resize = task(
  "resize",
  async (path: string, width: number) => ({ path, bytes: width * 10 }),
  { maxRetries: 5, timeout: "30s" },
);
`;

/** In an async function: a CommonJS project has no await at the top. */
export const app = `
import {
  awaitTaskCompletion, DatabaseError, enqueueTask, openQueue, setDefaultQueue, type Task, type TaskId, Worker,
} from "dbq-ts";
import { resize } from "./tasks.js";

async function main() {
  const queue = await openQueue();
  setDefaultQueue(queue);
  const worker = new Worker(queue);
  await worker.start();

  const id: TaskId<{ path: string; bytes: number }> = await enqueueTask(resize, "a.png", 320);
  const done: Task<{ path: string; bytes: number }> = await awaitTaskCompletion(id, { timeout: "20s" });

  await worker.stop();
  await queue.close();
  const refused: unknown = await openQueue("no/such/folder/dbq.db").catch((error: unknown) => error);
  console.log(JSON.stringify({
    status: done.status,
    bytes: done.result?.bytes,
    isDatabaseError: refused instanceof DatabaseError,
  }));
}

/** Never called: only the compiler looks at it. */
export function wrong() {
  // @ts-expect-error the second argument is a number
  enqueueTask(resize, "a.png", "wide");
  // @ts-expect-error there is no such option
  resize.with({ prority: 1 });
  // @ts-expect-error the result has no such property
  enqueueTask(resize, "a.png", 320).then((id) => awaitTaskCompletion(id)).then((done) => done.result?.width);
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
`;

/** What \`app\` prints. */
export const appPrints = { status: "completed", bytes: 3200, isDatabaseError: true };

/**
 * Tasks that run in a thread and in a process, and where.
 * @param module the expression for their module
 */
export const elsewhere = (module: string) => `
import { threadId } from "node:worker_threads";
import { currentTask, task } from "dbq-ts";

const where = () => {
  currentTask().log("here");
  return { process: process.pid, thread: threadId };
};
const here = ${module};
export const inThread = task("in-thread", where, { runIn: "thread", module: here, memory: "128MB" });
export const inProcess = task("in-process", where, { runIn: "process", module: here, memory: "128MB" });
`;

/** Runs these tasks, and prints whether each ran elsewhere. */
export const elsewhereApp = `
import { openQueue, Worker } from "dbq-ts";
import { inProcess, inThread } from "./tasks.js";

async function main() {
  const queue = await openQueue(":memory:");
  const worker = new Worker(queue);
  await worker.start();
  const ids = [await queue.enqueueTask(inThread), await queue.enqueueTask(inProcess)];
  const [thread, child] = await Promise.all(ids.map((id) => queue.awaitTaskResult(id, { timeout: "30s" })));
  await worker.stop();
  await queue.close();
  console.log(JSON.stringify({
    thread: thread?.process === process.pid && thread?.thread > 0,
    process: child?.process !== process.pid && child?.thread === 0,
  }));
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
`;

export const vitestTest = `
import { openQueue, task, Worker } from "dbq-ts";
import { expect, test } from "vitest";

test("a task runs", async () => {
  const queue = await openQueue(":memory:");
  const worker = new Worker(queue);
  const double = task("double", async (n: number) => n * 2);
  await worker.start();
  expect(await queue.awaitTaskResult(await queue.enqueueTask(double, 21), { timeout: "20s" })).toBe(42);
  await worker.stop();
  await queue.close();
});
`;

/** Tasks that use the current task's properties, and outcomes that dbq recognises by their classes. */
export const steering = `
import { CancelTask, currentTask, enqueueTask, task, UnregisteredFunctionError } from "dbq-ts";

export const look = task("look", async () => currentTask().id);
export const giveUp = task("give-up", async () => {
  throw new CancelTask("no use");
});
/** On the default queue, which the other copy has set. */
export const enqueueByDefault = task("enqueue-by-default", async () => await enqueueTask(look));
export const OfThisCopy = UnregisteredFunctionError;
`;

export const mixed = `
import { openQueue, registeredNames, setDefaultQueue, UnregisteredFunctionError, Worker } from "dbq-ts";

const { look, giveUp, enqueueByDefault, OfThisCopy } = await import(process.argv[2]);
const names = registeredNames().sort();
const queue = await openQueue("mixed.db");
setDefaultQueue(queue);
const refused = await queue.enqueueTask(() => 1).catch((error) => error);
const worker = new Worker(queue);
await worker.start();
const looked = await queue.awaitTaskCompletion(await queue.enqueueTask(look), { timeout: "20s" });
const gaveUp = await queue.awaitTaskCompletion(await queue.enqueueTask(giveUp), { timeout: "20s" });
const id = await queue.awaitTaskResult(await queue.enqueueTask(enqueueByDefault), { timeout: "20s" });
const { func, status } = await queue.awaitTaskCompletion(id, { timeout: "20s" });
await worker.stop();
await queue.close();
console.log(JSON.stringify({
  copies: new Set([UnregisteredFunctionError, OfThisCopy]).size,
  names,
  looked: { status: looked.status, result: looked.result },
  gaveUp: gaveUp.status,
  enqueued: { func, status },
  isRefused: refused instanceof OfThisCopy && refused instanceof UnregisteredFunctionError,
}));
`;

/** Only the compiler looks at it: what a transaction is, by the app's own Drizzle database or by a URL. */
export const typedTransactions = `
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import { openQueue, task, type TaskId } from "dbq-ts";

const send = task("send", async (order: number) => "sent");

export async function postgres(db: NodePgDatabase) {
  const queue = await openQueue(db);
  await queue.transaction(async (tx, q) => {
    await tx.execute("select 1");
    const id: TaskId<string> = await q.enqueueTask(send, 1);
    // @ts-expect-error it is a promise
    const early: TaskId<string> = q.enqueueTask(send, 1);
    return [id, early];
  });
  const byUrl = await openQueue("postgres://ada@localhost/shop");
  await byUrl.transaction(async (tx, q) => {
    await tx.execute("select 1");
    // @ts-expect-error it is a promise
    const early: TaskId<string> = q.enqueueTask(send, 1);
    return early;
  });
}

export async function sqlite(db: BetterSQLite3Database) {
  const queue = await openQueue(db);
  const id: TaskId<string> = db.transaction((tx) => queue.within(tx).enqueueTask(send, 1));
  await queue.transaction((tx, q) => {
    tx.run("select 1");
    const inside: TaskId<string> = q.enqueueTask(send, 1);
    // @ts-expect-error it is no promise
    q.enqueueTask(send, 1).then();
    return [id, inside];
  });
}
`;

/** An app whose own drizzle-kit makes its tables, and that enqueues in its own transaction. */
export const ownDatabase = `
import Database from "better-sqlite3";
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { migrate } from "drizzle-orm/better-sqlite3/migrator";
import { openQueue, task } from "dbq-ts";
import { dbqTasks, orders } from "./schema.js";

const send = task("send", async (order: number) => order);

async function main() {
  const db = drizzle({ client: new Database("app.db") });
  migrate(db, { migrationsFolder: "migrations" });
  const queue = await openQueue(db, { migrate: false });
  const order = (name: string, keep: boolean) => () =>
    db.transaction((tx) => {
      const { id } = tx.insert(orders).values({ name }).returning().get();
      queue.within(tx).enqueueTask(send, id);
      if (!keep) tx.rollback();
    }, { behavior: "immediate" });
  order("kept", true)();
  try { order("dropped", false)(); } catch {}
  const rows: { func: string; args: string | null }[] =
    db.select({ func: dbqTasks.func, args: dbqTasks.args }).from(dbqTasks).where(eq(dbqTasks.status, "pending")).all();
  console.log(JSON.stringify({ orders: db.select().from(orders).all().length, rows }));
  await queue.close();
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
`;

export const ownSchema = `
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
export * from "dbq-ts/schema/sqlite";

export const orders = sqliteTable("orders", { id: integer().primaryKey(), name: text().notNull() });
`;

export const ownKitConfig = `
import { defineConfig } from "drizzle-kit";
export default defineConfig({ dialect: "sqlite", schema: "./schema.ts", out: "./migrations" });
`;

/** Prints what is loaded before an import of dbq, after it, and after a queue was opened. */
export const probe = `
import { readdirSync, readFileSync } from "node:fs";
import { register } from "node:module";

const log = process.argv[2];
register(new URL("loads.mjs", import.meta.url), { data: log });

const look = () => ({
  packages: [...new Set(
    readFileSync(log, "utf8").split("\\n").filter(Boolean).map((url) => /.*node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url)?.[1]),
  )].filter((name) => name !== undefined).sort(),
  addons: process.report.getReport().sharedObjects.filter((path) => path.endsWith(".node")).length,
  listeners: process.eventNames().map((name) => [String(name), process.listenerCount(name)]),
  // Requests of the module loader come and go.
  resources: process.getActiveResourcesInfo().filter((name) => !/Req/.test(name)),
  files: readdirSync("."),
  env: Object.keys(process.env).length,
});

const before = look();
const dbq = await import("dbq-ts");
const after = look();
const queue = await dbq.openQueue("probe.db");
const opened = look();
await queue.close();
console.log(JSON.stringify({ before, after, opened }));
`;

/** Logs the URL of each loaded module. */
export const loads = `
import { appendFileSync } from "node:fs";
let log;
export const initialize = (path) => { log = path; };
export const load = (url, context, next) => {
  appendFileSync(log, url + "\\n");
  return next(url, context);
};
`;

/** An app with dbq's tables in its own schema: the compiler sees their types, and its own drizzle-orm accepts them. */
export const serverSchema = `
import { getTableName, is } from "drizzle-orm";
import { MySqlTable } from "drizzle-orm/mysql-core";
import { PgTable } from "drizzle-orm/pg-core";
import * as mysql from "dbq-ts/schema/mysql";
import * as postgres from "dbq-ts/schema/postgres";

const known: { func: string; id: number }[] = [] as (typeof postgres.dbqTasks.$inferSelect)[];
known.push(...([] as (typeof mysql.dbqTasks.$inferSelect)[]));
// @ts-expect-error there is no such column
type Wrong = (typeof postgres.dbqTasks.$inferSelect)["prority"];

console.log(JSON.stringify({
  postgres: Object.values(postgres).filter((table) => is(table, PgTable)).map((table) => getTableName(table)),
  mysql: Object.values(mysql).filter((table) => is(table, MySqlTable)).map((table) => getTableName(table)),
}));
`;

/** Opens each target that it gets (`drizzle`: a Drizzle database on SQLite), and prints the outcome. */
export const opener = `
import { drizzle } from "drizzle-orm/sqlite-proxy";
import { openQueue } from "dbq-ts";

async function main() {
  const outcomes: string[] = [];
  for (const target of process.argv.slice(2)) {
    try {
      const queue = await openQueue(target === "drizzle" ? drizzle(async () => ({ rows: [] })) : target);
      outcomes.push((await queue.countTasks()).failed + " failed");
      await queue.close();
    } catch (error) {
      const { name, message } = error as Error;
      outcomes.push(name + ": " + message);
    }
  }
  console.log(JSON.stringify(outcomes));
}

main();
`;

/** Runs a task that blocks the event loop, and looks how many heartbeats its worker has sent meanwhile. */
export const bundled = `
import { openQueue, task, Worker } from "dbq-ts";

const block = task("block", async (ms: number) => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  return ms;
});

async function main() {
  const queue = await openQueue("bundled.db");
  const worker = new Worker(queue, { lease: "1s" });
  await worker.start();
  const beats = async () => (await queue.listWorkers())[0]?.beat ?? 0;
  // The event loop sends at most two beside a task. The thread may start late.
  let beatsMeanwhile = 0;
  for (let tries = 0; tries < 20 && beatsMeanwhile < 3; tries += 1) {
    const before = await beats();
    await queue.awaitTaskResult(await queue.enqueueTask(block, 1_300), { timeout: "20s" });
    beatsMeanwhile = (await beats()) - before;
  }
  const missing = await openQueue("mysql://ada@127.0.0.1:1/app").catch((error: Error) => error.message);
  console.log(JSON.stringify({ threadIsAlive: beatsMeanwhile >= 3, missing }));
  await worker.stop();
  await queue.close();
}

main();
`;

export const bundledPrints = {
  threadIsAlive: true,
  missing: 'openQueue: the package "mysql2" is missing: npm install mysql2',
};
