/** Finished tasks in tables by day on Postgres: `openQueue(url, { partitionFinished: true })`. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { PartitionStore } from "../../../src/features/partitions/contract.ts";
import type { FullStore } from "../../../src/features/store.ts";
import { currentTask, openQueue, task } from "../../../src/index.ts";
import { claim, claimBy, insert, newWorker, outcomes, settle } from "../../conformance/arrange.ts";
import { newSchema, postgresServer, type Schema } from "../../support/postgres.ts";
import { startedWorker, temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { openedPostgres } from "../server/stores.ts";

const server = await postgresServer();
let schema: Schema;

beforeAll(async () => {
  if (!isMissing(server)) schema = await newSchema();
});
afterAll(() => schema?.drop());

const day = 86_400_000;
const week = { completed: 7 * day, cancelled: 7 * day, failed: 30 * day };

const sql = async (text: string) => (await schema.client.query<Record<string, unknown>>(text)).rows;

/** The names of the partitions. */
const tables = async () =>
  (
    await sql(`select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
      where inhparent = 'dbq_tasks'::regclass order by relname`)
  ).map(({ relname }) => String(relname));

/** The date, at midnight UTC, of what `age` has put so many days back, as partitions are named. */
const dateOf = (days: number) =>
  new Date(Date.now() - days * day - 120_000).toISOString().slice(0, 10).replaceAll("-", "");

const idsIn = async (table: string) =>
  (await sql(`select id from only ${table} order by id`)).map(({ id }) => Number(id));

describe("partitionFinished", () => {
  it("is refused for a database that has no partitions", async () => {
    await expect(openQueue(":memory:", { partitionFinished: true })).rejects.toThrow(
      "openQueue: the option partitionFinished is Postgres's: leave it out for another database",
    );
  });
});

