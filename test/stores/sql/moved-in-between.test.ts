/**
 * An operation of several statements, with another writer between two of them: a task that was read has changed, and
 * the update must not find it. On SQLite only reads before the write lock can become stale; where rows are locked one
 * by one, all can.
 */
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import type { FullStore } from "../../../src/features/store.ts";
import { openSqliteDatabase } from "../../../src/stores/sqlite/store.ts";
import {
  claimBy,
  insertOne,
  minute,
  newTask,
  newWorker,
  recordOf,
  taskIn,
} from "../../conformance/arrange.ts";

/** A connection that lets another writer run between two statements. */
class Interrupted extends Database {
  #next: { fits: RegExp; sql: string } | undefined;

  /** Runs this SQL once, right after the next matching query. */
  meanwhile(fits: RegExp, sql: string): void {
    this.#next = { fits, sql };
  }

  override prepare: Database.Database["prepare"] = ((text: string) => {
    const statement = super.prepare(text);
    const all = statement.all.bind(statement);
    statement.all = (...params: unknown[]) => {
      const found = all(...params);
      const next = this.#next;
      if (next?.fits.test(text)) {
        this.#next = undefined;
        this.exec(next.sql);
      }
      return found;
    };
    return statement;
  }) as Database.Database["prepare"];

  /** Whether the SQL is still to run. */
  get waits(): boolean {
    return this.#next !== undefined;
  }
}

async function opened(): Promise<{ client: Interrupted; store: FullStore }> {
  const client = new Interrupted(":memory:");
  onTestFinished(() => {
    expect(client.waits).toBe(false);
    client.close();
  });
  const store = await openSqliteDatabase(drizzle({ client }), { migrate: true, synchronous: "full" });
  return { client, store };
}

const candidates = /where queue_name = \? and func = \?/;
const due = /status = 'scheduled' and wait_until <=/;
const tasksById = /select id, func, .* from dbq_tasks where id in/;
const holder = /where unique_key = \?/;

test("a candidate that was claimed and handed back meanwhile is not claimed under its old generation", async () => {
  const { client, store } = await opened();
  await store.register(newWorker("w1"));
  const id = await insertOne(store);
  client.meanwhile(candidates, `update dbq_tasks set generation_id = generation_id + 2 where id = ${id}`);
  const { claimed } = await store.settleAndClaim({ outcomes: [], claim: claimBy("w1") });
  // The claim reads it again and returns it as it is stored.
  expect(claimed).toMatchObject([{ id, generationId: 4 }]);
  expect(await recordOf(store, id)).toMatchObject({ status: "running", generationId: 4 });
});

test("a candidate that was cancelled meanwhile is not claimed", async () => {
  const { client, store } = await opened();
  await store.register(newWorker("w1"));
  const id = await insertOne(store);
  client.meanwhile(candidates, `update dbq_tasks set status = 'cancelled' where id = ${id}`);
  expect((await store.settleAndClaim({ outcomes: [], claim: claimBy("w1") })).claimed).toEqual([]);
  expect(await recordOf(store, id)).toMatchObject({ status: "cancelled", workerId: null });
});

test("a due task that was delayed again meanwhile is not promoted", async () => {
  const { client, store } = await opened();
  const id = await insertOne(store, { delay: minute });
  client.exec("update dbq_tasks set wait_until = 1");
  const anew = `generation_id = generation_id + 2, wait_until = wait_until + ${Date.now() + minute}`;
  client.meanwhile(due, `update dbq_tasks set ${anew} where id = ${id}`);
  expect((await store.promote(10)).promoted).toBe(0);
  expect(await recordOf(store, id)).toMatchObject({ status: "scheduled", generationId: 3 });
});

test("a retry of a task that started meanwhile reads it again and leaves it running", async () => {
  const { client, store } = await opened();
  const { id, generationId } = await taskIn(store, "failed");
  client.meanwhile(
    tasksById,
    `update dbq_tasks set status = 'running', generation_id = generation_id + 2 where id = ${id}`,
  );
  expect(await store.retry(id)).toMatchObject({
    changed: false,
    record: { status: "running", generationId: generationId + 2 },
  });
});

test("a cancel of a task that changed meanwhile reads it again and cancels it", async () => {
  const { client, store } = await opened();
  const id = await insertOne(store);
  client.meanwhile(
    tasksById,
    `update dbq_tasks set status = 'running', generation_id = 2, worker_id = 'w2' where id = ${id}`,
  );
  expect(await store.cancel(id, "{}")).toMatchObject({
    changed: true,
    record: { status: "cancelled", generationId: 3 },
  });
  expect(await store.attempts(id)).toMatchObject([{ workerId: "w2", generationId: 2, outcome: "cancelled" }]);
});

test("an insert whose key was taken meanwhile returns the holder's id", async () => {
  const { client, store } = await opened();
  client.meanwhile(holder, "insert into dbq_tasks (id, func, unique_key) values (7, 'resize', 'k')");
  expect(await store.insert([newTask({ uniqueKey: "k" })], "report")).toEqual([{ id: 7, duplicate: true }]);
});
