import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { remoteTask, type Task, task } from "../../../src/index.ts";
import { startedWorker, temporaryFolder, uniqueName } from "../../support/queue.ts";
import { folderWithQueue, inPairs, isEvent, startWorker, tasks } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

const add = remoteTask<(a: number, b: number) => Promise<number>>("add");

test("enqueue prints the id, and every option reaches the task", async () => {
  const folder = temporaryFolder();
  const { code, out } = await dbq(folder, ["enqueue", "add", "[1, 2]"]);
  expect([code, out]).toEqual([0, "1\n"]);
  const options = ["--priority", "-3", "--delay", "1h", "--queue", "mail", "--max-retries", "0"];
  const more = [
    "--unique-key",
    "k",
    "--request-id",
    "r",
    "--meta",
    "a=1",
    "--meta",
    "b=x=y",
    "--kwargs",
    '{"c": []}',
  ];
  const { id } = await dbqJson<{ id: number }>(folder, ["enqueue", "add", ...options, ...more]);
  expect(await dbqJson<Task>(folder, ["show", String(id)])).toMatchObject({
    args: [],
    kwargs: { c: [] },
    priority: -3,
    status: "scheduled",
    queueName: "mail",
    maxRetries: 0,
    uniqueKey: "k",
    requestId: "r",
    meta: { a: 1, b: "x=y" },
  });
  const held = await dbqJson<{ id: number }>(folder, ["enqueue", "add", "--unique-key", "k"]);
  expect(held.id).toBe(id);
});

test("enqueue --wait prints the result, or the error with exit code 1", async () => {
  const { folder } = await folderWithQueue();
  await startWorker(folder);
  expect(await dbq(folder, ["enqueue", "add", "[20, 22]", "--wait"])).toMatchObject({ code: 0, out: "42\n" });
  const failing = ["enqueue", "fail", '["no luck"]', "--max-retries", "0", "--wait=20s"];
  const failed = await dbq(folder, failing);
  expect([failed.code, failed.out]).toEqual([1, ""]);
  expect(failed.err).toMatch(/^task \d+\nerror: task \d+ \(fail\) failed: Error: no luck\n$/);
  const asJson = await dbq(folder, [...failing, "--json"]);
  expect(asJson.code).toBe(1);
  expect(JSON.parse(asJson.out)).toMatchObject({ status: "failed", error: { message: "no luck" } });
  expect(JSON.parse(asJson.err)).toMatchObject({ error: { code: "DBQ_TASK_FAILED" } });
  const late = await dbq(folder, ["enqueue", "unknown", "--wait", "20ms"]);
  expect(late.code).toBe(1);
  expect(late.err).toMatch(/did not end within 20 ms/);
});

test("enqueue warns of a name that is also a file, and enqueues the task: a name may be that of its file", async () => {
  const { folder, queue } = await folderWithQueue();
  const plain = await dbq(folder, ["enqueue", tasks]);
  expect(plain).toMatchObject({ code: 0, out: "1\n" });
  expect(plain.err).toMatch(/^warning: \S+ is also a file: a task is enqueued by the name of its function/);
  const asJson = await dbq(folder, ["enqueue", tasks, "--json"]);
  expect(JSON.parse(asJson.err)).toMatchObject({
    event: "warning",
    message: expect.stringContaining("is also a file"),
  });
  expect((await queue.getTask(1))?.func).toBe(tasks);
});

test("enqueue refuses wrong values as wrong usage, and creates no database", async () => {
  const folder = temporaryFolder();
  const wrong: [string[], string][] = [
    [["add", "[1,"], '"[1,"'],
    [["add", '{"a": 1}'], '"{\\"a\\": 1}"'],
    [["add", "[12345678901234567890]"], "12345678901234567890"],
    [["add", "--meta", "novalue"], "novalue"],
    [["add", "--meta", "{1}"], '"{1}"'],
    [["add", "--priority", "high"], "high"],
    [["add", "--wait", "add"], "add"],
    [[""], "argument 'name'"],
    [["add", "--queue", ""], "--queue"],
    [["add", "--unique-key", ""], "--unique-key"],
    [["add", "--db", ":memory:"], ":memory:"],
    [["add", "--db", "redis://there"], "redis"],
  ];
  await inPairs(wrong, async ([args, named]) => {
    const { code, out, err } = await dbq(folder, ["enqueue", ...args]);
    expect([args, code, out, err.trimEnd().split("\n").length]).toEqual([args, 2, "", 1]);
    expect(err).toContain(named);
  });
  expect(readdirSync(folder)).toEqual([]);
});

