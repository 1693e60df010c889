/** An enqueue inside of an open transaction, but not in it, is almost always a mistake: dbq warns of it once. */
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { drizzle as drizzleOverPg } from "drizzle-orm/node-postgres";
import { Pool } from "pg";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { processGlobal } from "../../src/base/runtime/process-globals.ts";
import { enqueueTask, type Queue, setDefaultQueue, task } from "../../src/index.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { deferred, temporaryFolder, temporaryQueue } from "../support/queue.ts";
import { isMissing } from "../support/server.ts";

const send = task("send", (order: number) => order);
const meant = send.with({ outsideTransaction: true });

let warnings: string[];

beforeEach(() => {
  processGlobal("warnedOfOutside", () => ({ once: false })).once = false;
  warnings = [];
  vi.spyOn(process, "emitWarning").mockImplementation((text, type) => {
    expect(type).toBe("DbqWarning");
    warnings.push(String(text));
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  setDefaultQueue(undefined);
});

/** What a transaction's callback may call by mistake. */
const mistakes: Readonly<Record<string, (queue: Queue) => Promise<unknown>>> = {
  "queue.enqueueTask": (queue) => queue.enqueueTask(send, 1),
  "queue.enqueueTasks": (queue) =>
    queue.enqueueTasks([
      [meant, 1],
      [send, 2],
    ]),
  "enqueueTask on the default queue": (queue) => {
    setDefaultQueue(queue);
    return enqueueTask(send, 1);
  },
};

const expected = expect.stringMatching(
  /^task "send" was enqueued inside of an open transaction, but not in it: .*queue\.within\(tx\)\.enqueueTask/,
);

describe("on SQLite", () => {
  const appDatabase = () => {
    const client = new Database(`${temporaryFolder()}/app.db`);
    onTestFinished(() => void client.close());
    return drizzle({ client });
  };

  it.each(Object.entries(mistakes))(
    "%s in queue.transaction warns once, and names the function",
    async (_, mistake) => {
      const queue = await temporaryQueue();
      const calls: Promise<unknown>[] = [];
      for (let i = 0; i < 2; i += 1) await queue.transaction(() => void calls.push(mistake(queue)));
      await Promise.all(calls);
      expect(warnings).toEqual([expected]);
    },
  );

  it.each(Object.entries(mistakes))("%s in the app's own transaction warns", async (_, mistake) => {
    const db = appDatabase();
    const queue = await temporaryQueue({}, db);
    await db.transaction(() => [mistake(queue)])[0];
    expect(warnings).toEqual([expected]);
  });

  it("enqueues in a transaction, after it, of another database, and those that are meant, do not warn", async () => {
    const db = appDatabase();
    const [queue, other] = [await temporaryQueue({}, db), await temporaryQueue()];
    const calls: Promise<unknown>[] = [];
    db.transaction((tx) => {
      queue.within(tx).enqueueTask(send, 1);
      calls.push(queue.enqueueTask(meant, 2), queue.enqueueTasks([[meant, 3]]), other.enqueueTask(send, 4));
    });
    calls.push(queue.enqueueTask(send, 5));
    await queue.transaction((_, q) => q.enqueueTask(send, 6));
    await Promise.all([...calls, queue.enqueueTask(send, 7)]);
    expect(warnings).toEqual([]);
    expect((await queue.countTasks()).pending).toBe(6);
  });
});

describe.skipIf(isMissing(await postgresServer()))("on Postgres", () => {
  const newQueue = async () => {
    const schema = await newSchema();
    onTestFinished(() => schema.drop());
    return await temporaryQueue({}, schema.url);
  };

  /** A queue on the app's own Drizzle database. */
  const newApp = async () => {
    const schema = await newSchema();
    const pool = new Pool({ connectionString: schema.url });
    onTestFinished(async () => {
      await pool.end();
      await schema.drop();
    });
    const db = drizzleOverPg({ client: pool });
    return { db, queue: await temporaryQueue({}, db) };
  };

  it.each(Object.entries(mistakes))("%s in queue.transaction warns", async (_, mistake) => {
    const queue = await newQueue();
    await queue.transaction(async () => await mistake(queue));
    expect(warnings).toEqual([expected]);
  });

  it("an enqueue in the app's own transaction, or in a savepoint of it, warns", async () => {
    const { db, queue } = await newApp();
    await db.transaction(async (tx) => {
      await tx.execute("select 1");
      await tx.transaction(async () => await queue.enqueueTask(send, 1));
    });
    expect(warnings).toEqual([expected]);
  });

  it("an enqueue in a transaction of the queue's on the app's database warns", async () => {
    const { queue } = await newApp();
    await queue.transaction(async () => await queue.enqueueTask(send, 1));
    expect(warnings).toEqual([expected]);
  });

  it("an enqueue beside an open transaction, in it, or one that is meant, does not warn", async () => {
    const { db, queue } = await newApp();
    const [begun, go] = [deferred(), deferred()];
    const open = db.transaction(async (tx) => {
      await queue.within(tx).enqueueTask(send, 1);
      await queue.enqueueTask(meant, 2);
      begun.resolve();
      await go.promise;
    });
    await begun.promise;
    await queue.enqueueTask(send, 3);
    go.resolve();
    await open;
    expect(warnings).toEqual([]);
  });

  it("an enqueue that begins after the transaction has ended does not warn, even when the transaction caused it", async () => {
    const { db, queue } = await newApp();
    const ended = deferred();
    let later: Promise<unknown> | undefined;
    const failing = db.transaction(async () => {
      later = ended.promise.then(() => queue.enqueueTask(send, 1));
      throw new Error("rolled back");
    });
    await expect(failing).rejects.toThrow("rolled back");
    const beside = db.transaction(async () => {
      ended.resolve();
      await later;
    });
    await beside;
    expect(warnings).toEqual([]);
  });

  it("an app's transaction keeps its options, its result and its errors", async () => {
    const { db } = await newApp();
    const level = await db.transaction(
      async (tx) => {
        const { rows } = await tx.execute<{ level: string }>(
          "select current_setting('transaction_isolation') as level",
        );
        return rows[0]?.level;
      },
      { isolationLevel: "serializable" },
    );
    expect(level).toBe("serializable");
  });
});