describe.skipIf(isMissing(server))("partitions of finished tasks", () => {
  let store: FullStore;
  let partitions: PartitionStore;
  beforeEach(async () => {
    store = await openedPostgres(schema.url);
    partitions = store.partitions as PartitionStore;
    for (const table of await tables()) await sql(`drop table ${table}`);
    await sql(
      "delete from dbq_tasks; delete from dbq_attempts; delete from dbq_task_logs; delete from dbq_workers",
    );
    await store.register(newWorker("w1"));
  });

  /** Tasks that completed so many days ago. */
  async function completed(n: number, daysAgo = 0): Promise<number[]> {
    const ids = await insert(store, ...Array.from({ length: n }, () => ({})));
    for (const one of await claim(store, claimBy("w1", { limit: n })))
      await settle(store, outcomes.completed(one));
    await age(ids, daysAgo);
    return ids;
  }

  const age = (ids: readonly number[], days: number) =>
    sql(`update only dbq_tasks set finished_at = finished_at - interval '${days} days 2 minutes'
      where id in (${ids.join(", ")})`);

  it("have a table for each status and day, and are read as before", async () => {
    const old = await completed(2, 2);
    const recent = await completed(3, 1);
    const [pending] = await insert(store, {});
    await store.cancel(pending as number, "{}");
    await age([pending as number], 1);
    expect(await partitions.move(week, 100, 60_000)).toBe(6);
    expect(await tables()).toEqual([
      `dbq_tasks_cancelled_${dateOf(1)}`,
      `dbq_tasks_completed_${dateOf(2)}`,
      `dbq_tasks_completed_${dateOf(1)}`,
    ]);
    expect(await idsIn("dbq_tasks")).toEqual([]);
    expect(await idsIn(`dbq_tasks_completed_${dateOf(2)}`)).toEqual(old);
    expect((await store.list({}, 3, undefined)).map(({ id }) => id)).toEqual([
      pending,
      ...recent.slice(1).reverse(),
    ]);
    expect((await store.findEnded([...old, 99_999])).gone).toEqual([99_999]);
  });

  it("have tasks that an action on many retries and deletes as others", async () => {
    const ids = await completed(4);
    await partitions.move(week, 100, 60_000);
    const queue = await openQueue(schema.url);
    onTestFinished(() => queue.close());
    expect(await queue.retryTasks({ status: "completed" }, { limit: 2 })).toEqual({ changed: 2, skipped: 0 });
    expect(await idsIn("dbq_tasks")).toEqual(ids.slice(2));
    expect(await queue.deleteTasks({ status: "completed" })).toMatchObject({ changed: 2, skipped: 0 });
    expect((await store.list({}, 9, undefined)).map(({ status }) => status)).toEqual(["pending", "pending"]);
  });

  it("do not get what finished less than a minute ago, or what is kept for less than a day", async () => {
    const ids = await completed(1);
    await sql("update dbq_tasks set finished_at = finished_at + interval '1 minute 30 seconds'");
    expect(await partitions.move(week, 100, 60_000)).toBe(0);
    await age(ids, 0);
    expect(await partitions.move({ ...week, completed: day - 1 }, 100, 60_000)).toBe(0);
    expect(await partitions.move(week, 100, 60_000)).toBe(1);
  });

  it("do not get the tasks of schedules, those that hold their keys for a time, and those of drains", async () => {
    const ids = await completed(4);
    await sql(`update dbq_tasks set schedule_name = 'hourly' where id = ${ids[0]}`);
    await sql(
      `update dbq_tasks set unique_key = 'k', unique_until = now() + interval '1 hour' where id = ${ids[1]}`,
    );
    await sql(`update dbq_tasks set worker_id = 'drained' where id = ${ids[2]}`);
    expect(await partitions.move(week, 100, 60_000)).toBe(1);
    expect(await idsIn("dbq_tasks")).toEqual(ids.slice(0, 3));
  });

  it("get each task once from workers that move at the same time, and make the same tables", async () => {
    const ids = [...(await completed(40, 1)), ...(await completed(40, 2))];
    const other = await openedPostgres(schema.url);
    const moved = await Promise.all(
      [store, other, store, other].map((each) => (each.partitions as PartitionStore).move(week, 25, 60_000)),
    );
    for (const each of [store, other]) await each.partitions?.move(week, 100, 60_000);
    expect(Math.max(...moved)).toBe(25);
    expect(await idsIn("dbq_tasks")).toEqual([]);
    expect((await sql("select id from dbq_tasks order by id")).map(({ id }) => Number(id))).toEqual(ids);
  });

  it("take rows of a table that has got a column since they were made", async () => {
    await completed(1);
    await partitions.move(week, 100, 60_000);
    await sql("alter table dbq_tasks add column later text");
    onTestFinished(async () => void (await sql("alter table dbq_tasks drop column later")));
    const [id] = await completed(1);
    await sql("update only dbq_tasks set later = 'x'");
    await partitions.move(week, 100, 60_000);
    expect(
      await sql(`select tableoid::regclass::text as table, later, status from dbq_tasks where id = ${id}`),
    ).toEqual([{ table: `dbq_tasks_completed_${dateOf(0)}`, later: "x", status: "completed" }]);
  });

  it("are dropped when all of their tasks are older than their retention, with attempts, log lines, steps and waits", async () => {
    const ids = [...(await completed(1, 9)), ...(await completed(1, 7)), ...(await completed(1, 2))];
    for (const id of ids)
      await sql(`insert into dbq_attempts (task_id, generation_id, outcome) values (${id}, 2, 'failed');
        insert into dbq_task_logs (task_id, generation_id, message) values (${id}, 2, 'x');
        insert into dbq_steps (task_id, name, seq, generation_id) values (${id}, 'a', 1, 2);
        insert into dbq_waits (task_id, name, kind) values (${id}, 'b', 'time')`);
    await partitions.move({ ...week, completed: 30 * day }, 100, 60_000);
    expect(await partitions.drop(week)).toBe(1);
    // Of the day before the last seven: its last tasks are not old enough.
    expect(await tables()).toEqual([`dbq_tasks_completed_${dateOf(7)}`, `dbq_tasks_completed_${dateOf(2)}`]);
    for (const table of ["dbq_attempts", "dbq_task_logs", "dbq_steps", "dbq_waits"])
      expect(
        (await sql(`select task_id from ${table} order by task_id`)).map((row) => Number(row.task_id)),
      ).toEqual(ids.slice(1));
    expect(await partitions.drop({ ...week, completed: Number.POSITIVE_INFINITY })).toBe(0);
  });

  it("get nothing while a foreign key refers to the table of tasks, which would act as if they were deleted", async () => {
    const [id] = await completed(1);
    await sql(`create table orders (task_id bigint references dbq_tasks on delete cascade);
      insert into orders values (${id})`);
    onTestFinished(async () => void (await sql("drop table orders")));
    expect(await partitions.move(week, 100, 60_000)).toBe(0);
    expect(await sql("select task_id::int from orders")).toEqual([{ task_id: id }]);
  });

  it("belong to the owner of the tasks, and one who may make no tables there hears so once", async () => {
    await completed(1);
    await sql("drop role if exists dbq_partitions_reader; create role dbq_partitions_reader");
    onTestFinished(
      async () => void (await sql("drop owned by dbq_partitions_reader; drop role dbq_partitions_reader")),
    );
    const { rows } = await schema.client.query("select current_schema() as name, session_user as me");
    await sql(`grant usage on schema ${rows[0].name} to dbq_partitions_reader;
      grant select, insert, update, delete on all tables in schema ${rows[0].name} to dbq_partitions_reader`);
    const other = await openedPostgres(`${schema.url}%20-crole%3Ddbq_partitions_reader`);
    await expect(other.partitions?.move(week, 100, 60_000)).rejects.toThrow(
      "partitionFinished: the user of this connection does not own dbq_tasks, so no task moves",
    );
    expect(await other.partitions?.move(week, 100, 60_000)).toBe(0);
    expect(await partitions.move(week, 100, 60_000)).toBe(1);
    expect(await other.partitions?.drop({ ...week, completed: -day * 2 })).toBe(0);
    expect(await tables()).toHaveLength(1);
  });

  it("are dropped another time while a transaction reads them", async () => {
    const [id] = await completed(1, 9);
    await partitions.move({ ...week, completed: 30 * day }, 100, 60_000);
    await sql(`begin; select * from dbq_tasks where id = ${id}`);
    try {
      expect(await partitions.drop(week)).toBe(0);
    } finally {
      await sql("commit");
    }
    expect(await partitions.drop(week)).toBe(1);
    expect(await tables()).toEqual([]);
  });

  it("are neither changed nor dropped while dbq move copies them", async () => {
    const [id = 0] = await completed(1, 9);
    await partitions.move({ ...week, completed: 30 * day }, 100, 60_000);
    const state = { moveId: "m", run: "r", phase: "closing", other: "new.db", refusal: "it moves" } as const;
    await store.transfer.setState(state, undefined);
    await store.transfer.freeze("r");
    try {
      await expect(store.purge({ includeRunning: false }, 100, 0)).rejects.toThrow("it moves");
      expect(await partitions.drop(week)).toBe(0);
    } finally {
      await store.transfer.unfreeze("r");
      await store.transfer.setState(undefined, state);
    }
    expect(await store.get([id])).toMatchObject([{ id }]);
    expect(await partitions.drop(week)).toBe(1);
  });

  const add = task("partitions-add", async (a: number, b: number) => a + b);

  /** Runs longer than the time between two looks of a worker at what it holds. */
  const logs = task("partitions-logs", async () => {
    for (let n = 0; n < 3; n += 1) {
      currentTask().log("a line");
      await sleep(400);
    }
    return "done";
  });

  it("are not touched by enqueues, workers and awaits: with a lock on them, tasks run as before", async () => {
    await completed(5);
    await partitions.move(week, 100, 60_000);
    const queue = await temporaryQueue({ partitionFinished: true }, schema.url);
    await sql(`begin; lock table dbq_tasks_completed_${dateOf(0)} in access exclusive mode`);
    try {
      await startedWorker(queue);
      const logging = await queue.enqueueTask(logs);
      expect(await queue.awaitTaskResult(logging, { timeout: "20s" })).toBe("done");
      const options = [{ uniqueKey: "k" }, { group: "g" }, { delay: 10 }, { priority: 9 }];
      const ids = await queue.enqueueTasks(options.map((each) => [add.with(each), 1, 2]));
      for (const id of ids) expect(await queue.awaitTaskResult(id, { timeout: "20s" })).toBe(3);
    } finally {
      await sql("commit");
    }
  });

  it("are filled by the worker of a queue that is opened with partitionFinished; a moved task can be retried", async () => {
    const queue = await temporaryQueue({ partitionFinished: true }, schema.url);
    const first = await startedWorker(queue);
    const id = await queue.enqueueTask(add, 1, 2);
    await queue.awaitTaskCompletion(id, { timeout: "20s" });
    await first.stop();
    await age([id], 0);
    const second = await startedWorker(queue);
    await vi.waitFor(async () => expect(await idsIn("dbq_tasks")).toEqual([]), { timeout: 20_000 });
    expect(await queue.awaitTaskResult(id)).toBe(3);
    expect(await queue.getTask(id)).toMatchObject({ status: "completed", result: 3 });
    expect(await queue.cancelTask(id)).toMatchObject({ status: "completed" });
    expect(await queue.retryTask(id)).toMatchObject({ status: "pending", retryCount: 0 });
    expect(await queue.awaitTaskResult(id, { timeout: "20s" })).toBe(3);
    expect(await idsIn("dbq_tasks")).toEqual([id]);
    await second.stop();
    await age([id], 0);
    await partitions.move(week, 100, 60_000);
    expect(await queue.purgeTasks({ func: "partitions-add" })).toEqual({ purged: 1, running: 0, skipped: 0 });
    expect(await queue.getTask(id)).toBeUndefined();
  });
});
