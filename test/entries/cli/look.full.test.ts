import { once } from "node:events";
import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import {
  type Attempt,
  currentTask,
  registerTasks,
  remoteTask,
  type Task,
  type TaskCount,
  type TaskLog,
  task,
  withOptions,
} from "../../../src/index.ts";
import { startedWorker, temporaryFolder, uniqueName } from "../../support/queue.ts";
import { folderWithQueue, inPairs, isEvent, startDbq, startWorker, tasks } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

const add = remoteTask<(a: number, b: number) => Promise<number>>("add");

test("show says when a task expires, until it has started, and list has the time as JSON", async () => {
  const { folder, queue } = await folderWithQueue();
  const id = await queue.enqueueTask(add.with({ expiresIn: "1h" }), 1, 2);
  const { expiresAt } = (await queue.getTask(id)) ?? {};
  const [listed] = await dbqJson<Task[]>(folder, ["list", "--func", "add"]);
  expect(listed?.expiresAt).toBe(expiresAt?.toISOString());
  expect((await dbq(folder, ["show", String(id)])).out).toMatch(/^ *expires +20/m);
  await queue.updateTask(id, { expiresIn: null });
  expect((await dbq(folder, ["show", String(id)])).out).not.toMatch(/^ *expires +20/m);
});

test("list gives the newest tasks first, with each filter, page by page", async () => {
  const { folder, queue } = await folderWithQueue();
  const first = await queue.enqueueTask(
    add.with({ queueName: "mail", meta: { tenant: "acme", tries: 3 } }),
    1,
    2,
  );
  const second = await queue.enqueueTask(add.with({ delay: "1h", requestId: "r1" }), 1, 2);
  const third = await queue.enqueueTask(remoteTask("other"));
  const ids = async (...args: string[]) =>
    (await dbqJson<Task[]>(folder, ["list", ...args])).map(({ id }) => id);
  const filters: [string[], number[]][] = [
    [[], [third, second, first]],
    [["--func", "add", "--limit", "1"], [second]],
    [["--after", String(second)], [first]],
    [["--status", "scheduled,running"], [second]],
    [["--request-id", "r1"], [second]],
    [["--meta", "tenant=acme", "--meta", "tries=3"], [first]],
    [["--meta", 'tries="3"'], []],
  ];
  await inPairs(filters, async ([args, expected]) =>
    expect([args, await ids(...args)]).toEqual([args, expected]),
  );
  const [task] = await dbqJson<Task[]>(folder, ["list", "--queue", "mail"]);
  expect(task).toMatchObject({
    func: "add",
    args: [1, 2],
    status: "pending",
    meta: { tenant: "acme", tries: 3 },
  });
});

test("list prints an aligned table, and the option for the next page", async () => {
  const { folder, queue } = await folderWithQueue();
  for (const name of ["short", "a-much-longer-name", "テスト"]) await queue.enqueueTask(remoteTask(name));
  const { out, err } = await dbq(folder, ["list", "--limit", "3"]);
  const [heading = "", ...rows] = out.trimEnd().split("\n");
  expect(rows).toHaveLength(3);
  const column = heading.indexOf("QUEUE");
  expect(rows.slice(1).map((row) => row.slice(column, column + 7))).toEqual(["default", "default"]);
  // A terminal shows each of the three characters in two columns.
  expect(rows[0]?.slice(column - 3, column + 4)).toBe("default");
  expect(err).toBe("there may be more tasks: --after 1\n");
  expect(await dbq(folder, ["list", "--func", "none"])).toMatchObject({
    code: 0,
    out: "",
    err: "no tasks\n",
  });
});

