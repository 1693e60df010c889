import { join } from "node:path";
import Database from "better-sqlite3";
import { sql } from "drizzle-orm";
import { type BetterSQLite3Database, drizzle } from "drizzle-orm/better-sqlite3";
import { drizzle as drizzlePgProxy } from "drizzle-orm/pg-proxy";
import * as sqliteCore from "drizzle-orm/sqlite-core";
import { drizzle as drizzleProxy } from "drizzle-orm/sqlite-proxy";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Queue, setDefaultQueue } from "../../src/index.ts";
import { deferred, startedWorker, temporaryFolder, temporaryQueue } from "../support/queue.ts";
import { countRows, rawClient } from "./raw.ts";
import { add, echo } from "./tasks.ts";

const orders = sqliteCore.sqliteTable("orders", { id: sqliteCore.integer("id").primaryKey() });

/** Drizzle 0.x refuses a callback that returns a promise, and rolls back. 1.x commits at the callback's first await. */
const commitsAtAwait = "SQLiteAsyncDatabase" in sqliteCore;

/** An app's own database with a table of its own, and a queue on it. */
interface App {
  db: BetterSQLite3Database;
  client: Database.Database;
  queue: Queue;
  /** How many orders and tasks there are. */
  counts(): [orders: number, tasks: number];
}

async function app(
  client: Database.Database,
  target: (db: BetterSQLite3Database) => string | object,
): Promise<App> {
  onTestFinished(() => void client.close());
  client.exec("create table orders (id integer primary key)");
  const db = drizzle({ client });
  const queue = await temporaryQueue(undefined, target(db));
  const countOrders = () => Number(client.prepare("select count(*) from orders").pluck().get());
  return { db, client, queue, counts: () => [countOrders(), countRows(client)] };
}

function file(): [Database.Database, string] {
  const path = join(temporaryFolder(), "app.db");
  return [new Database(path), path];
}

/** Every way in which an app and a queue can share a database. */
const ways: [string, () => Promise<App>][] = [
  [
    "a queue opened by the path of the app's file",
    () => {
      const [client, path] = file();
      return app(client, () => path);
    },
  ],
  ["a queue opened by the app's database on a file", () => app(file()[0], (db) => db)],
  ["a queue opened by the app's database in memory", () => app(new Database(":memory:"), (db) => db)],
  ["an app whose integers are BigInts", () => app(file()[0].defaultSafeIntegers(true), (db) => db)],
  [
    "an app in memory whose integers are BigInts",
    () => app(new Database(":memory:").defaultSafeIntegers(true), (db) => db),
  ],
];

type Transaction = Parameters<Parameters<BetterSQLite3Database["transaction"]>[0]>[0];

function runAsync(db: BetterSQLite3Database, callback: (tx: Transaction) => Promise<void>): void {
  const run = () => db.transaction(callback as unknown as () => void);
  if (commitsAtAwait) run();
  else expect(run).toThrow(/promise/);
}

class Undo extends Error {}

/** Runs `fn` in the app's transaction, and then rolls it back. */
function undone<T>(
  { db }: Pick<App, "db">,
  fn: (tx: Parameters<Parameters<typeof db.transaction>[0]>[0]) => T,
): T {
  let value: T | undefined;
  expect(() =>
    db.transaction((tx) => {
      value = fn(tx);
      throw new Undo();
    }),
  ).toThrow(Undo);
  return value as T;
}

