/** Completing a task in the app's own transaction. */
import Database from "better-sqlite3";
import { sql } from "drizzle-orm";
import { type BetterSQLite3Database, drizzle } from "drizzle-orm/better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { type AnyFunction, currentTask, type QueueOptions, type RunningTask, task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { aborted, ended, next, queueOnFile, raise, read, until } from "./setup.ts";

type Tx = Parameters<Parameters<BetterSQLite3Database["transaction"]>[0]>[0];

/** An app with its own Drizzle connection to the queue's file, and its own table. */
async function app(options?: QueueOptions) {
  const setup = await queueOnFile(options);
  const client = new Database(setup.path, { timeout: 5_000 });
  onTestFinished(() => {
    client.close();
  });
  const db = drizzle({ client });
  db.run(sql`create table orders (task integer not null)`);
  const orders = () => setup.raw.prepare("select task from orders").pluck().all();
  const order = (tx: Tx, id: number) => tx.run(sql`insert into orders values (${id})`);
  return { ...setup, db, orders, order };
}

/** Runs one task on a new worker, and returns the worker's events about it. */
async function run(queue: Awaited<ReturnType<typeof app>>["queue"], fn: AnyFunction) {
  const worker = await startedWorker(queue);
  const told: string[] = [];
  for (const event of ["completed", "failed", "retrying", "cancelled", "lost"] as const)
    worker.on(event, () => told.push(event));
  const id = await queue.enqueueTask(fn);
  const over = Promise.race([
    next(worker, "completed", id),
    next(worker, "cancelled", id),
    next(worker, "lost", id),
    next(worker, "failed", id),
  ]);
  return { id, told, over };
}

test("a task completed in the app's transaction commits with the app's rows, and the handler's return value changes nothing", async () => {
  const { queue, db, order, orders } = await app();
  const release = deferred();
  const inside: unknown[] = [];
  const place = task(uniqueName(), async () => {
    const current = currentTask();
    db.transaction(
      (tx) => {
        order(tx, current.id);
        inside.push(current.within(tx).complete({ ordered: true }), orders());
      },
      { behavior: "immediate" },
    );
    await release.promise;
    return "returned";
  });
  const { id, told, over } = await run(queue, place);
  // The task is completed while its handler still runs.
  const completed = await ended(queue, id);
  expect(completed).toMatchObject({ status: "completed", result: { ordered: true }, generationId: 3 });
  expect(orders()).toEqual([id]);
  expect(inside).toEqual([undefined, []]);
  release.resolve();
  expect(await over).toMatchObject({ status: "completed", result: { ordered: true }, generationId: 3 });
  expect(told).toEqual(["completed"]);
  expect(await read(queue, id)).toEqual(completed);
});

test("complete() accepts a transaction of queue.transaction", async () => {
  const { queue, orders } = await app();
  const place = task(uniqueName(), async () => {
    const current = currentTask();
    await queue.transaction((tx: Tx) => {
      tx.run(sql`insert into orders values (${current.id})`);
      current.within(tx).complete("in it");
    });
  });
  const { id, over } = await run(queue, place);
  await over;
  expect(await read(queue, id)).toMatchObject({ status: "completed", result: "in it" });
  expect(orders()).toEqual([id]);
});

test("after a rollback the task still runs, and the handler's return value counts", async () => {
  const { queue, db, order, orders } = await app();
  const between = deferred<unknown>();
  const place = task(uniqueName(), async () => {
    const current = currentTask();
    try {
      db.transaction((tx) => {
        order(tx, current.id);
        current.within(tx).complete("in it");
        throw new Error("the app changed its mind");
      });
    } catch {
      between.resolve(await read(queue, current.id));
    }
    return "after it";
  });
  const { id, told, over } = await run(queue, place);
  expect(await between.promise).toMatchObject({ status: "running", result: undefined, generationId: 2 });
  await over;
  expect(await read(queue, id)).toMatchObject({ status: "completed", result: "after it", generationId: 3 });
  expect(orders()).toEqual([]);
  expect(told).toEqual(["completed"]);
});

test("a handler that fails after a rollback fails its attempt", async () => {
  const { queue, db } = await app();
  const place = task(
    uniqueName(),
    async () => {
      db.transaction((tx) => {
        currentTask().within(tx).complete("in it");
        throw new Error("rolled back");
      });
    },
    { maxRetries: 0 },
  );
  const { id, over } = await run(queue, place);
  await over;
  expect(await read(queue, id)).toMatchObject({ status: "failed", error: { message: "rolled back" } });
});