test("show prints all facts about a task, with its failed attempts and its log", async () => {
  const { folder, queue } = await folderWithQueue();
  const name = uniqueName("shown");
  const broken = async () => {
    currentTask().log("page 1\n\u001b[31mpage 2");
    throw new RangeError("out of paper");
  };
  registerTasks({ [name]: broken });
  const id = await queue.enqueueTask(withOptions(broken, { maxRetries: 0, requestId: "r7" }));
  await startedWorker(queue);
  await queue.awaitTaskCompletion(id);
  const shown = await dbqJson<Task & { attempts: Attempt[]; logs: TaskLog[] }>(folder, ["show", String(id)]);
  expect(shown).toMatchObject({ id, status: "failed", requestId: "r7", error: { name: "RangeError" } });
  expect(shown.logs).toMatchObject([{ taskId: id, generationId: 2, message: "page 1\n\u001b[31mpage 2" }]);
  expect(shown.attempts).toMatchObject([{ outcome: "failed", error: { message: "out of paper" } }]);
  const { out, code } = await dbq(folder, ["show", String(id)]);
  expect(code).toBe(0);
  for (const text of [name, "failed", "r7", "RangeError: out of paper", "look.full.test.ts"])
    expect(out).toContain(text);
  expect(out).toMatch(/^LOG OF ATTEMPT 1\n\S+ \S+Z page 1\\n\\x1b\[31mpage 2$/m);
});

test("show says that the error of an unfinished task is the last one", async () => {
  const { folder, queue } = await folderWithQueue();
  const broken = task(
    uniqueName("shown"),
    () => {
      throw new RangeError("out of ink");
    },
    { backoff: () => "1h" },
  );
  const worker = await startedWorker(queue);
  const retrying = once(worker, "retrying");
  const id = await queue.enqueueTask(broken);
  await retrying;
  expect((await dbq(folder, ["show", String(id)])).out).toMatch(/^ {2}last error +RangeError: out of ink$/m);
});

test("show exits with 1 for an unknown id, with 2 for a malformed one", async () => {
  const { folder } = await folderWithQueue();
  const unknown = await dbq(folder, ["show", "4711"]);
  expect(unknown).toEqual({ code: 1, signal: null, out: "", err: "error: there is no task 4711\n" });
  const asJson = await dbq(folder, ["show", "4711", "--json"]);
  expect(JSON.parse(asJson.err)).toMatchObject({ error: { code: "DBQ_TASK_NOT_FOUND", taskId: 4711 } });
  expect(await dbq(folder, ["show", "1.5"])).toMatchObject({ code: 2, out: "" });
});

interface Stats {
  tasks: Record<string, number>;
  counts: TaskCount[];
  workers: { id: string; liveness: string }[];
  untaken: { func: string; tasks: number; reason: string }[];
}

test("stats prints counts, workers, and functions that no module registers", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder);
  const done = await queue.enqueueTask(add, 1, 2);
  await queue.enqueueTasks([[remoteTask("unknown")], [remoteTask("unknown").with({ delay: "1h" })]] as const);
  await worker.out(isEvent("completed", done));
  const inModule = await startDbq(folder, ["stats", tasks, "--json"]).ended;
  const stats = JSON.parse(inModule.out) as Stats;
  expect(stats.tasks).toMatchObject({ pending: 1, scheduled: 1, completed: 1, failed: 0 });
  expect(stats.counts).toContainEqual({ queueName: "default", func: "add", status: "completed", count: 1 });
  expect(stats.workers).toMatchObject([{ liveness: "alive", concurrency: 10, queueNames: ["default"] }]);
  const reason = "none of the given modules registers it";
  expect(stats.untaken).toMatchObject([
    { func: "unknown", tasks: 1, reason },
    { func: "unknown", tasks: 1, reason },
  ]);
  const { out, code } = await dbq(folder, ["stats"]);
  expect(code).toBe(0);
  const row = out.split("\n").find((each) => each.includes("unknown"));
  expect(row?.trim().split(/\s+/)).toEqual(["default", "unknown", "1", "1", "0", "0", "0", "0"]);
});

interface Findings {
  ok: boolean;
  problems: string[];
  database: { name: string; value: unknown }[];
}

test("a malformed time of another program hides no other fact", async () => {
  const { folder, queue } = await folderWithQueue();
  const { default: Database } = await import("better-sqlite3");
  const client = new Database(`${folder}/dbq.db`);
  // Text, and nanoseconds, which are beyond the range of a Date.
  const write =
    client.prepare(`insert into dbq_tasks (func, status, created_at, updated_at, wait_until, started_at, finished_at)
    values ('bent', @status, @time, @time, @time, @time, @time)`);
  for (const status of ["scheduled", "completed", "pending"])
    for (const time of ["soon", 1_700_000_000_000_000_000n]) write.run({ status, time });
  const good = await queue.enqueueTask(add, 1, 2);
  // On a slow machine the task would be pending for so long that doctor reports it.
  client.prepare("update dbq_tasks set updated_at = updated_at + 600000 where id = ?").run(good);
  client.close();
  const commands = [["list"], ["show", "1"], ["show", "4"], ["stats"], ["doctor"], ["show", "1", "--json"]];
  await inPairs(commands, async (args) => {
    const { code, out, err } = await dbq(folder, args);
    const expected = args[0] === "doctor" ? 1 : 0;
    expect([args, code, err, out]).toEqual([args, expected, "", expect.not.stringMatching(/NaN|Invalid/)]);
  });
  const { problems } = JSON.parse((await dbq(folder, ["doctor", "--json"])).out) as Findings;
  expect(problems).toEqual([expect.stringMatching(/^unreadable rows of dbq_tasks: .*: 6 \(.* and 1 others/)]);
  const list = (await dbq(folder, ["list"])).out;
  expect(list).toMatch(/^ *1 +scheduled +bent .* not a time +until not a time$/m);
  expect(list).toMatch(new RegExp(`^ *${good} +pending +add .* \\d{4}-\\d\\d-\\d\\d [\\d:]{8}Z$`, "m"));
  expect((await dbq(folder, ["show", "4"])).out).toMatch(/finished +not a time$/m);
  expect(await dbqJson(folder, ["show", "1"])).toMatchObject({ func: "bent", waitUntil: null });
});

test("doctor prints facts and exits with 0 when there is no problem", async () => {
  const { folder } = await folderWithQueue();
  const { ok, problems, database } = await dbqJson<Findings>(folder, ["doctor"]);
  expect([ok, problems]).toEqual([true, []]);
  const names = database.map(({ name }) => name);
  expect(names).toEqual(
    expect.arrayContaining(["SQLite", "journal mode", "synchronous", "WAL size", "file system"]),
  );
  const { out } = await dbq(folder, ["doctor"]);
  expect(out).toContain("no problem was found");
});

test("doctor reports a killed worker at once", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder);
  worker.child.kill("SIGKILL");
  await worker.ended;
  const [{ id } = { id: "" }] = await queue.listWorkers();
  const { code, out } = await dbq(folder, ["doctor", "--json"]);
  expect(code).toBe(1);
  const { ok, problems } = JSON.parse(out) as Findings;
  expect(ok).toBe(false);
  expect(problems).toEqual([expect.stringContaining(`worker ${id} is dead: its process has ended`)]);
});

