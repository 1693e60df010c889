import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { deferred, startedWorker, temporaryFolder } from "../../support/queue.ts";
import {
  dbq,
  dbqJson,
  eventsOf,
  fixture,
  folderWithQueue,
  inPairs,
  isEvent,
  startDbq,
  startWorker,
  tasks,
} from "./dbq.ts";

const add = remoteTask<(a: number, b: number) => Promise<number>>("add");
const fail = remoteTask<(message: string) => Promise<void>>("fail");
const untilAborted = remoteTask<() => Promise<void>>("untilAborted");
const untilInput = remoteTask<() => Promise<string>>("untilInput");

test("a worker runs tasks, prints their events, and exits with 0 after SIGTERM", async () => {
  const { folder, queue } = await folderWithQueue();
  const good = await queue.enqueueTask(add, 1, 2);
  const bad = await queue.enqueueTask(fail.with({ maxRetries: 0 }), "no");
  const worker = await startWorker(folder);
  await worker.out(isEvent("completed", good));
  const failed = JSON.parse(await worker.out(isEvent("failed", bad)));
  expect(failed).toMatchObject({
    func: "fail",
    queueName: "default",
    error: { name: "Error", message: "no" },
  });
  worker.child.kill("SIGTERM");
  const ended = await worker.ended;
  expect(ended.code).toBe(0);
  expect(eventsOf(ended.out).toSorted()).toEqual(
    [
      "ready",
      `started ${good}`,
      `started ${bad}`,
      `completed ${good}`,
      `failed ${bad}`,
      "stopped",
    ].toSorted(),
  );
  expect(await queue.awaitTaskResult(good)).toBe(3);
});

test("a worker says when a workflow begins to wait, and when it begins to undo its steps", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = startDbq(folder, ["worker", fixture("flows"), "--concurrency", "1"]);
  const printed = async (text: string) => (await worker.out((line) => line.includes(text))).slice(21);
  await printed("ready");
  const id = await queue.enqueueTask(remoteTask("order"), "7");
  expect(await printed("cool-off")).toBe(`waiting     #${id} order for the time of cool-off`);
  expect(await printed("for task")).toBe(`waiting     #${id} order for task ${id + 1}`);
  expect(await printed("approved")).toBe(`waiting     #${id + 1} approval for event approved:7`);
  await queue.cancelTask(id);
  expect(await printed("undoing")).toBe(`undoing     #${id} order`);
  expect(await queue.awaitTaskCompletion(id)).toMatchObject({ status: "cancelled" });
  worker.child.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
});

