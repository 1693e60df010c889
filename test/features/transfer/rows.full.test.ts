/** Every row of a queue arrives unchanged in the other database. */
import { join } from "node:path";
import { getTableColumns } from "drizzle-orm";
import { describe, expect, onTestFinished, test } from "vitest";
import { dbqAttempts, dbqTaskLogs, dbqTasks } from "../../../drizzle/sqlite.ts";
import { addAgent, revokeAgent } from "../../../src/features/manager/index.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import { moveQueue, openQueue, type Queue, remoteTask } from "../../../src/index.ts";
import { columnsOf } from "../../../src/stores/sql/columns.ts";
import { amount } from "../../support/amount.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { deferred, temporaryFolder, temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { ByHand, startedManager, urlOf } from "../manager/setup.ts";
import { differences, lastIdOf, makeQueue, sameTasks } from "./moved-rows.ts";

const noServer = [await postgresServer(), await mysqlServer()].map(isMissing);
const task = remoteTask<(n?: number) => Promise<void>>("f");

async function schema(): Promise<string> {
  const { url, drop } = await newSchema();
  onTestFinished(drop);
  return url;
}

async function database(): Promise<string> {
  const { url, drop } = await newDatabase();
  onTestFinished(drop);
  return url;
}

const file = async () => join(temporaryFolder(), "dbq.db");

describe.skipIf(noServer.includes(true))("from SQLite to Postgres, to MySQL, to SQLite", () => {
  const tasks = amount(500, 2_000, 100_000);

  test("every task, attempt and log line is unchanged, and new ids follow the last one", {
    timeout: 900_000,
  }, async () => {
    const places = [await file(), await schema(), await database(), await file()] as const;
    await makeQueue(places[0], tasks);
    let old: Queue = await temporaryQueue({}, places[0]);
    for (const place of places.slice(1)) {
      const next = await temporaryQueue({}, place);
      const began = performance.now();
      const { written, ...moved } = await moveQueue(old, next);
      const perSecond = Math.round((written / (performance.now() - began)) * 1_000);
      console.log(`${place.split(":")[0]}: ${written} rows, ${perSecond} a second`);
      expect(moved).toMatchObject({ tasks, removed: 0, resumed: false });
      expect(await sameTasks(old, next)).toBe(tasks);
      expect(await internalsOf(next).store.transfer.lastId("dbq_tasks")).toBe(lastIdOf(tasks));
      old = next;
    }
    expect(differences(places[0], places[3])).toEqual([]);
    expect(await old.enqueueTask(task)).toBe(lastIdOf(tasks) + 1);
    for (const place of places.slice(0, 3)) {
      const left = await openQueue(place);
      await expect(left.enqueueTask(task)).rejects.toThrow("this queue moves to the new database");
      await left.close();
    }
  });
});

/** All agents, without what depends on the moment. */
const agentsOf = async (queue: Queue) =>
  (await internalsOf(queue).store.agents.list()).map(({ expiresIn, ...agent }) => agent);

const origin = (queue: Queue) => internalsOf(queue).store.drains.knownOrigin();

describe.each([
  { name: "SQLite to Postgres", places: [file, schema], missing: noServer[0] ?? true },
  { name: "Postgres to MySQL", places: [schema, database], missing: noServer.includes(true) },
  { name: "MySQL to SQLite", places: [database, file], missing: noServer[1] ?? true },
  { name: "SQLite to SQLite", places: [file, file], missing: false },
])("from $name", ({ places, missing }) => {
  test.skipIf(missing)(
    "agents keep their tokens, revoked ones stay revoked, and the origin is the same",
    async () => {
      const [from, to] = places as [() => Promise<string>, () => Promise<string>];
      const [old, next] = [await temporaryQueue({}, await from()), await temporaryQueue({}, await to())];
      const agent = { funcs: ["f", 'é "quoted"'], queues: ["default", "big"] };
      const { token } = await addAgent(old, "gpu-7", { ...agent, expires: "90d" });
      const revoked = await addAgent(old, "old", agent);
      await revokeAgent(old, "old");
      await internalsOf(old).store.agents.seen("gpu-7");
      // One of the new database: it stays, unless the old one has an agent of its name.
      await addAgent(next, "own", agent);
      await addAgent(next, "old", agent);
      const [known, itsOrigin] = [await agentsOf(old), await internalsOf(old).store.drains.origin()];
      const id = await old.enqueueTask(task, 1);
      await moveQueue(old, next);
      const [gpu, one, own] = await agentsOf(next);
      expect([gpu, one]).toEqual(known);
      expect(own?.name).toBe("own");
      expect(await origin(next)).toBe(itsOrigin);
      const manager = await startedManager(next);
      const { body } = await new ByHand(urlOf(manager), token).claim(["f"]);
      expect(body.tasks).toMatchObject([{ id, args: [1] }]);
      expect((await new ByHand(urlOf(manager), revoked.token).claim(["f"])).status).toBe(401);
    },
  );
});