test("doctor reports tasks whose function no module registers, or whose queue no worker serves", async () => {
  const { folder, queue } = await folderWithQueue();
  const lonely = await queue.enqueueTask(remoteTask("lonely").with({ queueName: "unserved" }));
  const orphan = await queue.enqueueTask(remoteTask("orphan"));
  const problems = async (...args: string[]) => {
    const { code, out } = await startDbq(folder, ["doctor", "--json", ...args]).ended;
    expect(code).toBe(1);
    return (JSON.parse(out) as Findings).problems;
  };
  const [first, second] = await problems(tasks);
  expect([first, second]).toEqual([
    expect.stringMatching(
      /^1 of orphan in queue default, .*: none of the given modules registers it; .*`dbq worker --queue default tasks\.js`$/,
    ),
    expect.stringMatching(
      /^1 of lonely in queue unserved, .*: none of the given modules registers it; .*`dbq worker --queue unserved tasks\.js`$/,
    ),
  ]);
  // As if they had been enqueued a minute ago.
  await aged(folder, [lonely, orphan]);
  await startWorker(folder);
  const [free, unserved] = await problems();
  expect(free).toContain(
    "1 of orphan in queue default, pending for 1 min: the live worker of its queue had a free",
  );
  expect(unserved).toContain(
    "1 of lonely in queue unserved, pending for 1 min: no live worker serves its queue",
  );
});

async function aged(folder: string, ids: readonly number[]): Promise<void> {
  const { default: Database } = await import("better-sqlite3");
  const client = new Database(`${folder}/dbq.db`);
  client
    .prepare(
      "update dbq_tasks set updated_at = updated_at - 60000 where id in (select value from json_each(?))",
    )
    .run(JSON.stringify(ids));
  client.close();
}

test("commands that read or operate name a missing database file and do not create it", async () => {
  const folder = temporaryFolder();
  const commands = [["list"], ["show", "1"], ["retry", "1"], ["cancel", "1"], ["purge", "--yes"]];
  const more = [["stats"], ["tail"], ["doctor"]];
  await inPairs([...commands, ...more], async (args) => {
    const { code, out, err } = await dbq(folder, [...args, "--db", "sqlite:not-there.db"]);
    expect([args[0], code, out]).toEqual([args[0], 1, ""]);
    expect(err).toMatch(/^error: sqlite:not-there\.db: there is no such file \(.*not-there\.db\).*\n$/);
  });
  expect(readdirSync(folder)).toEqual([]);
});

test("migrate creates the file that DBQ_URL names; list on a file without tables advises to migrate", async () => {
  const folder = temporaryFolder();
  const env = { DBQ_URL: "app.db" };
  expect(await dbq(folder, ["migrate"], env)).toMatchObject({
    code: 0,
    out: "app.db: the tables are up to date\n",
  });
  expect(await dbq(folder, ["list", "--json"], env)).toMatchObject({ code: 0, out: "[]\n" });
  expect(readdirSync(folder)).toContain("app.db");
  const { default: Database } = await import("better-sqlite3");
  new Database(`${folder}/other.db`).exec("create table mine (id integer)").close();
  const { code, err } = await dbq(folder, ["list", "--db", "other.db"], env);
  expect(code).toBe(1);
  expect(err).toContain('other.db: there is no table dbq_tasks: run "dbq migrate"');
});