describe.each(ways)("%s", (_, open) => {
  it("commits the task with the app's own rows, or neither", async () => {
    const { db, queue, counts } = await open();
    const id = db.transaction((tx) => {
      tx.insert(orders).values({ id: 1 }).run();
      return queue.within(tx).enqueueTask(add, 1, 2);
    });
    expect(counts()).toEqual([1, 1]);
    expect(await queue.getTask(id)).toMatchObject({ id, func: "add", args: [1, 2], generationId: 1 });
    expect(typeof id).toBe("number");

    undone({ db }, (tx) => {
      tx.insert(orders).values({ id: 2 }).run();
      expect(queue.within(tx).enqueueTask(add, 3, 4)).toBeGreaterThan(id);
    });
    expect(counts()).toEqual([1, 1]);
  });

  it("runs a committed task, and an await resolves with its result", async () => {
    const { db, queue } = await open();
    await startedWorker(queue, { tasks: [add] });
    const id = db.transaction((tx) => queue.within(tx).enqueueTask(add, 20, 22), { behavior: "immediate" });
    expect(await queue.awaitTaskResult(id)).toBe(42);
    expect(await queue.listTasks({ status: "completed" })).toMatchObject([{ id, result: 42, retryCount: 0 }]);
    expect((await queue.retryTask(id)).status).toBe("pending");
    expect(await queue.awaitTaskResult(id)).toBe(42);
    expect((await queue.purgeTasks()).purged).toBe(1);
    expect((await queue.diagnose()).map(({ name }) => name)).toContain("synchronous");
  });

  it("a savepoint that is rolled back removes its tasks, and no others", async () => {
    const { db, queue, counts } = await open();
    db.transaction((tx) => {
      queue.within(tx).enqueueTask(echo, "outer");
      tx.transaction((inner) => {
        queue.within(inner).enqueueTask(echo, "kept");
        undone({ db: inner as unknown as BetterSQLite3Database }, (innermost) => {
          queue.within(innermost).enqueueTasks([
            [echo, "undone"],
            [add, 1, 2],
          ]);
        });
      });
    });
    expect(counts()).toEqual([0, 2]);
    expect((await queue.listTasks()).map(({ args }) => args[0])).toEqual(["kept", "outer"]);
  });

  it("accepts the app's plain database, with or without a transaction begun by hand", async () => {
    const { client, db, queue, counts } = await open();
    const id = queue.within(db).enqueueTask(echo, 1);
    expect(await queue.getTask(id)).toMatchObject({ args: [1] });
    client.exec("begin immediate");
    queue.within(db).enqueueTask(echo, 2);
    client.exec("rollback");
    expect(counts()).toEqual([0, 1]);
  });

  it("throws after its transaction has ended, and writes nothing", async () => {
    const { db, queue, counts } = await open();
    const [bound, handle] = db.transaction((tx) => [queue.within(tx), tx] as const);
    const late = { code: "DBQ_ASYNC_TRANSACTION" };
    expect(() => bound.enqueueTask(echo, 1)).toThrow(expect.objectContaining(late));
    expect(() => bound.enqueueTasks([[echo, 1]])).toThrow(expect.objectContaining(late));
    expect(() => queue.within(handle).enqueueTask(echo, 1)).toThrow(expect.objectContaining(late));
    expect(counts()).toEqual([0, 0]);
  });

  it("in an async callback writes nothing, and the process goes on", async () => {
    const { db, queue, counts } = await open();
    const after = deferred<unknown>();
    const callback = async (tx: Transaction) => {
      queue.within(tx).enqueueTask(echo, "before");
      await null;
      try {
        after.resolve(queue.within(tx).enqueueTask(echo, "after"));
      } catch (error) {
        after.resolve(error);
      }
    };
    runAsync(db, callback);
    expect(await after.promise).toMatchObject({ code: "DBQ_ASYNC_TRANSACTION" });
    expect(counts()).toEqual([0, commitsAtAwait ? 1 : 0]);
  });
});