describe.each([
  { name: "SQLite to Postgres", places: [file, schema], missing: noServer[0] ?? true },
  { name: "Postgres to MySQL", places: [schema, database], missing: noServer.includes(true) },
  { name: "MySQL to SQLite", places: [database, file], missing: noServer[1] ?? true },
  { name: "SQLite to SQLite", places: [file, file], missing: false },
])("schedules from $name", ({ places, missing }) => {
  test.skipIf(missing)("go on where they were, and the old database fires none of them", async () => {
    const [from, to] = places as [() => Promise<string>, () => Promise<string>];
    const [old, next] = [await temporaryQueue({}, await from()), await temporaryQueue({}, await to())];
    const fn = task.with({ priority: 7, meta: { by: "é" } });
    await old.schedule("nightly", { cron: "30 2 * * *", timeZone: "Europe/Berlin", jitter: "5m" }, fn, 1);
    await old.schedule("paused", { every: "90s", missed: { all: 3 }, overlap: "allow" }, task, 2);
    await old.triggerSchedule("nightly");
    await old.pauseSchedule("paused");
    const { schedules } = await internalsOf(old).store.schedules.list();
    await moveQueue(old, next);
    expect((await internalsOf(next).store.schedules.list()).schedules).toEqual(schedules);
    expect(await next.listTasks({ scheduleName: "nightly" })).toHaveLength(1);
    const refusals = [
      () => old.schedule("nightly", { cron: "@daily" }, task, 1),
      () => old.schedule("new", { cron: "@daily" }, task, 1),
      () => old.resumeSchedule("paused"),
      () => old.removeSchedule("nightly"),
      () => old.triggerSchedule("nightly"),
    ];
    for (const refused of refusals)
      await expect(refused()).rejects.toThrow("this queue moves to the new database");
    expect((await internalsOf(old).store.schedules.list()).schedules).toEqual(schedules);
    await next.resumeSchedule("paused");
    await next.removeSchedule("nightly");
  });
});

test("a move that another run has completed writes no agent into the new database", async () => {
  const [old, next] = [await temporaryQueue(), await temporaryQueue()];
  await addAgent(old, "gpu-7", { funcs: "f" });
  await moveQueue(old, next);
  const { transfer, agents } = internalsOf(next).store;
  const { run } = (await transfer.state()) as { run: string };
  await revokeAgent(next, "gpu-7");
  expect(await transfer.writeAgents(run, await internalsOf(old).store.agents.list())).toBe(false);
  expect((await agents.list())[0]?.revokedAt).not.toBeNull();
});

test("every column of the tables is copied", () => {
  const names = (table: typeof dbqTasks | typeof dbqAttempts | typeof dbqTaskLogs) =>
    Object.values(getTableColumns(table)).map(({ name }) => name);
  expect([...columnsOf("dbq_tasks")].sort()).toEqual(names(dbqTasks).sort());
  expect([...columnsOf("dbq_attempts")].sort()).toEqual(names(dbqAttempts).sort());
  expect([...columnsOf("dbq_task_logs")].sort()).toEqual(names(dbqTaskLogs).sort());
});

const databases = [
  { name: "SQLite", place: file, missing: false },
  { name: "Postgres", place: schema, missing: noServer[0] ?? true },
  { name: "MySQL", place: database, missing: noServer[1] ?? true },
];