test("cancel and retry act on each id, and exit with 1 when one has failed", async () => {
  const { folder, queue } = await folderWithQueue();
  const [first, second] = await queue.enqueueTasks([
    [add, 1, 2],
    [add, 3, 4],
  ] as const);
  const cancelled = await dbq(folder, ["cancel", String(first), "999", String(second)]);
  expect(cancelled).toMatchObject({ code: 1, err: "error: there is no task 999\n" });
  expect(cancelled.out).toBe(`task ${first} (add) is cancelled\ntask ${second} (add) is cancelled\n`);
  expect((await queue.getTask(first))?.error?.message).toBe("cancelled by dbq cancel");
  const retried = await dbqJson<Task[]>(folder, ["retry", String(first), String(second)]);
  expect(retried.map(({ id, status }) => [id, status])).toEqual([
    [first, "pending"],
    [second, "pending"],
  ]);
  const wrong = await dbq(folder, ["cancel", String(first), "x"]);
  expect(wrong).toMatchObject({ code: 2, out: "" });
  expect((await queue.getTask(first))?.status).toBe("pending");
});

test("cancel says of a task that has ended that nothing was changed", async () => {
  const { folder, queue } = await folderWithQueue();
  const done = task(uniqueName("done"), async () => 1);
  await startedWorker(queue);
  const id = await queue.enqueueTask(done);
  await queue.awaitTaskResult(id);
  expect((await dbq(folder, ["cancel", String(id)])).out).toBe(
    `task ${id} (${done.taskName}) had ended before: it is completed\n`,
  );
});

test("a running task can be cancelled, but not retried", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder);
  const id = await queue.enqueueTask(remoteTask("untilAborted"));
  await worker.out(isEvent("started", id));
  const refused = await dbq(folder, ["retry", String(id), "--json"]);
  expect([refused.code, refused.out]).toEqual([1, "[]\n"]);
  expect(JSON.parse(refused.err)).toMatchObject({ error: { code: "DBQ_TASK_RUNNING", taskId: id } });
  expect(await dbq(folder, ["cancel", String(id), "--reason", "sent twice"])).toMatchObject({ code: 0 });
  const cancelled = JSON.parse(await worker.out(isEvent("cancelled", id)));
  expect(cancelled).toMatchObject({
    func: "untilAborted",
    generationId: 3,
    error: { name: "TaskCancelled", message: "sent twice" },
  });
});

test("purge without --yes shows what it would delete, and exits with 2", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder);
  const running = await queue.enqueueTask(remoteTask("untilAborted"));
  await worker.out(isEvent("started", running));
  const kept = await queue.enqueueTask(remoteTask("kept").with({ queueName: "mail" }));
  await queue.enqueueTasks(Array.from({ length: 600 }, () => [remoteTask("old")] as const));
  const would = await dbq(folder, ["purge", "--func", "old"]);
  expect(would).toMatchObject({ code: 2, out: "would delete 600 tasks: 600 pending\n" });
  expect(would.err).toBe("nothing was deleted: add --yes to delete\n");
  expect((await queue.countTasks()).pending).toBe(601);

  expect(await dbqJson(folder, ["purge", "--func", "old", "--yes"])).toEqual({
    purged: 600,
    running: 0,
    skipped: 0,
  });
  expect((await queue.listTasks()).map(({ id }) => id)).toEqual([kept, running]);
  const rest = await dbq(folder, ["purge", "--queue", "default", "--yes"]);
  expect(rest).toMatchObject({ code: 0, out: "deleted 0 tasks, left 1 running\n" });
  const all = await dbqJson(folder, ["purge", "--queue", "default", "--include-running", "--yes"]);
  expect(all).toEqual({ purged: 1, running: 0, skipped: 0 });
  await worker.out(isEvent("lost", running));
});
