import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { deferred, startedWorker } from "../../support/queue.ts";
import { dbq, eventsOf, folderWithQueue, inPairs, isEvent, startDbq, startWorker, tasks } from "./dbq.ts";

const add = remoteTask<(a: number, b: number) => Promise<number>>("add");
const fail = remoteTask<(message: string) => Promise<void>>("fail");
const untilAborted = remoteTask<() => Promise<void>>("untilAborted");
const untilTold = remoteTask<() => Promise<string>>("untilTold");

test("a worker runs tasks, tells their events, and ends with 0 when it is stopped", async () => {
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

test("SIGTERM: what runs may finish, nothing more is claimed", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder, "--concurrency", "1");
  const running = await queue.enqueueTask(untilTold);
  const waiting = await queue.enqueueTask(add, 1, 2);
  await worker.out(isEvent("started", running));
  worker.child.kill("SIGTERM");
  await worker.err((line) => line.startsWith("SIGTERM: stopping"));
  worker.child.stdin?.write("go on\n");
  const ended = await worker.ended;
  expect(ended.code).toBe(0);
  expect(ended.err).toContain("SIGTERM: stopping; 1 running: given 30.0 s to finish");
  expect(await queue.getTask(running)).toMatchObject({ status: "completed", result: "told" });
  expect(await queue.getTask(waiting)).toMatchObject({ status: "pending", generationId: 1 });
});

test("what has not finished after the grace is handed back uncharged", async () => {
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

test("a second signal does not wait for the grace", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder, "--grace", "10m");
  const id = await queue.enqueueTask(untilAborted);
  await worker.out(isEvent("started", id));
  worker.child.kill("SIGTERM");
  await worker.err((line) => line.startsWith("SIGTERM: stopping; 1 running"));
  worker.child.kill("SIGTERM");
  const ended = await worker.ended;
  expect(ended.code).toBe(0);
  expect(ended.err).toContain("SIGTERM: stopping now; 1 running: handed back");
  expect(await queue.getTask(id)).toMatchObject({ status: "pending", retryCount: 0 });
});

test("un-awaited rejections are logged with their task, and hurt no task", async () => {
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
  const logged = ended.err.split("\n").filter((line) => line.startsWith("{"));
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([
    { event: "error", taskId: stray, error: { name: "Error", message: "stray \u001b[31mred" } },
    { event: "error", taskId: stray, error: { name: "Thrown", message: "null" } },
  ]);
});

test("an uncaught exception: others finish, the process ends with 1, and its task is charged as after a crash", async () => {
  const { folder, queue } = await folderWithQueue();
  const other = await queue.enqueueTask(untilTold);
  const bomb = await queue.enqueueTask(remoteTask("bomb"));
  const worker = startDbq(folder, ["worker", tasks]);
  await worker.err((line) => line.includes("uncaught exception"));
  const late = await queue.enqueueTask(add, 1, 2);
  worker.child.stdin?.write("go on\n");
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

test("what a handler enqueues by the default queue goes to --db", async () => {
  const { folder, queue } = await folderWithQueue();
  await startWorker(folder, "--db", "sqlite:dbq.db");
  const chained = await queue.awaitTaskResult(await queue.enqueueTask(remoteTask("chain")), {
    timeout: "20s",
  });
  expect(await queue.awaitTaskResult(chained as number, { timeout: "20s" })).toBe(42);
});

test("--queue: several, by commas or repeated, and no other", async () => {
  const { folder, queue } = await folderWithQueue();
  const ids: number[] = [];
  for (const queueName of ["other", "a", "b", "c"]) {
    ids.push(await queue.enqueueTask(add.with({ queueName }), 1, 1));
  }
  const worker = await startWorker(folder, "--queue", "a,b", "--queue", "c");
  for (const id of ids.slice(1)) await worker.out(isEvent("completed", id));
  expect((await queue.getTask(ids[0] as number))?.status).toBe("pending");
});

test("--quiet prints no events; whoever reads them may also go away", async () => {
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

test("options that cannot be are wrong usage; nothing was claimed", async () => {
  const { folder } = await folderWithQueue();
  const wrong = [
    ["--concurrency", "0"],
    ["--lease", "10ms"],
    ["--grace", "soon"],
    ["--queue", "a,,b"],
  ];
  await inPairs(wrong as [string, string][], async ([option, value]) => {
    const { code, out, err } = await dbq(folder, ["worker", tasks, option, value]);
    expect([option, code, out, err.trim().split("\n").length]).toEqual([option, 2, "", 1]);
    expect(err).toContain(value === "a,,b" ? '""' : value.replace("ms", ""));
  });
});