describe.each(databases)("from $name, while tasks are enqueued", ({ place, missing }) => {
  test.skipIf(missing)("acknowledged tasks are moved, and all others were refused", async () => {
    const url = await place();
    const [old, next] = [await temporaryQueue({}, url), await temporaryQueue()];
    await old.enqueueTasks(Array.from({ length: 1_500 }, () => [task] as const));
    const acknowledged: number[] = [];
    const first = Array.from({ length: 4 }, () => deferred());
    const enqueuing = first.map(async ({ resolve }) => {
      const queue = await temporaryQueue({}, url);
      for (let n = 0; ; n += 1)
        try {
          acknowledged.push(await queue.enqueueTask(n % 2 ? task : task.with({ uniqueKey: `${n}` }), n));
          resolve();
        } catch (error) {
          return error as Error;
        }
    });
    await Promise.all(first.map(({ promise }) => promise));
    const { tasks } = await moveQueue(old, next);
    for (const refusal of await Promise.all(enqueuing))
      expect(refusal.message).toContain("this queue moves to the new database");
    const ids = new Set(acknowledged);
    expect(tasks).toBe(1_500 + ids.size);
    expect(await sameTasks(old, next)).toBe(tasks);
    expect(await next.enqueueTask(task)).toBeGreaterThan(Math.max(...ids));
  });
});

test("a row that the new database cannot store is named, and the old database takes tasks again", async () => {
  const [old, next] = [await temporaryQueue(), await temporaryQueue()];
  const ids = await old.enqueueTasks([[task], [task], [task]] as const);
  const { store } = internalsOf(next);
  const { write } = store.transfer;
  // Like a database that refuses a text, and like one that changes it.
  store.transfer.write = async (run, table, rows, removed) =>
    await write(
      run,
      table,
      rows.map((row) => (row[0] === ids[1] ? [row[0], null, ...row.slice(2)] : row)),
      removed,
    );
  await expect(moveQueue(old, next)).rejects.toThrow(/dbq_tasks 2: .*NOT NULL/);
  store.transfer.write = async (run, table, rows, removed) =>
    await write(
      run,
      table,
      rows.map((row) => (row[0] === ids[1] ? [row[0], "other", ...row.slice(2)] : row)),
      removed,
    );
  await expect(moveQueue(old, next)).rejects.toThrow("dbq_tasks 2: the new database stores another value");
  await expect(next.enqueueTask(task)).rejects.toThrow('run "dbq move" until it has completed');
  await old.enqueueTask(task);
  store.transfer.write = write;
  expect(await moveQueue(old, next)).toMatchObject({ tasks: 4, written: 2, resumed: true });
  await sameTasks(old, next);
});

test("a batch has at most 1,000 rows and 4 MiB", async () => {
  const [old, next] = [await temporaryQueue(), await temporaryQueue()];
  const large = remoteTask<(text: string) => Promise<void>>("large");
  await old.enqueueTasks(Array.from({ length: 6 }, () => [large, "é".repeat(500_000)] as const));
  await old.enqueueTasks(Array.from({ length: 1_200 }, () => [task] as const));
  const { transfer } = internalsOf(next).store;
  const { write } = transfer;
  const batches: number[] = [];
  transfer.write = async (run, table, rows, removed) => {
    batches.push(rows.length);
    return await write(run, table, rows, removed);
  };
  await moveQueue(old, next);
  // Four large tasks fit into 4 MiB. The fifth and the sixth come with 998 small ones.
  expect(batches).toEqual([4, 1_000, 202]);
});

test.skipIf(noServer[0])("a task with corrupt JSON is named when the new database refuses it", async () => {
  const path = await file();
  const [old, next] = [await temporaryQueue({}, path), await temporaryQueue({}, await schema())];
  await old.enqueueTasks(Array.from({ length: 1_200 }, () => [task] as const));
  const edit = (text: string) =>
    internalsOf(old).store.transaction((tx) => (tx as { run(q: unknown): void }).run(text));
  await edit("update dbq_tasks set args = '[1,', generation_id = generation_id + 1 where id in (7, 1100)");
  await expect(moveQueue(old, next)).rejects.toThrow(
    /dbq_tasks 7: .*json.*; dbq_tasks 1100: .*json.*: change or delete/s,
  );
  await old.purgeTasks({ func: "other" });
  await edit("update dbq_tasks set args = '[1]', generation_id = generation_id + 1 where id in (7, 1100)");
  expect(await moveQueue(old, next)).toMatchObject({ tasks: 1_200, written: 2 });
  await sameTasks(old, next);
});
