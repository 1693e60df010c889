/**
 * Changes of many tasks at once on MySQL: an UPDATE for each hundred lists their ids. Where a task has moved on meanwhile, all
 * others change nevertheless, each to its own values, and the answer tells which one did not.
 */
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/mysql2";
import { createConnection } from "mysql2/promise";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { operationsOf } from "../../../src/features/sql.ts";
import type { FullStore } from "../../../src/features/store.ts";
import type { Outcome } from "../../../src/store.ts";
import { configOf, connectMysql } from "../../../src/stores/mysql/connection.ts";
import { skipLockedDialect } from "../../../src/stores/mysql/dialect.ts";
import { mysqlDrizzle } from "../../../src/stores/mysql/drizzle.ts";
import { mysqlSteps } from "../../../src/stores/mysql/steps.ts";
import { openMysqlDatabase } from "../../../src/stores/mysql/store.ts";
import { queryableOf, type ServerDrizzle } from "../../../src/stores/server/drizzle.ts";
import type { Queryable } from "../../../src/stores/server/pool.ts";
import { Execution } from "../../../src/stores/server/run.ts";
import { type Host, readServerUrl } from "../../../src/stores/server/url.ts";
import { textsOf } from "../../../src/stores/sql/texts.ts";
import type { TaskRecord } from "../../../src/task.ts";
import {
  claim,
  claimBy,
  failedAttempt,
  insert,
  minute,
  outcomes,
  settle,
} from "../../conformance/arrange.ts";
import { emptied } from "../../conformance/server-stores.ts";
import { mysqlServer, newDatabase, type OwnDatabase } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql } from "../server/stores.ts";

const server = await mysqlServer();
let database: OwnDatabase;
let store: FullStore;

/** So many running tasks, in the order of their ids. */
async function runningTasks(count: number): Promise<TaskRecord[]> {
  await insert(store, ...Array.from({ length: count }, () => ({})));
  const claimed = await claim(store, claimBy("w1", { limit: count }));
  expect(claimed).toHaveLength(count);
  return claimed.sort((a, b) => a.id - b.id);
}

/** Another client changes the task: its worker knows an old generation. */
const move = ({ id }: TaskRecord) =>
  database.client.query("update dbq_tasks set generation_id = generation_id + 1 where id = ?", [id]);

const completedWith = (result: string | null) => (task: TaskRecord) => ({
  ...outcomes.completed(task),
  result,
});

/** The tasks as they are now, in this order. */
async function now(tasks: readonly TaskRecord[]): Promise<TaskRecord[]> {
  const found = new Map((await store.get(tasks.map(({ id }) => id))).map((task) => [task.id, task]));
  return tasks.map(({ id }) => found.get(id) as TaskRecord);
}

const statusesOf = async (tasks: readonly TaskRecord[]) => (await now(tasks)).map(({ status }) => status);
const resultsOf = async (tasks: readonly TaskRecord[]) => (await now(tasks)).map(({ result }) => result);

/** Settles these outcomes inside of a transaction that has begun. */
function settleIn(queryable: Queryable, given: readonly Outcome[]): Promise<boolean[]> {
  const { cycle } = operationsOf(textsOf(skipLockedDialect));
  return new Execution(queryable, mysqlSteps, true).run(cycle.settle(given));
}

/** An app's Drizzle database on a connection of its own. */
async function appDatabase() {
  const client = await createConnection(database.url);
  onTestFinished(() => client.end());
  return drizzle({ client });
}

