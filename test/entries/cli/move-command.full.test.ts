/** `dbq move`: what it says, what it refuses, and how it is stopped. */
import { spawnSync } from "node:child_process";
import { existsSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { expect, onTestFinished, test, vi } from "vitest";
import { type Moved, remoteTask, type Task } from "../../../src/index.ts";
import { differences, makeQueue } from "../../features/transfer/moved-rows.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { temporaryFolder, temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import {
  dbq,
  dbqJson,
  folderWithQueue,
  inPairs,
  isEvent,
  program,
  start,
  startDbq,
  startWorker,
} from "./dbq.ts";

const task = remoteTask<() => Promise<void>>("f");
const noPostgres = isMissing(await postgresServer());
const noMysql = isMissing(await mysqlServer());

const move = ["move", "--from", "dbq.db", "--to", "new.db"];

async function folderOf(tasks: number): Promise<string> {
  const folder = temporaryFolder();
  await makeQueue(join(folder, "dbq.db"), tasks);
  return folder;
}

test("says what it has done; then the old database says where the tasks are", async () => {
  const folder = await folderOf(20);
  const moved = await dbq(folder, move);
  expect(moved).toMatchObject({ code: 0, err: "start apps and workers with DBQ_URL=new.db\n" });
  expect(moved.out).toMatch(
    /^new\.db has all 20 tasks and 7 attempts of dbq\.db: 27 rows written in .+\ndbq\.db takes nothing more: .+\n$/,
  );
  expect(differences(join(folder, "dbq.db"), join(folder, "new.db"))).toEqual([]);
  const refused = await dbq(folder, ["enqueue", "f", "--db", "dbq.db"]);
  expect(refused).toMatchObject({ code: 1, out: "" });
  expect(refused.err).toMatch(
    /^error: dbq\.db: this queue moves to new\.db: this database takes no more tasks/,
  );
  expect(await dbq(folder, ["enqueue", "f", "--db", "new.db"])).toMatchObject({ code: 0, out: "24\n" });
  const problem = "problem: move: this queue moves to new.db: this database takes no more tasks";
  expect((await dbq(folder, ["doctor", "--db", "dbq.db"])).out).toContain(problem);
  expect((await dbq(folder, ["doctor", "--db", "new.db"])).out).not.toContain("problem: move");
  // A script may say it again.
  const again = await dbqJson<Moved>(folder, move);
  expect(again).toMatchObject({ tasks: 21, written: 0, resumed: true, from: "dbq.db", to: "new.db" });
  const elsewhere = await dbq(folder, ["move", "--db", "dbq.db", "--to", "third.db"]);
  expect(elsewhere.code).toBe(1);
  expect(elsewhere.err).toBe("error: dbq.db: its tasks have already been moved to new.db\n");
});

test("a database that it cannot be moved to is named, and the old one goes on", async () => {
  const { folder, queue } = await folderWithQueue();
  await queue.enqueueTask(task);
  const other = await temporaryQueue({}, join(folder, "other.db"));
  await other.enqueueTask(task);
  symlinkSync(join(folder, "dbq.db"), join(folder, "same.db"));
  const refusals: [string, string][] = [
    ["other.db", "other.db: it has 1 task of its own: moved tasks keep their ids"],
    ["same.db", "dbq.db and same.db are the same database"],
    ["nowhere/new.db", "its folder does not exist"],
  ];
  for (const [to, said] of refusals) {
    const refused = await dbq(folder, ["move", "--from", "dbq.db", "--to", to, "--json"]);
    expect(refused).toMatchObject({ code: 1, out: "" });
    expect(JSON.parse(refused.err).error).toMatchObject({ code: "DBQ_DATABASE" });
    expect(JSON.parse(refused.err).error.message).toContain(said);
    await queue.enqueueTask(task);
    await other.enqueueTask(task);
    await other.purgeTasks();
    await other.enqueueTask(task);
  }
});

