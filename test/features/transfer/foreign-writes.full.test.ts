/** Writes by plain SQL, or by an app, before a queue is moved and while it is; and the errors that a frozen database gives. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { type MoveProgress, moveQueue, remoteTask } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { temporaryFolder, temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const task = remoteTask<() => Promise<void>>("f");

async function filled(tasks: number) {
  const path = join(temporaryFolder(), "dbq.db");
  const old = await temporaryQueue({}, path);
  await old.enqueueTasks(Array.from({ length: tasks }, () => [task] as const));
  const client = new Database(path);
  onTestFinished(() => void client.close());
  return { path, old, app: await temporaryQueue({}, path), next: await temporaryQueue(), client };
}

/** Calls `act` once, when the first round in this state has copied everything. */
function when(state: MoveProgress["state"], act: () => void) {
  let done = false;
  return (progress: MoveProgress) => {
    if (done || progress.state !== state || progress.done < progress.total) return;
    done = true;
    act();
  };
}

test("a purge during the last changes is refused, so an acknowledged purge is never undone", async () => {
  const { old, app, next } = await filled(10);
  let purging: Promise<unknown> | undefined;
  const onProgress = when("closing", () => {
    purging = app.purgeTasks({ func: "f" }).catch((error: Error) => error.message);
  });
  await moveQueue(old, next, { onProgress });
  expect(await purging).toContain("this queue moves to the new database");
  expect((await next.countTasks()).pending).toBe(10);
});

test("a change by plain SQL is copied, even without a new generation or time", async () => {
  const { old, next, client } = await filled(10);
  const changes = `update dbq_tasks set priority = 9, wait_until = 99999999999999 where id = 3;
    update dbq_tasks set args = '["new"]' where id = 4`;
  await moveQueue(old, next, { onProgress: when("copying", () => client.exec(changes)) });
  const [there, now] = [await old.listTasks(), await next.listTasks()];
  expect(there.at(-3)).toMatchObject({ id: 3, priority: 9 });
  expect(there.at(-4)).toMatchObject({ id: 4, args: ["new"] });
  expect(now).toEqual(there);
});

test("a task whose id is beyond 2^53 ends the move with an error that names it", async () => {
  const { old, app, next, client } = await filled(1);
  client.exec("insert into dbq_tasks (id, func) values (9007199254740993, 'f')");
  await expect(moveQueue(old, next)).rejects.toThrow("dbq_tasks 9007199254740993: an id beyond 2^53");
  client.exec("delete from dbq_tasks where id > 1");
  // Below the first page.
  client.exec("insert into dbq_tasks (id, func) values (-9223372036854775807, 'f')");
  await expect(moveQueue(old, next)).rejects.toThrow(
    "dbq_tasks: the old database has 2 rows, the new database 1",
  );
  client.exec("delete from dbq_tasks where id < 1");
  expect(await moveQueue(old, next)).toMatchObject({ tasks: 1 });
  await expect(app.enqueueTask(task)).rejects.toThrow("this queue moves to");
  expect(await next.enqueueTask(task)).toBe(2);
});

test("an aborted move reports that it could not unfreeze the old database", async () => {
  const { old, app, next } = await filled(1);
  const { transfer } = internalsOf(old).store;
  const { unfreeze } = transfer;
  transfer.unfreeze = () => Promise.reject(new Error("a report reads the table"));
  const aborter = new AbortController();
  const onProgress = when("closing", () => aborter.abort(new Error("stopped, and nothing has changed")));
  await expect(moveQueue(old, next, { onProgress, signal: aborter.signal })).rejects.toThrow(
    "the move was stopped; the old database may still refuse tasks, since it could not be unfrozen (a report reads the table): move again",
  );
  await expect(app.enqueueTask(task)).rejects.toThrow("this queue moves to");
  transfer.unfreeze = unfreeze;
  expect(await moveQueue(old, next)).toMatchObject({ tasks: 1, resumed: true });
});

// ---- the errors of a frozen database -----------------------------------------------------------

/** SQLite before 3.47 (October 2024) takes no expression in RAISE: a trigger with one makes the whole file unreadable. */
test("any SQLite version can read a frozen file, and its error is that of the latest run", async (context) => {
  const { path, old, app, next, client } = await filled(1);
  client.exec("create table theirs (name text); insert into theirs values ('kept')");
  const stop = new AbortController();
  const onProgress = when("closing", () => stop.abort(new Error("enough")));
  await expect(
    moveQueue(old, next, { names: { to: "x" }, onProgress, signal: stop.signal }),
  ).rejects.toThrow();
  await moveQueue(old, next, { names: { to: "the 'new' one" } });
  await expect(app.enqueueTask(task)).rejects.toThrow("this queue moves to the 'new' one: this database");
  const texts = client.prepare("select sql from sqlite_master where type = 'trigger'").pluck().all();
  expect(texts).toHaveLength(10);
  for (const text of texts) expect(text).toMatch(/raise\(abort, '[^)]*the ''new'' one/);
  const script = "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall())";
  const run = spawnSync("python3", ["-c", script, path, "select name from theirs"], { encoding: "utf8" });
  if (run.error) context.skip("python3, which has its own SQLite, is not installed");
  expect([run.stdout, run.stderr]).toEqual(["[('kept',)]\n", ""]);
});

test.skipIf(isMissing(await mysqlServer()))(
  "on MySQL, a frozen database gives its error in any character set",
  async () => {
    const { name, url, client, drop } = await newDatabase();
    onTestFinished(drop);
    await client.query(`alter database ${name} character set latin1`);
    const queue = await temporaryQueue({}, url);
    await moveQueue(queue, await temporaryQueue(), { names: { to: "データベース" } });
    await expect(queue.enqueueTask(task)).rejects.toThrow("this queue moves to データベース");
  },
);

test.skipIf(isMissing(await postgresServer()))(
  "on Postgres, a role without rights to dbq_move gets the error and cannot forge the state",
  async () => {
    const { name, url, client, drop } = await newSchema();
    onTestFinished(drop);
    const old = await temporaryQueue({}, url);
    await old.enqueueTask(task);
    const role = `${name}_app`;
    await client.query(`create role ${role}; grant usage on schema ${name} to ${role};
      grant select, insert, update, delete on dbq_tasks to ${role}; grant usage on all sequences in schema ${name} to ${role}`);
    onTestFinished(async () => void (await client.query(`drop owned by ${role}; drop role ${role}`)));
    await moveQueue(old, await temporaryQueue());
    await client.query(`set role ${role}; create temp table dbq_move as select 1 as door`);
    onTestFinished(async () => void (await client.query("reset role")));
    // While the schema is not in the search path, temporary tables come first.
    for (const path of [name, "public"]) {
      await client.query(`set search_path = ${path}`);
      for (const text of [
        `insert into ${name}.dbq_tasks (func) values ('f')`,
        `delete from ${name}.dbq_tasks`,
      ])
        await expect(client.query(text)).rejects.toThrow("this queue moves to the new database");
    }
  },
);