test("complete() throws for a task that was lost, and the app's rows are rolled back", async () => {
  const { queue, db, order, orders, elsewhere } = await app();
  const other = await elsewhere();
  const thrown = deferred<unknown>();
  const place = task(uniqueName(), async () => {
    const current = currentTask();
    await other.cancelTask(current.id);
    try {
      db.transaction((tx) => {
        order(tx, current.id);
        current.within(tx).complete("too late");
      });
    } catch (error) {
      thrown.resolve(error);
      throw error;
    }
  });
  const { id, told, over } = await run(queue, place);
  expect(await thrown.promise).toMatchObject({ code: "DBQ_LOST_GENERATION", taskId: id });
  await over;
  expect(orders()).toEqual([]);
  expect(told).toEqual(["cancelled"]);
  expect(await read(queue, id)).toMatchObject({ status: "cancelled", result: undefined });
});

test("a handler that throws after its commit has completed the task", async () => {
  const { queue, db, orders, order } = await app();
  const place = task(
    uniqueName(),
    async () => {
      const current = currentTask();
      db.transaction((tx) => {
        order(tx, current.id);
        current.within(tx).complete("done");
      });
      throw new Error("afterwards");
    },
    { backoff: () => 0 },
  );
  const { id, told, over } = await run(queue, place);
  await over;
  expect(await read(queue, id)).toMatchObject({ status: "completed", result: "done", error: null });
  expect(await queue.listAttempts(id)).toEqual([]);
  expect(told).toEqual(["completed"]);
  expect(orders()).toEqual([id]);
});

test("onFailure is not called for a handler that throws after its commit", async () => {
  const { queue, db } = await app();
  const statuses: string[] = [];
  const place = task(
    uniqueName(),
    async () => {
      db.transaction((tx) => currentTask().within(tx).complete("done"));
      throw new Error("afterwards");
    },
    { onFailure: ({ status }) => void statuses.push(status) },
  );
  const { over } = await run(queue, place);
  await over;
  expect(statuses).not.toContain("scheduled");
});

test("a second completion of a task throws DBQ_LOST_GENERATION", async () => {
  const { queue, db } = await app();
  const codes: unknown[] = [];
  const place = task(uniqueName(), async () => {
    const current = currentTask();
    db.transaction((tx) => current.within(tx).complete(1));
    try {
      db.transaction((tx) => current.within(tx).complete(2));
    } catch (error) {
      codes.push((error as { code: unknown }).code);
    }
  });
  const { id, over } = await run(queue, place);
  await over;
  expect(codes).toEqual(["DBQ_LOST_GENERATION"]);
  expect(await read(queue, id)).toMatchObject({ status: "completed", result: 1 });
});

const refused: [string, (current: RunningTask, tx: Tx) => void, string][] = [
  ["a result that cannot be stored", (c, tx) => c.within(tx).complete(new Date()), "DBQ_NOT_SERIALIZABLE"],
  ["one that is too large", (c, tx) => c.within(tx).complete("x".repeat(200)), "DBQ_PAYLOAD_TOO_LARGE"],
];

test.each(refused)("complete() refuses %s before any write", async (_, complete, code) => {
  const { queue, db, orders } = await app({ maxPayload: 100 });
  const small = task(
    uniqueName(),
    async () => {
      const current = currentTask();
      let thrown: unknown;
      db.transaction((tx) => {
        tx.run(sql`insert into orders values (7)`);
        try {
          complete(current, tx);
        } catch (error) {
          thrown = error;
        }
      });
      return (thrown as { code?: string } | undefined)?.code ?? raise(new Error("was not refused"));
    },
    { maxRetries: 0 },
  );
  const { id, over } = await run(queue, small);
  await over;
  expect(await read(queue, id)).toMatchObject({ status: "completed", result: code });
  expect(orders()).toEqual([7]);
});

test("a handler that goes on after its commit has not lost its task", async () => {
  const { queue, db, elsewhere } = await app();
  const other = await elsewhere();
  const release = deferred();
  const signal = deferred<AbortSignal>();
  const place = task(uniqueName("place"), async () => {
    const current = currentTask();
    db.transaction((tx) => current.within(tx).complete("done"));
    signal.resolve(current.signal);
    await release.promise;
  });
  const wait = task(uniqueName("wait"), async () => await aborted(currentTask().signal));
  const { id, told, over } = await run(queue, place);
  const goesOn = await signal.promise;
  const cancelled = await queue.enqueueTask(wait);
  await ended(queue, id);
  // The ownership check that finds this cancel has checked the other task, too.
  await other.cancelTask(cancelled);
  await until(() => told.includes("cancelled"));
  expect(goesOn.aborted).toBe(false);
  release.resolve();
  await over;
  expect(told.sort()).toEqual(["cancelled", "completed"]);
});