const asUrl = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`;

/** A loader that takes 100 ms for each import of dbq-ts, as Node may on a busy machine. */
const slowImports = asUrl(`export const resolve = async (name, context, next) => {
  if (/\\/index\\.[jt]s$/.test(name)) await new Promise((resolve) => setTimeout(resolve, 100));
  return await next(name, context);
};`);

test("ready comes before the events of tasks that waited for the worker", async () => {
  const { folder, queue } = await folderWithQueue();
  await queue.enqueueTasks(Array.from({ length: 5 }, () => [add, 1, 2] as const));
  const hook = asUrl(`import { register } from "node:module"; register(${JSON.stringify(slowImports)});`);
  const env = { NODE_OPTIONS: `--import=${hook}` };
  const worker = startDbq(folder, ["worker", tasks, "--json", "--until-idle"], env);
  const { code, out } = await worker.ended;
  expect(code).toBe(0);
  expect(eventsOf(out).at(0)).toBe("ready");
  expect(eventsOf(out)).toHaveLength(12);
});

test("a failed task's line ends with the innermost cause of its error, and show has all causes with their stacks", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = startDbq(folder, ["worker", tasks]);
  const id = await queue.enqueueTask(remoteTask("failQuery"));
  const failed = await worker.out((line) => line.includes("failed"));
  expect(failed).toMatch(
    /failQuery Error: Failed query: select .*…; cause: RangeError: no such table: orders$/,
  );
  expect(failed.length).toBeLessThan(300);
  const waited = await dbq(folder, ["enqueue", "failQuery", "--wait=30s"]);
  expect(waited.code).toBe(1);
  expect(waited.err).toMatch(
    /^error: task \d+ \(failQuery\) failed: .*; cause: RangeError: no such table: orders$/m,
  );
  const shown = await dbq(folder, ["show", String(id)]);
  expect(shown.out).toMatch(
    /^ {2}error {6}Error: Failed query: (?:select )+\n {8}at .*^ {2}cause {6}RangeError: no such table: orders\n {8}at /ms,
  );
  // Each message stands there once: as a fact, and not again above its stack or beside its attempt.
  expect(shown.out.match(/Failed query/g)).toHaveLength(1);
  expect(shown.out).toMatch(/^attempt 1 on worker \S+: the error above$/m);
  expect(await dbqJson(folder, ["show", String(id)])).toMatchObject({
    error: { cause: { name: "RangeError", message: "no such table: orders" } },
  });
});

test("after SIGTERM running tasks finish, and no more are claimed", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder, "--concurrency", "1");
  const running = await queue.enqueueTask(untilInput);
  const waiting = await queue.enqueueTask(add, 1, 2);
  await worker.out(isEvent("started", running));
  worker.child.kill("SIGTERM");
  const stopping = JSON.parse(await worker.err(isEvent("stopping")));
  expect(stopping).toMatchObject({
    message: "SIGTERM: stopping; 1 running: given 30.0 s to finish, a second signal stops now",
    signal: "SIGTERM",
    running: 1,
    grace: 30_000,
  });
  worker.child.stdin?.write("input\n");
  const ended = await worker.ended;
  expect(ended.code).toBe(0);
  expect(await queue.getTask(running)).toMatchObject({ status: "completed", result: "done" });
  expect(await queue.getTask(waiting)).toMatchObject({ status: "pending", generationId: 1 });
});

test("a task that does not finish within the grace is handed back uncharged", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder, "--grace", "50ms");
  const id = await queue.enqueueTask(untilAborted);
  await worker.out(isEvent("started", id));
  worker.child.kill("SIGINT");
  const ended = await worker.ended;
  expect(ended.code).toBe(0);
  expect(eventsOf(ended.out)).toContain(`interrupted ${id}`);
  expect(await queue.getTask(id)).toMatchObject({ status: "pending", retryCount: 0 });
});

test("a second signal hands tasks back without waiting for the grace", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder, "--grace", "10m");
  const id = await queue.enqueueTask(untilAborted);
  await worker.out(isEvent("started", id));
  worker.child.kill("SIGTERM");
  await worker.err(isEvent("stopping"));
  worker.child.kill("SIGTERM");
  const ended = await worker.ended;
  expect(ended.code).toBe(0);
  expect(ended.err).toContain("SIGTERM: stopping now; 1 running: handed back");
  expect(await queue.getTask(id)).toMatchObject({ status: "pending", retryCount: 0 });
});

test("unhandled rejections are logged with their task, and all tasks continue", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder);
  const stray = await queue.enqueueTask(remoteTask("stray"));
  await worker.err((line) => line.includes("null"));
  const after = await queue.enqueueTask(add, 1, 1);
  expect(await queue.awaitTaskResult(after, { timeout: "20s" })).toBe(2);
  expect(await queue.awaitTaskResult(stray)).toBe("fine");
  worker.child.kill("SIGTERM");
  const ended = await worker.ended;
  expect(ended.code).toBe(0);
  const logged = ended.err.trimEnd().split("\n");
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([
    { event: "error", taskId: stray, error: { name: "Error", message: "stray \u001b[31mred" } },
    { event: "error", taskId: stray, error: { name: "Thrown", message: "null" } },
    { event: "stopping" },
  ]);
});

test("after an uncaught exception other tasks finish, the worker exits with 1, and a rescue charges the task that has thrown", async () => {
  const { folder, queue } = await folderWithQueue();
  const other = await queue.enqueueTask(untilInput);
  const bomb = await queue.enqueueTask(remoteTask("bomb").with({ maxRetries: 1 }));
  const worker = startDbq(folder, ["worker", tasks]);
  await worker.err((line) => line.includes("uncaught exception"));
  const late = await queue.enqueueTask(add, 1, 2);
  worker.child.stdin?.write("input\n");
  const ended = await worker.ended;
  expect(ended.code).toBe(1);
  expect(ended.err).toContain(`uncaught exception in task ${bomb}: Error: bomb`);
  expect(await queue.getTask(other)).toMatchObject({ status: "completed" });
  expect(await queue.getTask(late)).toMatchObject({ status: "pending" });
  expect(await queue.getTask(bomb)).toMatchObject({ status: "running" });
  const rescuer = await startedWorker(queue);
  const rescued = deferred();
  rescuer.on("rescued", () => rescued.resolve());
  await rescued.promise;
  expect(await queue.getTask(bomb)).toMatchObject({ status: "pending", retryCount: 1 });
});

test("the default queue of a handler is the database of --db", async () => {
  const { folder, queue } = await folderWithQueue();
  await startWorker(folder, "--db", "sqlite:dbq.db");
  const chained = await queue.awaitTaskResult(await queue.enqueueTask(remoteTask("chain")), {
    timeout: "20s",
  });
  expect(await queue.awaitTaskResult(chained as number, { timeout: "20s" })).toBe(42);
});

test("--queue names several queues, by commas or repeated, and the worker serves no other", async () => {
  const { folder, queue } = await folderWithQueue();
  const ids: number[] = [];
  for (const queueName of ["other", "a", "b", "c"]) {
    ids.push(await queue.enqueueTask(add.with({ queueName }), 1, 1));
  }
  const worker = await startWorker(folder, "--queue", "a,b", "--queue", "c");
  for (const id of ids.slice(1)) await worker.out(isEvent("completed", id));
  expect((await queue.getTask(ids[0] as number))?.status).toBe("pending");
});

test("--quiet prints no events, and a worker survives the end of its reader", async () => {
  const { folder, queue } = await folderWithQueue();
  const quiet = startDbq(folder, ["worker", tasks, "--quiet"]);
  const id = await queue.enqueueTask(add, 1, 2);
  await queue.awaitTaskCompletion(id, { timeout: "20s" });
  quiet.child.kill("SIGTERM");
  expect(await quiet.ended).toMatchObject({ code: 0, out: "" });

  const unread = await startWorker(folder);
  unread.child.stdout?.destroy();
  for (let i = 0; i < 3; i += 1) {
    const next = await queue.enqueueTask(add, i, 1);
    expect(await queue.awaitTaskResult(next, { timeout: "20s" })).toBe(i + 1);
  }
  unread.child.kill("SIGTERM");
  expect(await unread.ended).toMatchObject({ code: 0 });
});

test("wrong worker options are wrong usage that names the value", async () => {
  const { folder } = await folderWithQueue();
  const wrong = [
    ["--concurrency", "0"],
    ["--lease", "10ms"],
    ["--grace", "soon"],
    ["--grace", "30"],
    ["--queue", "a,,b"],
    ["--queue", ""],
  ];
  await inPairs(wrong as [string, string][], async ([option, value]) => {
    const { code, out, err } = await dbq(folder, ["worker", tasks, option, value]);
    expect([option, code, out, err.trim().split("\n").length]).toEqual([option, 2, "", 1]);
    expect(err).toContain(option);
    expect(err).toContain(`'${value}'`);
    expect(err).not.toMatch(/queueName|new Worker/);
  });
});

test("ready names the database and the queues", async () => {
  const { folder } = await folderWithQueue();
  const worker = startDbq(folder, ["worker", tasks, "--queue", "a,b", "--json"]);
  const ready = JSON.parse(await worker.out(isEvent("ready")));
  expect(ready).toMatchObject({ database: "dbq.db", queues: ["a", "b"], concurrency: 10 });
  worker.child.kill("SIGTERM");
  await worker.ended;
  const plain = startDbq(folder, ["worker", tasks]);
  expect(await plain.out((line) => line.includes("ready"))).toContain("database dbq.db, worker ");
});

test("a worker creates a database file only with --create", async () => {
  const folder = temporaryFolder();
  const refused = await dbq(folder, ["worker", tasks, "--db", "new.db"]);
  expect(refused).toMatchObject({ code: 1, out: "" });
  expect(refused.err).toMatch(
    /^error: new\.db: there is no such file \(.*\): .* or create it with --create\n$/,
  );
  expect(readdirSync(folder)).toEqual([]);
  await startWorker(folder, "--db", "new.db", "--create");
  expect(readdirSync(folder)).toContain("new.db");
});

test("with --json a worker prints only JSON, and errors with their stacks", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder, "--grace", "50ms");
  const bad = await queue.enqueueTask(fail.with({ maxRetries: 0 }), "no");
  const failed = JSON.parse(await worker.out(isEvent("failed", bad)));
  expect(failed.error.stack).toMatch(/^Error: no\n {4}at /);
  const running = await queue.enqueueTask(untilAborted);
  await worker.out(isEvent("started", running));
  worker.child.kill("SIGTERM");
  const { out, err } = await worker.ended;
  const lines = `${out}${err}`.split("\n").filter((line) => line !== "");
  for (const line of lines) expect(() => JSON.parse(line), line).not.toThrow();
  expect(eventsOf(err)).toEqual(["stopping"]);
});

test("with --until-idle a worker runs all tasks that are pending or due, and exits with 0", async () => {
  const { folder, queue } = await folderWithQueue();
  const ids = await queue.enqueueTasks([
    [add, 1, 2],
    [add.with({ waitUntil: new Date(0) }), 1, 2],
    [fail.with({ maxRetries: 0 }), "no"],
  ]);
  const later = await queue.enqueueTask(add.with({ delay: "1h" }), 1, 2);
  const elsewhere = await queue.enqueueTask(add.with({ queueName: "other" }), 1, 2);
  const { code, out, err } = await dbq(folder, ["worker", tasks, "--until-idle", "--json"]);
  expect(code).toBe(0);
  expect(eventsOf(out).at(-1)).toBe("stopped");
  expect(eventsOf(err)).toEqual(["stopping"]);
  const ended = await Promise.all(ids.map(async (id) => (await queue.getTask(id))?.status));
  expect(ended).toEqual(["completed", "completed", "failed"]);
  expect(await queue.getTask(later)).toMatchObject({ status: "scheduled" });
  expect(await queue.getTask(elsewhere)).toMatchObject({ status: "pending" });
  expect(await dbq(folder, ["worker", tasks, "--until-idle", "--quiet"])).toMatchObject({ code: 0, out: "" });
});

test("a worker that a signal stops while it waits for --until-idle hands its tasks back", async () => {
  const { folder, queue } = await folderWithQueue();
  const id = await queue.enqueueTask(untilAborted);
  const worker = await startWorker(folder, "--until-idle", "--grace", "50ms");
  await worker.out(isEvent("started", id));
  worker.child.kill("SIGTERM");
  const { code, err } = await worker.ended;
  expect([code, eventsOf(err)]).toEqual([0, ["stopping"]]);
  expect(await queue.getTask(id)).toMatchObject({ status: "pending", retryCount: 0 });
});

test("a worker refuses a missing database file before it imports the modules", async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "loud.mjs"), "console.log('imported');");
  const { code, out, err } = await dbq(folder, ["worker", "loud.mjs"]);
  expect([code, out]).toEqual([1, ""]);
  expect(err).toContain("dbq.db: there is no such file");
});
