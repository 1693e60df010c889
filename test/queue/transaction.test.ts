import { join } from "node:path";
import Database from "better-sqlite3";
import { type BetterSQLite3Database, drizzle } from "drizzle-orm/better-sqlite3";
import { integer, sqliteTable } from "drizzle-orm/sqlite-core";
import { describe, expect, it, onTestFinished } from "vitest";
import { driverError } from "../../src/base/runtime/drizzle-internals.ts";
import type { Queue } from "../../src/index.ts";
import { startedWorker, temporaryFolder, temporaryQueue } from "../support/queue.ts";
import { countRows, heldLock, nextTick, rawClient } from "./raw.ts";
import { echo } from "./tasks.ts";

const orders = sqliteTable("orders", { id: integer("id").primaryKey() });

interface Opened {
  queue: Queue;
  path: string;
  counts(): [orders: number, tasks: number];
}

async function opened(target: (path: string) => string | object): Promise<Opened> {
  const path = join(temporaryFolder(), "app.db");
  const raw = rawClient(path);
  raw.exec("create table orders (id integer primary key)");
  const queue = await temporaryQueue(undefined, target(path));
  const counts = (): [number, number] => [
    raw.prepare("select count(*) from orders").pluck().get() as number,
    countRows(raw),
  ];
  return { queue, path, counts };
}

function appDatabase(path: string): BetterSQLite3Database {
  const client = new Database(path);
  onTestFinished(() => void client.close());
  return drizzle({ client });
}

const targets: [string, (path: string) => string | object][] = [
  ["a queue on a path", (path) => path],
  ["a queue on the app's database", appDatabase],
];

describe.each(targets)("a transaction of %s", (_, target) => {
  it("commits the app's rows and the tasks, and resolves with the callback's return value", async () => {
    const { queue, counts } = await opened(target);
    await startedWorker(queue, { tasks: [echo] });
    const id = await queue.transaction((tx: BetterSQLite3Database, q) => {
      tx.insert(orders).values({ id: 1 }).run();
      return q.enqueueTask(echo, "in it");
    });
    expect(counts()).toEqual([1, 1]);
    expect(await queue.awaitTaskResult(id)).toBe("in it");
  });

  it("is rolled back by an error, with which it rejects", async () => {
    const { queue, counts } = await opened(target);
    const mistake = new RangeError("mine");
    const rejected = queue.transaction((tx: BetterSQLite3Database, q) => {
      tx.insert(orders).values({ id: 1 }).run();
      q.enqueueTask(echo, 1);
      throw mistake;
    });
    await expect(rejected).rejects.toBe(mistake);
    expect(counts()).toEqual([0, 0]);
  });

  it("is rolled back by an error of the database", async () => {
    const { queue, counts } = await opened(target);
    const rejected = queue.transaction((tx: BetterSQLite3Database, q) => {
      q.enqueueTask(echo, 1);
      tx.insert(orders).values({ id: 1 }).run();
      tx.insert(orders).values({ id: 1 }).run();
    });
    expect(String(driverError(await rejected.catch((error: unknown) => error)))).toMatch(/UNIQUE/);
    expect(counts()).toEqual([0, 0]);
  });

  it("refuses an async function before it begins", async () => {
    const { queue, path, counts } = await opened(target);
    // No other transaction can begin now, so a call that began one before it refuses would wait.
    heldLock(path);
    let called = false;
    const rejected = queue.transaction(async () => {
      called = true;
    });
    await expect(rejected).rejects.toMatchObject({ code: "DBQ_ASYNC_TRANSACTION" });
    expect(called).toBe(false);
    expect(counts()).toEqual([0, 0]);
  });

  it("is rolled back when the callback returns a promise or another thenable", async () => {
    const { queue, counts } = await opened(target);
    const thenable = { then: () => undefined };
    const promises = [
      () => Promise.resolve(1),
      () => Promise.reject(new Error("late, and nobody's")),
      () => thenable,
      () => Object.assign(() => undefined, thenable),
    ];
    for (const promise of promises) {
      const rejected = queue.transaction((tx: BetterSQLite3Database, q) => {
        tx.insert(orders).values({ id: 1 }).run();
        q.enqueueTask(echo, 1);
        return promise();
      });
      await expect(rejected).rejects.toMatchObject({ code: "DBQ_ASYNC_TRANSACTION" });
      expect(counts()).toEqual([0, 0]);
    }
  });

  it("refuses writes of a callback that goes on after it", async () => {
    const { queue, counts } = await opened(target);
    let late: unknown;
    const rejected = queue.transaction((_, q) =>
      Promise.resolve().then(() => {
        try {
          late = q.enqueueTask(echo, 1);
        } catch (error) {
          late = error;
        }
      }),
    );
    await expect(rejected).rejects.toMatchObject({ code: "DBQ_ASYNC_TRANSACTION" });
    expect(late).toMatchObject({ code: "DBQ_ASYNC_TRANSACTION" });
    expect(counts()).toEqual([0, 0]);
  });

  it("waits for a busy database without blocking the event loop, and calls the callback once", async () => {
    const { queue, path, counts } = await opened(target);
    // The first transaction loads Drizzle's driver, and begins in a later turn of the event loop.
    await queue.transaction(() => undefined);
    const release = heldLock(path);
    let calls = 0;
    const start = performance.now();
    const waiting = queue.transaction((_, q) => {
      calls += 1;
      return q.enqueueTask(echo, 1);
    });
    await nextTick();
    // better-sqlite3's own wait would block the thread here for 5 s.
    expect(performance.now() - start).toBeLessThan(2_500);
    expect(calls).toBe(0);
    release();
    expect(await waiting).toBeGreaterThan(0);
    expect(calls).toBe(1);
    expect(counts()).toEqual([0, 1]);
  });

  it("holds the write lock from its start", async () => {
    const { queue, path } = await opened(target);
    const other = rawClient(path, { timeout: 0 });
    await queue.transaction(() => {
      expect(() => other.exec("begin immediate")).toThrow(/locked/);
    });
    other.exec("begin immediate");
    other.exec("rollback");
  });
});

it("a transaction works on a queue in memory", async () => {
  const queue = await temporaryQueue(undefined, ":memory:");
  const id = await queue.transaction((_, q) => q.enqueueTask(echo, 1));
  expect(await queue.getTask(id)).toMatchObject({ args: [1] });
  await expect(
    queue.transaction((_, q) => {
      q.enqueueTask(echo, 2);
      throw new Error("no");
    }),
  ).rejects.toThrow("no");
  expect((await queue.countTasks()).pending).toBe(1);
});
