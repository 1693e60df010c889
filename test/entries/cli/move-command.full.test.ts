/** `dbq move`: its output, its refusals, and how a signal stops it. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, symlinkSync } from "node:fs";
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
import { folderWithQueue, isEvent, program, start, startDbq, startWorker } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

const task = remoteTask<() => Promise<void>>("f");
const noPostgres = isMissing(await postgresServer());
const noMysql = isMissing(await mysqlServer());

const move = ["move", "--from", "dbq.db", "--to", "new.db"];

async function folderOf(tasks: number): Promise<string> {
  const folder = temporaryFolder();
  await makeQueue(join(folder, "dbq.db"), tasks);
  return folder;
}

test("move reports what it has copied, and the old database then names the new one", async () => {
  const folder = await folderOf(20);
  const moved = await dbq(folder, move);
  expect(moved).toMatchObject({ code: 0, err: "start apps and workers with DBQ_URL=new.db\n" });
  expect(moved.out).toMatch(
    /^new\.db has all 20 tasks, 7 attempts and 4 log lines of dbq\.db: 31 rows written in .+\ndbq\.db takes no more tasks: .+\n$/,
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
  // A script may run the same command again.
  const again = await dbqJson<Moved>(folder, move);
  expect(again).toMatchObject({ tasks: 21, written: 0, resumed: true, from: "dbq.db", to: "new.db" });
  const elsewhere = await dbq(folder, ["move", "--db", "dbq.db", "--to", "third.db"]);
  expect(elsewhere.code).toBe(1);
  expect(elsewhere.err).toBe("error: dbq.db: its tasks have already been moved to new.db\n");
});

test("move names a database that it cannot move to, and the old one takes tasks", async () => {
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

test("move refuses wrong targets as wrong usage", async () => {
  const { folder } = await folderWithQueue();
  const wrong: [string[], string][] = [
    [["move", "--from", "dbq.db"], "--to"],
    [["move", "--from", "dbq.db", "--to", "dbq.db"], "the same"],
    [["move", "--to", "dbq.db"], "the same"],
    [["move", "--from", ":memory:", "--to", "new.db"], "memory"],
    [["move", "--from", "dbq.db", "--to", "sqlite::memory:"], "memory"],
    [["move", "--from", "dbq.db", "--to", "redis://there"], "redis"],
  ];
  for (const [args, named] of wrong) {
    const { code, out, err } = await dbq(folder, args);
    expect([args, code, out, err.trimEnd().split("\n").length]).toEqual([args, 2, "", 1]);
    expect(err).toContain(named);
  }
  const { code, err } = await dbq(folder, ["move", "--from", "none.db", "--to", "new.db"]);
  expect([code, err.includes("none.db: there is no such file")]).toEqual([1, true]);
  expect(existsSync(join(folder, "new.db"))).toBe(false);
});

test("move refuses to start beside a live worker, and rescues the tasks of a dead one", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder);
  const id = await queue.enqueueTask(remoteTask("untilAborted"));
  await worker.out(isEvent("started", id));
  const [{ id: workerId } = { id: "" }] = await queue.listWorkers();
  const refused = await dbq(folder, move);
  expect(refused.code).toBe(1);
  expect(refused.err).toContain(`dbq.db: a worker runs on it: ${workerId} (heartbeat`);
  expect(readdirSync(folder).filter((name) => name.startsWith("new.db"))).toEqual([]);
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

test("doctor and stats do not report moved tasks as unclaimed", async () => {
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

test("a worker cannot start on the old database", async () => {
  const folder = await folderOf(10);
  expect(await dbq(folder, move)).toMatchObject({ code: 0 });
  await expect(startWorker(folder)).rejects.toThrow("this queue moves to new.db");
});

test("move refuses to start beside a worker on the new database", async () => {
  const { folder, queue } = await folderWithQueue();
  await queue.enqueueTask(task);
  const early = await startWorker(folder, "--db", "new.db", "--create");
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

test.each(["copying", "closing"])(
  "a move killed while %s is continued by the same command",
  async (state) => {
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
  },
);

/** Whether `dbq move` has opened both databases. */
function hasTables(path: string): boolean {
  if (!existsSync(path)) return false;
  const client = new Database(path, { readonly: true });
  const found = client.prepare("select 1 from sqlite_master where name = 'dbq_workers'").get();
  client.close();
  return found !== undefined;
}

test("a signal ends a move between two batches, and the old database takes tasks", async () => {
  const folder = await folderOf(3_000);
  // The move first writes its state to the old database, and waits for this transaction.
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
    "SIGINT: the move has not completed, and dbq.db takes tasks as before: run the same command to continue",
  );
  expect(await dbq(folder, ["enqueue", "f", "--db", "dbq.db"])).toMatchObject({ code: 0 });
  expect(await dbqJson<Moved>(folder, move)).toMatchObject({ tasks: 3_001 });
});

test("move draws a progress bar on a terminal and erases it", async (context) => {
  if (spawnSync("script", ["--version"]).status !== 0)
    context.skip("the program `script`, which makes a terminal, is not installed");
  const folder = await folderOf(30);
  const command = [...program, ...move].map((word) => `'${word}'`).join(" ");
  const { out } = await start(folder, "script", ["-qec", command, "/dev/null"], { TERM: "xterm" }).ended;
  expect(out).toMatch(/█{30} 100 % copying: 47 of 47 rows, \d+ a second/);
  expect(out.split("\r\u001b[K").at(-1)).toMatch(/^new\.db has all 30 tasks/);
});

test.skipIf(noPostgres || noMysql)("move shows no password", async () => {
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
  const refused = await dbq(folder, ["enqueue", "f", "--db", "dbq.db"]);
  // The server refuses it: the password is wrong, or the database does not exist.
  const second = await dbq(folder, ["move", "--from", postgres.url, "--to", `${mysql.url}x`, "--json"]);
  expect([first.code, refused.code, second.code]).toEqual([0, 1, 1]);
  for (const { out, err } of [first, refused, second]) {
    expect(out + err).not.toContain(postgres.password);
    expect(out + err).not.toContain(mysql.password);
  }
  expect(refused.err).toContain("this queue moves to postgres://");
});