test("what cannot be meant is wrong usage", async () => {
  const { folder } = await folderWithQueue();
  const wrong: [string[], string][] = [
    [["move", "--from", "dbq.db"], "--to"],
    [["move", "--from", "dbq.db", "--to", "dbq.db"], "the same"],
    [["move", "--to", "dbq.db"], "the same"],
    [["move", "--from", ":memory:", "--to", "new.db"], "memory"],
    [["move", "--from", "dbq.db", "--to", "sqlite::memory:"], "memory"],
    [["move", "--from", "dbq.db", "--to", "redis://there"], "redis"],
  ];
  await inPairs(wrong, async ([args, named]) => {
    const { code, out, err } = await dbq(folder, args);
    expect([args, code, out, err.trimEnd().split("\n").length]).toEqual([args, 2, "", 1]);
    expect(err).toContain(named);
  });
  const { code, err } = await dbq(folder, ["move", "--from", "none.db", "--to", "new.db"]);
  expect([code, err.includes("none.db: there is no such file")]).toEqual([1, true]);
  expect(existsSync(join(folder, "new.db"))).toBe(false);
});

test("while a worker runs it is refused; what a dead one ran is charged, and moved", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder);
  const id = await queue.enqueueTask(remoteTask("untilAborted"));
  await worker.out(isEvent("started", id));
  const [{ id: workerId } = { id: "" }] = await queue.listWorkers();
  const refused = await dbq(folder, move);
  expect(refused.code).toBe(1);
  expect(refused.err).toContain(`dbq.db: a worker runs on it: ${workerId} (heartbeat`);
  expect(await queue.getTask(id)).toMatchObject({ status: "running", generationId: 2 });

  worker.child.kill("SIGKILL");
  await worker.ended;
  expect(await dbq(folder, move)).toMatchObject({ code: 0 });
  const db = ["--db", "new.db"];
  expect(await dbqJson<Task>(folder, ["show", String(id), ...db])).toMatchObject({
    ...{ status: "pending", generationId: 3, retryCount: 1, workerId },
    attempts: [{ outcome: "crashed", generationId: 2 }],
  });
  const next = await startWorker(folder, ...db);
  await next.out(isEvent("started", id));
});

test("of tasks that have been moved, nobody is told that no worker takes them", async () => {
  const { folder, queue } = await folderWithQueue();
  await queue.enqueueTask(task);
  const client = new Database(join(folder, "dbq.db"));
  onTestFinished(() => void client.close());
  client.exec("update dbq_tasks set updated_at = updated_at - 60000");
  const untaken = "no live worker serves its queue";
  for (const command of ["doctor", "stats"]) expect((await dbq(folder, [command])).out).toContain(untaken);
  expect(await dbqJson(folder, ["stats"])).toMatchObject({ untaken: [{ func: "f" }], sealed: null });

  expect(await dbq(folder, move)).toMatchObject({ code: 0 });
  const refusal = "this queue moves to new.db: this database takes no more tasks";
  for (const state of ["moved", "closing"]) {
    client.prepare("update dbq_move set state = ?").run(state);
    const doctor = await dbq(folder, ["doctor", "--json"]);
    expect([doctor.code, JSON.parse(doctor.out)]).toMatchObject([1, { ok: false, untaken: [] }]);
    expect(JSON.parse(doctor.out).problems).toEqual([expect.stringContaining(`move: ${refusal}`)]);
    const sealed = expect.stringContaining(refusal);
    expect(await dbqJson(folder, ["stats"])).toMatchObject({ tasks: { pending: 1 }, untaken: [], sealed });
    const { code, out } = await dbq(folder, ["stats"]);
    expect([code, out]).toEqual([0, expect.stringContaining(`frozen: ${refusal}`)]);
  }
  client.exec("update dbq_move set state = 'copying'");
  expect((await dbq(folder, ["stats"])).out).toContain(untaken);
});

test("workers that are told to work on the old database do not", async () => {
  const folder = await folderOf(10);
  expect(await dbq(folder, move)).toMatchObject({ code: 0 });
  await expect(startWorker(folder)).rejects.toThrow("this queue moves to new.db");
});

test("workers on the new database have to wait for its tasks", async () => {
  const { folder, queue } = await folderWithQueue();
  await queue.enqueueTask(task);
  const early = await startWorker(folder, "--db", "new.db");
  const refused = await dbq(folder, move);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("new.db: a worker runs on it")]);
  early.child.kill("SIGTERM");
  expect((await early.ended).code).toBe(0);
  expect(await dbq(folder, move)).toMatchObject({ code: 0 });
});