describe.skipIf(isMissing(server))("a change of many tasks on MySQL", () => {
  beforeAll(async () => {
    database = await newDatabase();
  });
  afterAll(() => database?.drop());
  beforeEach(async () => {
    store = await openedMysql(database.url);
    await database.client.query(emptied);
  });

  it.each([
    ["first", 0],
    ["middle", 2],
    ["last", 4],
  ])("changes all but the %s task, which has moved on, and says so", async (_, place) => {
    const tasks = await runningTasks(5);
    await move(tasks[place] as TaskRecord);
    const others = [0, 1, 2, 3, 4].map((n) => n !== place);
    expect(await settle(store, ...tasks.map(completedWith("1")))).toEqual(others);
    expect(await statusesOf(tasks)).toEqual(others.map((is) => (is ? "completed" : "running")));
    // Each once, though the change was tried twice.
    expect((await now(tasks)).map(({ generationId }) => generationId)).toEqual(tasks.map(() => 3));
  });

  it("changes none where all have moved on", async () => {
    const tasks = await runningTasks(3);
    for (const task of tasks) await move(task);
    expect(await settle(store, ...tasks.map(outcomes.completed))).toEqual([false, false, false]);
    expect(await statusesOf(tasks)).toEqual(["running", "running", "running"]);
  });

  describe("gives each task its own result", () => {
    const texts = [
      null,
      '"it\'s"',
      '"\\"quoted\\""',
      '"back\\\\slash\\\\"',
      '"who?, what?, ? and ?"',
      '"1, 2, 3"',
      '"👩‍🚀 ünïcødé"',
      "42",
      "1e3",
      "9007199254740993",
      "0.1",
      '""',
      '"null"',
      '"`id`; -- $1 :name %s"',
      `"${"x".repeat(100 * 1024)}"`,
      null,
    ];

    const settles = async (settling: FullStore, moved: boolean) => {
      const tasks = await runningTasks(texts.length + 1);
      const [last] = tasks.slice(-1);
      if (moved) await move(last as TaskRecord);
      const given = tasks.map((task, i) => completedWith(texts[i] ?? null)(task));
      expect(await settle(settling, ...given)).toEqual([...texts.map(() => true), !moved]);
      expect(await resultsOf(tasks)).toEqual([...texts, null]);
    };

    it("over a connection of dbq", () => settles(store, false));

    it("over a connection of dbq, where another task has moved on", () => settles(store, true));

    it("over the app's Drizzle database", async () => {
      const overApp = await openMysqlDatabase(await appDatabase(), { migrate: false });
      onTestFinished(() => overApp.close());
      await settles(overApp, false);
    });
  });

  it("gives all tasks the same result, also where that is null", async () => {
    for (const result of ['"the same?"', null]) {
      const tasks = await runningTasks(3);
      expect(await settle(store, ...tasks.map(completedWith(result)))).toEqual([true, true, true]);
      expect(await resultsOf(tasks)).toEqual([result, result, result]);
    }
  });

  it("changes 249 of 250 tasks to their own results where one of the last hundred has moved on", async () => {
    const tasks = await runningTasks(250);
    await move(tasks[220] as TaskRecord);
    const expected = tasks.map((_, n) => n !== 220);
    // In no order of their ids.
    const mixed = tasks.map((_, n) => (n * 77) % 250);
    const settled = await settle(store, ...mixed.map((n) => completedWith(`${n}`)(tasks[n] as TaskRecord)));
    expect(settled).toEqual(mixed.map((n) => n !== 220));
    expect(await resultsOf(tasks)).toEqual(expected.map((is, n) => (is ? `${n}` : null)));
  });

  it("is one UPDATE for each hundred tasks, where none has moved on", async () => {
    const tasks = await runningTasks(250);
    const texts: string[] = [];
    const { hosts, ...url } = readServerUrl(database.url, { port: 3306, user: "root" });
    const connection = await connectMysql(configOf(url), hosts[0] as Host, "own");
    onTestFinished(() => connection.end());
    const recording: Queryable = {
      query: async (text, params) => {
        texts.push(/^\s*(\w+)/.exec(text)?.[1] ?? text);
        return await connection.query(text, params);
      },
    };
    await connection.query("begin", []);
    const given = tasks.map((task, n) => completedWith(`${n}`)(task));
    expect(await settleIn(recording, given)).toEqual(tasks.map(() => true));
    await connection.query("commit", []);
    expect(texts).toEqual(["savepoint", "update", "update", "update"]);
    expect(await resultsOf(tasks)).toEqual(tasks.map((_, n) => `${n}`));
  });

  it("accepts the first of two outcomes of one task", async () => {
    const [one, other] = (await runningTasks(2)) as [TaskRecord, TaskRecord];
    const given = [completedWith("1")(one), completedWith("2")(other), completedWith("3")(one)];
    expect(await settle(store, ...given)).toEqual([true, true, false]);
    expect(await resultsOf([one, other])).toEqual(["1", "2"]);
  });

  it("leaves what an app's transaction wrote before, where one task has moved on", async () => {
    const tasks = await runningTasks(3);
    await move(tasks[1] as TaskRecord);
    const settled = await (await appDatabase()).transaction(async (tx) => {
      await tx.execute(sql`insert into dbq_settings (name, value) values ('of the app', '1')`);
      const queryable = queryableOf(tx as unknown as ServerDrizzle, mysqlDrizzle);
      const answer = await settleIn(queryable, tasks.map(outcomes.completed));
      await tx.execute(sql`insert into dbq_settings (name, value) values ('of the app, later', '1')`);
      return answer;
    });
    expect(settled).toEqual([true, false, true]);
    expect(await statusesOf(tasks)).toEqual(["completed", "running", "completed"]);
    const [written] = await database.client.query(
      "select name from dbq_settings where name like 'of the app%' order by name",
    );
    expect(written).toEqual([{ name: "of the app" }, { name: "of the app, later" }]);
  });

  it("leaves a task alone whose generation no number of JavaScript can name", async () => {
    const tasks = await runningTasks(3);
    const [, bent] = tasks as [TaskRecord, TaskRecord];
    await database.client.query("update dbq_tasks set generation_id = 9007199254740993 where id = ?", [
      bent.id,
    ]);
    // 9007199254740992, as JavaScript reads it.
    expect(await settle(store, ...(await now(tasks)).map(outcomes.completed))).toEqual([true, false, true]);
    expect(await statusesOf(tasks)).toEqual(["completed", "running", "completed"]);
  });

  // ---- other changes -------------------------------------------------------------------------

  /** Errors that differ, and delays: 9007199254740991 ms is for ever, and its time the last that MySQL has. */
  const retries = [
    { error: '{"name":"A","message":"it\'s?"}', delay: 0 },
    { error: '{"name":"B","message":"\\\\"}', delay: 5 },
    { error: '{"name":"C","message":"no luck"}', delay: minute },
    { error: '{"name":"A","message":"it\'s?"}', delay: 90_061 },
    { error: '{"name":"E","message":""}', delay: Number.MAX_SAFE_INTEGER },
  ];

  it.each([
    ["and none has moved on", false],
    ["and one has moved on", true],
  ])("schedules each retry with its own error and delay, %s", async (_, moved) => {
    const tasks = await runningTasks(retries.length + 1);
    const last = tasks.at(-1) as TaskRecord;
    if (moved) await move(last);
    const attempted = (n: number) => ({ ...failedAttempt, errorName: `E${n}` });
    const given = tasks.map((task, n) => ({
      ...outcomes.retry(task),
      ...(retries[n] ?? { error: '"last"', delay: 1 }),
      attempt: attempted(n),
    }));
    expect(await settle(store, ...given)).toEqual([...retries.map(() => true), !moved]);
    const found = (await now(tasks)).slice(0, retries.length);
    expect(found.map(({ status, error, retryCount }) => ({ status, error, retryCount }))).toEqual(
      retries.map(({ error }) => ({ status: "scheduled", error, retryCount: 1 })),
    );
    const delays = found.map(({ waitUntil, updatedAt }) => (waitUntil ?? Number.NaN) - updatedAt);
    expect(delays.slice(0, -1)).toEqual(retries.slice(0, -1).map(({ delay }) => delay));
    expect(new Date(found.at(-1)?.waitUntil ?? 0).getUTCFullYear()).toBe(9999);
    for (const [n, { id }] of found.entries())
      expect(await store.attempts(id)).toMatchObject([{ errorName: `E${n}` }]);
    expect(await store.attempts(last.id)).toHaveLength(moved ? 0 : 1);
  });

  it("releases tasks with different statuses, charges, and without an error or a delay", async () => {
    const tasks = await runningTasks(4);
    const [a, b, c, d] = tasks as [TaskRecord, TaskRecord, TaskRecord, TaskRecord];
    await database.client.query(`update dbq_tasks set error = '"before"'`);
    const retry = outcomes.retry(b);
    const given = [outcomes.interrupted(a), retry, outcomes.snoozed(c), outcomes.interrupted(d)];
    expect(await settle(store, ...given)).toEqual([true, true, true, true]);
    const found = await now(tasks);
    expect(found.map(({ status, retryCount }) => [status, retryCount])).toEqual([
      ["pending", 0],
      ["scheduled", 1],
      ["scheduled", 0],
      ["pending", 0],
    ]);
    expect(found.map(({ error }) => error)).toEqual(['"before"', retry.error, '"before"', '"before"']);
    expect(found.map(({ waitUntil, updatedAt }) => waitUntil && waitUntil - updatedAt)).toEqual([
      null,
      minute,
      minute,
      null,
    ]);
  });

  it("ends each task as failed or cancelled, with its own error", async () => {
    const tasks = await runningTasks(3);
    const [a, b, c] = tasks as [TaskRecord, TaskRecord, TaskRecord];
    const given = [
      { ...outcomes.failed(a), error: '"a?"' },
      { ...outcomes.cancelled(b), error: '"b"' },
      { ...outcomes.failed(c), error: '"c"' },
    ];
    expect(await settle(store, ...given)).toEqual([true, true, true]);
    expect((await now(tasks)).map(({ status, error }) => [status, error])).toEqual([
      ["failed", '"a?"'],
      ["cancelled", '"b"'],
      ["failed", '"c"'],
    ]);
  });

  it("notes each task's own progress, and none of a task that has moved on", async () => {
    const tasks = await runningTasks(4);
    await move(tasks[3] as TaskRecord);
    const notes = [
      { progress: 0.1 + 0.2, note: "one?" },
      { progress: 1e-7, note: null },
      { progress: 1, note: "it's" },
      { progress: 0.5, note: "late" },
    ];
    const given = tasks.map(({ id, generationId }, n) => ({ id, generationId, ...notes[n] }));
    await store.progress(given as Parameters<FullStore["progress"]>[0]);
    const found = await store.taskProgress(tasks.map(({ id }) => id));
    expect(found.map(({ progress, progressNote }) => ({ progress, note: progressNote }))).toEqual([
      ...notes.slice(0, 3),
      { progress: null, note: null },
    ]);
  });
});
