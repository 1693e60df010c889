/** The command line on servers: every command, and its errors. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { openQueue, type Queue, remoteTask, type Task } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { dbq as dbqProcess, type Ended, isEvent, type Running, startDbq, tasks } from "./dbq.ts";
import { dbq as dbqHere, dbqJson } from "./in-process.ts";
import { mysql, password, postgres, type ServerGround, type ServerPlace } from "./server-places.ts";

const add = remoteTask<(a: number, b: number) => Promise<number>>("add");

/** Commands that work on a database with tables and a task 1. */
const reading = [["list"], ["show", "1"], ["stats"], ["doctor"]];
const changing = [
  ["retry", "1"],
  ["cancel", "1"],
  ["purge", "--yes"],
];
const writing = [
  ["enqueue", "add", "[1, 2]"],
  ["worker", tasks],
];

async function newPlace(ground: ServerGround): Promise<ServerPlace> {
  const place = await ground.place();
  onTestFinished(() => place.remove());
  return place;
}

/** A place with tables, and a queue on it. */
async function placeWithQueue(ground: ServerGround): Promise<{ place: ServerPlace; queue: Queue }> {
  const place = await newPlace(ground);
  const queue = await openQueue(place.url);
  onTestFinished(() => queue.close());
  await place.allowReading();
  return { place, queue };
}

/** Starts a worker with the tasks of these tests; resolves when the worker is ready. */
async function startWorker(folder: string, ...args: string[]): Promise<Running> {
  const worker = startDbq(folder, ["worker", tasks, "--json", ...args]);
  await worker.out(isEvent("ready"));
  return worker;
}