describe("a queue inside a transaction", () => {
  async function opened(): Promise<App> {
    return await app(file()[0], (db) => db);
  }

  it("shows its task to no other connection or worker before the commit", async () => {
    const { client, db, queue } = await opened();
    await startedWorker(queue, { tasks: [echo] });
    const other = rawClient(client.name);
    client.exec("begin immediate");
    const id = queue.within(db).enqueueTask(echo, "hello");
    expect(await queue.getTask(id)).toBeUndefined();
    expect(await queue.listTasks()).toEqual([]);
    expect(countRows(other)).toBe(0);
    client.exec("commit");
    expect(await queue.awaitTaskResult(id)).toBe("hello");
    expect((await queue.getTask(id))?.generationId).toBe(3);
  });

  it("wakes a worker after the commit", async () => {
    const { db, queue } = await opened();
    const poll = { pollInterval: "60s" } as const;
    await startedWorker(queue, { tasks: [echo], ...poll });
    await queue.awaitTaskResult(await queue.enqueueTask(echo, "warm"));
    const id = db.transaction((tx) => queue.within(tx).enqueueTask(echo, 1));
    expect(await queue.awaitTaskResult(id, { timeout: "20s" })).toBe(1);
  });

  it("refuses what an enqueue refuses at once, and leaves the transaction as it was", async () => {
    const { db, queue, counts } = await opened();
    const holder = await queue.enqueueTask(echo.with({ uniqueKey: "k" }), 0);
    const strict = echo.with({ uniqueKey: "k", onDuplicate: "error" });
    db.transaction((tx) => {
      const q = queue.within(tx);
      expect(() => q.enqueueTask(echo, new Date(0))).toThrow(
        expect.objectContaining({ code: "DBQ_NOT_SERIALIZABLE", path: "args[0]" }),
      );
      expect(() => q.enqueueTask(strict, 1)).toThrow(
        expect.objectContaining({ code: "DBQ_DUPLICATE", taskId: holder }),
      );
      expect(() =>
        q.enqueueTasks([
          [echo, 1],
          [strict, 2],
        ]),
      ).toThrow(expect.objectContaining({ code: "DBQ_DUPLICATE" }));
      expect(q.enqueueTask(echo.with({ uniqueKey: "k" }), 1)).toBe(holder);
      tx.insert(orders).values({ id: 1 }).run();
    });
    expect(counts()).toEqual([1, 1]);
  });

  it("frees a unique key when its transaction is rolled back", async () => {
    const { db, queue } = await opened();
    const unique = echo.with({ uniqueKey: "k", onDuplicate: "error" });
    undone({ db }, (tx) => queue.within(tx).enqueueTask(unique, 1));
    expect(await queue.getTask(await queue.enqueueTask(unique, 2))).toMatchObject({ args: [2] });
  });

  it("of an async callback writes nothing into a later transaction", async () => {
    const { client, db, queue, counts } = await opened();
    const after = deferred<unknown>();
    const callback = async (tx: Transaction) => {
      const q = queue.within(tx);
      await null;
      try {
        after.resolve(q.enqueueTask(echo, "late"));
      } catch (error) {
        after.resolve(error);
      }
    };
    runAsync(db, callback);
    client.exec("begin immediate");
    const late = await after.promise;
    client.exec("commit");
    expect(late).toMatchObject({ code: "DBQ_ASYNC_TRANSACTION" });
    expect(counts()).toEqual([0, 0]);
  });

  it("also exists for the default queue", async () => {
    const { db, queue, counts } = await opened();
    setDefaultQueue(queue);
    onTestFinished(() => setDefaultQueue(undefined));
    db.transaction((tx) => void queue.within(tx).enqueueTask(echo, 1));
    expect(counts()).toEqual([0, 1]);
  });

  it("names the database when its tables are missing", async () => {
    const { queue } = await opened();
    const elsewhere = drizzle({ client: rawClient(":memory:") });
    expect(() => elsewhere.transaction((tx) => queue.within(tx).enqueueTask(echo, 1))).toThrow(
      expect.objectContaining({ code: "DBQ_DATABASE", message: expect.stringContaining("dbq_tasks") }),
    );
  });

  it("does not touch an open transaction on the app's connection", async () => {
    const client = new Database(":memory:");
    const { db, queue, counts } = await app(client, (theirs) => theirs);
    client.exec("begin");
    db.insert(orders).values({ id: 1 }).run();
    // The queue's own write waits: it must neither be rolled back with the app's transaction, nor commit it.
    const enqueued = queue.enqueueTask(echo, 1);
    await new Promise((resolve) => setTimeout(resolve));
    client.exec("rollback");
    expect(await enqueued).toBeGreaterThan(0);
    expect(counts()).toEqual([0, 1]);
  });

  it("refuses a handle of another driver or dialect, and any other value", async () => {
    const { queue, counts } = await opened();
    const never = async () => {
      throw new Error("it must not be asked");
    };
    const handles = [
      ...[drizzleProxy(never as never), drizzlePgProxy(never), new Database(":memory:"), sql`select 1`],
      ...[{}, [], null, undefined, "tx", 1, () => undefined],
    ];
    for (const handle of handles) expect(() => queue.within(handle)).toThrow(TypeError);
    expect(() => queue.within(drizzleProxy(never as never))).toThrow(/better-sqlite3/);
    expect(counts()).toEqual([0, 0]);
  });
});

it("begins no read in an app's deferred transaction, which could then not write after others did", async () => {
  const client = rawClient(join(temporaryFolder(), "app.db"));
  const db = drizzle({ client });
  const queue = await temporaryQueue({}, db);
  const other = rawClient(client.name);
  db.transaction((tx) => {
    const inside = queue.within(tx);
    other.exec("insert into dbq_tasks (func) values ('theirs')");
    inside.enqueueTask(echo, 1);
  });
  expect(countRows(client)).toBe(2);
});