const fixture = (name: string): string[] => {
  const [node, ...rest] = program;
  const file = rest.at(-1)?.endsWith(".ts")
    ? fileURLToPath(new URL(`fixtures/${name}.ts`, import.meta.url))
    : join(String(process.env.DBQ_COMPILED), `test/entries/cli/fixtures/${name}.js`);
  return [node, ...rest.slice(0, -1), file];
};

test.each(["copying", "closing"])("killed while %s, it goes on when it is said again", async (state) => {
  const folder = await folderOf(1_500);
  const [node = "", ...args] = fixture("mover");
  const killed = await start(folder, node, [...args, "dbq.db", "new.db", state]).ended;
  expect(killed).toMatchObject({ signal: "SIGKILL", err: "" });
  const early = await dbq(folder, ["enqueue", "f", "--db", "new.db"]);
  expect(early.err).toContain(
    'the tasks of dbq.db are being moved to this database: run "dbq move" until it has completed',
  );
  expect(await dbq(folder, ["enqueue", "f", "--db", "dbq.db"])).toMatchObject({
    code: state === "copying" ? 0 : 1,
  });
  expect(await dbqJson<Moved>(folder, move)).toMatchObject({ resumed: true });
  expect(differences(join(folder, "dbq.db"), join(folder, "new.db"))).toEqual([]);
});

/** By then, `dbq move` has opened both databases. */
function hasTables(path: string): boolean {
  if (!existsSync(path)) return false;
  const client = new Database(path, { readonly: true });
  const found = client.prepare("select 1 from sqlite_master where name = 'dbq_workers'").get();
  client.close();
  return found !== undefined;
}

test("a signal ends it between two batches, and the old database is as it was", async () => {
  const folder = await folderOf(3_000);
  // Nobody can write to the old one, in which it makes its mark first.
  const client = new Database(join(folder, "dbq.db"));
  onTestFinished(() => void client.close());
  client.exec("begin immediate");
  const moving = startDbq(folder, [...move, "--json"]);
  await vi.waitUntil(() => hasTables(join(folder, "new.db")), { timeout: 60_000, interval: 20 });
  moving.child.kill("SIGINT");
  client.exec("commit");
  const { code, out, err } = await moving.ended;
  expect([code, out]).toEqual([1, ""]);
  expect(JSON.parse(err).error.message).toBe(
    "SIGINT: not all was moved, and dbq.db is as it was: the same command goes on",
  );
  expect(await dbq(folder, ["enqueue", "f", "--db", "dbq.db"])).toMatchObject({ code: 0 });
  expect(await dbqJson<Moved>(folder, move)).toMatchObject({ tasks: 3_001 });
});

test("a terminal sees a bar, which is gone at the end", async (context) => {
  if (spawnSync("script", ["--version"]).status !== 0)
    context.skip("there is no `script` to make a terminal with");
  const folder = await folderOf(30);
  const command = [...program, ...move].map((word) => `'${word}'`).join(" ");
  const { out } = await start(folder, "script", ["-qec", command, "/dev/null"], { TERM: "xterm" }).ended;
  expect(out).toMatch(/█{30} 100 % copying: 42 of 42 rows, \d+ a second/);
  expect(out.split("\r\u001b[K").at(-1)).toMatch(/^new\.db has all 30 tasks/);
});

test.skipIf(noPostgres || noMysql)("a password is shown nowhere", async () => {
  const folder = await folderOf(5);
  const [schema, database] = [await newSchema(), await newDatabase()];
  onTestFinished(() => Promise.all([schema.drop(), database.drop()]).then(() => undefined));
  const secret = (url: string) => {
    const with_ = new URL(url);
    with_.username ||= "root";
    with_.password ||= "s3cret";
    return { url: with_.href, password: with_.password };
  };
  const [postgres, mysql] = [secret(schema.url), secret(database.url)];
  const first = await dbq(folder, ["move", "--from", "dbq.db", "--to", postgres.url]);
  const told = await dbq(folder, ["enqueue", "f", "--db", "dbq.db"]);
  // It is refused: the server has no such password, or no such database.
  const second = await dbq(folder, ["move", "--from", postgres.url, "--to", `${mysql.url}x`, "--json"]);
  expect([first.code, told.code, second.code]).toEqual([0, 1, 1]);
  for (const { out, err } of [first, told, second]) {
    expect(out + err).not.toContain(postgres.password);
    expect(out + err).not.toContain(mysql.password);
  }
  expect(told.err).toContain("this queue moves to postgres://");
});