/** Runs a command to its end: a worker in a process of its own, since it loads a module, and the others in this one. */
function dbq(folder: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended> {
  return (args[0] === "worker" ? dbqProcess : dbqHere)(folder, args, env);
}

const hostOf = (url: string) => new URL(url).hostname;

for (const ground of [postgres, mysql]) {
  describe.skipIf(isMissing(await ground.server()))(`on ${ground.name}`, () => {
    test("every command works", async () => {
      const { url } = await newPlace(ground);
      const folder = temporaryFolder();
      const run = (...args: string[]) => dbq(folder, [...args, "--db", url]);
      const json = <T>(...args: string[]) => dbqJson<T>(folder, [...args, "--db", url]);

      const migrated = await run("migrate");
      expect(migrated).toMatchObject({ code: 0, out: expect.stringContaining("the tables are up to date") });
      const tail = startDbq(folder, ["tail", "--json", "--db", url]);
      await tail.err((line) => line.includes("following"));
      const worker = await startWorker(folder, "--db", url);
      expect(await run("enqueue", "add", "[20, 22]", "--wait")).toMatchObject({ code: 0, out: "42\n" });
      await tail.out(isEvent("completed", 1));
      const { id } = await json<{ id: number }>("enqueue", "add", "[1, 2]", "--delay", "1h", "--meta", "a=1");

      expect((await json<Task[]>("list", "--meta", "a=1")).map((task) => task.id)).toEqual([id]);
      expect(await json("show", "1")).toMatchObject({ status: "completed", result: 42, attempts: [] });
      expect(await json("cancel", String(id))).toMatchObject([{ id, status: "cancelled" }]);
      expect(await json("stats")).toMatchObject({
        tasks: { completed: 1, cancelled: 1 },
        workers: [{ liveness: "alive" }],
      });
      expect(await json("doctor", tasks)).toMatchObject({ untaken: [], workers: [{ liveness: "alive" }] });
      expect(await json("retry", String(id))).toMatchObject([{ id }]);
      await worker.out(isEvent("completed", id));
      expect(await json("purge", "--func", "add", "--yes")).toEqual({ purged: 2, running: 0, skipped: 0 });

      for (const { child } of [worker, tail]) child.kill("SIGTERM");
      const ended = [await worker.ended, await tail.ended];
      expect(ended.map(({ code }) => code)).toEqual([0, 0]);
      expect(await json("stats")).toMatchObject({ workers: [] });
      for (const { out, err } of [migrated, ...ended]) expect(out + err).not.toContain(password);
    });

    test("commands on a database without tables advise to migrate and create none", async () => {
      const { url } = await newPlace(ground);
      const folder = temporaryFolder();
      for (const args of [...reading, ...changing, ["tail"]]) {
        const { code, out, err } = await dbq(folder, [...args, "--db", url]);
        expect([args[0], code, out]).toEqual([args[0], 1, ""]);
        expect(err).toContain('there is no table dbq_tasks: run "dbq migrate"');
        expect(err).not.toContain(password);
      }
    });

    test("an unreachable database is named on one line, without its password", async () => {
      const { url, refused, noSuchDatabase } = await newPlace(ground);
      const folder = temporaryFolder();
      const wrongPort = new URL(url);
      wrongPort.port = "1";
      const user = new URL(refused).username;
      const cases: [string, string, string[]][] = [
        [refused, user, ["list"]],
        [refused, user, ["worker", tasks]],
        [noSuchDatabase, "dbq_no_such_database", ["enqueue", "add", "[1, 2]"]],
        [noSuchDatabase, "dbq_no_such_database", ["migrate"]],
        [wrongPort.href, "ECONNREFUSED", ["tail"]],
        [wrongPort.href, "ECONNREFUSED", ["doctor"]],
      ];
      for (const [db, named, args] of cases) {
        const { code, out, err } = await dbq(folder, [...args, "--db", db]);
        expect([args[0], code, out, err.trimEnd().split("\n").length]).toEqual([args[0], 1, "", 1]);
        expect(err).toContain(hostOf(url));
        expect(err).toContain(named);
        const asJson = await dbq(folder, [...args, "--json"], { DBQ_URL: db });
        expect(JSON.parse(asJson.err)).toMatchObject({ error: { code: "DBQ_DATABASE" } });
        expect(err + asJson.err + asJson.out).not.toContain(password);
      }
    });

    test("a read-only user can read, and gets an error that names a missing right", async () => {
      const { place, queue } = await placeWithQueue(ground);
      const folder = temporaryFolder();
      await queue.enqueueTask(add.with({ delay: "1h" }), 1, 2);
      for (const args of reading) {
        expect([args[0], await dbq(folder, [...args, "--db", place.readOnly])]).toMatchObject([
          args[0],
          { code: 0, err: "" },
        ]);
      }
      for (const args of [...changing, ...writing]) {
        const { code, err } = await dbq(folder, [...args, "--db", place.readOnly]);
        expect([args[0], code]).toEqual([args[0], 1]);
        expect(err).toMatch(/denied .*dbq_(tasks|attempts|workers|settings)/);
        expect(err).not.toContain(password);
      }
      expect((await queue.listTasks()).map(({ status }) => status)).toEqual(["scheduled"]);
    });

    test("stats gives the counts to a user who may not read dbq_move", async () => {
      const { place, queue } = await placeWithQueue(ground);
      await queue.enqueueTask(add, 1, 2);
      await place.sql("create table dbq_move (move_id int, run int, state int, other int, refusal int)");
      const ended = await dbq(temporaryFolder(), ["stats", "--json", "--db", place.readOnly]);
      expect(ended).toMatchObject({ code: 0, err: "" });
      expect(JSON.parse(ended.out)).toMatchObject({ tasks: { pending: 1 }, sealed: null });
    });

    test("doctor reports a remote worker whose session has ended", async () => {
      const { place, queue } = await placeWithQueue(ground);
      const folder = temporaryFolder();
      const worker = await startWorker(folder, "--db", place.url);
      await sessionIs(queue, true);
      await place.sql("update dbq_workers set host = 'elsewhere'");
      const doctor = () => dbq(folder, ["doctor", "--json", "--db", place.url]);
      expect(JSON.parse((await doctor()).out)).toMatchObject({ workers: [{ liveness: "alive" }] });
      worker.child.kill("SIGKILL");
      await worker.ended;
      await sessionIs(queue, false);
      const { code, out } = await doctor();
      expect(code).toBe(1);
      expect(JSON.parse(out)).toMatchObject({
        ok: false,
        problems: expect.arrayContaining([
          expect.stringMatching(/^worker \S+ is dead: its database session has ended;/),
        ]),
        workers: [{ liveness: "dead" }],
      });
    });

    test("tail reports a task that commits after one with a higher id", async () => {
      const { place, queue } = await placeWithQueue(ground);
      const tail = startDbq(temporaryFolder(), ["tail", "--json", "--db", place.url]);
      await tail.err((line) => line.includes("following"));
      await place.sql("begin");
      await place.sql("insert into dbq_tasks (func) values ('late')");
      const early = await queue.enqueueTask(add, 1, 2);
      await tail.out(isEvent("enqueued", early));
      await place.sql("commit");
      expect(await tail.out(isEvent("enqueued", early - 1))).toContain('"func":"late"');
    });

    test("--no-sessions keeps no state on the worker's connections", async () => {
      const { place, queue } = await placeWithQueue(ground);
      const folder = temporaryFolder();
      const worker = await startWorker(folder, "--no-sessions", "--db", place.url);
      const id = await queue.enqueueTask(add, 20, 22);
      await worker.out(isEvent("completed", id));
      expect((await queue.listWorkers()).map(({ sessionLives }) => sessionLives)).toEqual([null]);
      const shown = await dbqJson(folder, ["show", String(id), "--no-sessions", "--db", place.url]);
      expect(shown).toMatchObject({ result: 42 });
    });
  });
}

/** Resolves when the server reports this about the session of the only worker. */
async function sessionIs(queue: Queue, lives: boolean): Promise<void> {
  await vi.waitFor(
    async () => expect((await queue.listWorkers()).map(({ sessionLives }) => sessionLives)).toEqual([lives]),
    { timeout: 30_000, interval: 50 },
  );
}
