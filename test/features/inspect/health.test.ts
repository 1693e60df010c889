/** `queue.health()`: one look at the queues, the workers and the functions that nobody serves. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { inspectQueue, remoteTask, task } from "../../../src/index.ts";
import { newWorker } from "../../conformance/arrange.ts";
import { deferred, startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { queueOnFile } from "../../worker/setup.ts";

const elsewhere = remoteTask<() => Promise<void>>("elsewhere");

const nothing = { pausedAt: null, limits: [], atLeast: [] };

test("an empty queue has no queues, no workers and nothing unserved", async () => {
  const queue = await temporaryQueue();
  expect(await queue.health()).toEqual({
    ...{ queues: [], workers: [], deadWorkers: [], unservedFunctions: [], pauses: [] },
  });
});

test("health looks at 500 queues and at 500 functions of a queue, and says when there may be more", async () => {
  const queue = await temporaryQueue();
  const nameOf = (n: number) => `q${String(n).padStart(3, "0")}`;
  const enqueue = async (from: number, to: number) =>
    await queue.enqueueTasks(
      Array.from({ length: to - from }, (_, n) => [elsewhere.with({ queueName: nameOf(from + n) })] as const),
    );
  await enqueue(0, 499);
  expect(await queue.health()).not.toHaveProperty("moreQueues");
  await enqueue(499, 502);
  const { queues, moreQueues } = await queue.health();
  expect([queues.length, queues.at(-1)?.name, moreQueues]).toEqual([500, "q499", true]);
  await queue.purgeTasks();
  await queue.enqueueTasks(Array.from({ length: 501 }, (_, n) => [remoteTask(`f${n}`)] as const));
  expect(await queue.health()).toMatchObject({
    queues: [{ name: "default", pending: 500, atLeast: ["pending"] }],
  });
});

test("health counts the tasks of each queue, and its live workers", async () => {
  const queue = await temporaryQueue();
  const release = deferred();
  const [running, started] = [uniqueName("running"), deferred()];
  const waits = task(running, async () => {
    started.resolve();
    await release.promise;
  });
  const fails = task(uniqueName("fails"), () => Promise.reject(new Error("no luck")), { maxRetries: 0 });
  const worker = await startedWorker(queue, { queueName: ["default", "idle"] });
  await queue.awaitTaskCompletion(await queue.enqueueTask(fails));
  await queue.enqueueTasks([
    [waits],
    [elsewhere.with({ delay: "1h" })],
    [elsewhere.with({ queueName: "mail" })],
    [elsewhere.with({ queueName: "mail", priority: 9 })],
  ] as const);
  await started.promise;
  const { queues, workers, deadWorkers } = await queue.health();
  expect(queues).toMatchObject([
    {
      name: "default",
      pending: 0,
      scheduled: 1,
      running: 1,
      failed: 1,
      workers: 1,
      oldestPendingAge: null,
      ...nothing,
    },
    {
      name: "idle",
      pending: 0,
      scheduled: 0,
      running: 0,
      failed: 0,
      workers: 1,
      oldestPendingAge: null,
      ...nothing,
    },
    { name: "mail", pending: 2, scheduled: 0, running: 0, failed: 0, workers: 0, ...nothing },
  ]);
  expect(queues[2]?.oldestPendingAge).toBeGreaterThanOrEqual(0);
  expect(workers.map(({ id, liveness }) => [id, liveness])).toEqual([[worker.id, "alive"]]);
  expect(deadWorkers).toEqual([]);
  release.resolve();
});

test("a worker without a sign of life is a dead worker, and serves no queue", async () => {
  const { queue, raw } = await queueOnFile();
  await internalsOf(queue).store.register(newWorker("gone", { lease: 1_000 }));
  raw.exec("update dbq_workers set heartbeat_at = heartbeat_at - 5000");
  const beat = raw.prepare("select beat from dbq_workers").pluck();
  const before = beat.get();
  const { queues, workers, deadWorkers } = await queue.health();
  expect(workers).toHaveLength(1);
  expect(deadWorkers).toMatchObject([{ id: "gone", liveness: "silent", reason: "lease-expired" }]);
  expect(queues).toMatchObject([{ name: "default", workers: 0 }]);
  // A look writes nothing.
  expect(beat.get()).toBe(before);
});

test("a function whose tasks wait although a worker of its queue has a free slot is unserved", async () => {
  const { queue, raw } = await queueOnFile();
  await startedWorker(queue, { tasks: [task(uniqueName("other"), async () => undefined)] });
  await queue.enqueueTasks([[elsewhere], [elsewhere.with({ queueName: "mail" })]] as const);
  expect((await queue.health()).unservedFunctions).toEqual([]);
  raw.exec("update dbq_tasks set updated_at = updated_at - 60000");
  const { unservedFunctions } = await queue.health();
  expect(unservedFunctions).toMatchObject(
    [
      { func: "elsewhere", queueName: "default", tasks: 1, reason: /had a free slot.* the function$/ },
      { func: "elsewhere", queueName: "mail", tasks: 1, reason: "no live worker serves its queue" },
    ].map((one) => ({ ...one, reason: expect.stringMatching(one.reason) })),
  );
  for (const { pendingFor } of unservedFunctions) expect(pendingFor).toBeGreaterThanOrEqual(60_000);
});

test("where an agent serves the queue, it may not be allowed to run the function", async () => {
  const { queue, raw } = await queueOnFile();
  await queue.enqueueTask(elsewhere);
  raw.exec("update dbq_tasks set updated_at = updated_at - 60000");
  const { store } = internalsOf(queue);
  await store.register(newWorker("manager:1:a/gpu-7/session", { lease: 60_000 }));
  const [unserved] = (await queue.health()).unservedFunctions;
  expect(unserved?.reason).toMatch(
    /registers the function, or no agent's --funcs names it \(see dbq agents\)$/,
  );
});

test("counts end at a bound, and health says of which statuses there are more", async () => {
  const { queue, raw } = await queueOnFile();
  raw.exec(`
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 12000)
    insert into dbq_tasks (func, status, queue_name, finished_at)
      select 'f', case i % 2 when 0 then 'failed' else 'pending' end, 'q' || (i % 2), case i % 2 when 0 then i end from n`);
  expect((await queue.health()).queues).toMatchObject([
    { name: "q0", pending: 0, failed: 5_000, atLeast: ["failed"] },
    { name: "q1", pending: 6_000, failed: 0, atLeast: ["failed"] },
  ]);
  raw.exec(
    "insert into dbq_tasks (func, status, queue_name, finished_at) select func, status, queue_name, finished_at from dbq_tasks",
  );
  expect((await queue.health()).queues).toMatchObject([
    { name: "q0", failed: 5_000, atLeast: ["failed"] },
    { name: "q1", pending: 10_000, atLeast: ["pending", "failed"] },
  ]);
});

test("a queue that is paused or limited says so, and its tasks are not unserved", async () => {
  const { queue, raw } = await queueOnFile();
  await queue.enqueueTask(elsewhere.with({ queueName: "mail" }));
  raw.exec("update dbq_tasks set updated_at = updated_at - 60000");
  await queue.setLimit({ queueName: "mail" }, { concurrency: 2 });
  expect((await queue.health()).unservedFunctions).toHaveLength(1);
  await queue.pause({ queueName: "mail" });
  const { queues, unservedFunctions } = await queue.health();
  expect(queues).toMatchObject([{ name: "mail", limits: [{ concurrency: 2, rate: null }] }]);
  expect(queues[0]?.pausedAt).toBeInstanceOf(Date);
  expect(unservedFunctions).toEqual([]);
  await queue.resume({ queueName: "mail" });
  expect((await queue.health()).queues[0]?.pausedAt).toBeNull();
});

test("tasks of a paused function or group are not unserved beside a free slot, and health lists the pauses, oldest first", async () => {
  const { queue, raw } = await queueOnFile();
  await startedWorker(queue);
  const other = remoteTask("other");
  await queue.enqueueTasks([[elsewhere.with({ group: "acme" })], [other]]);
  raw.exec("update dbq_tasks set updated_at = updated_at - 60000");
  expect((await queue.health()).unservedFunctions).toHaveLength(2);
  await queue.pause({ func: "elsewhere", group: "acme" });
  expect((await queue.health()).unservedFunctions).toMatchObject([{ func: "other" }]);
  await queue.pause({ func: "other" });
  raw.exec("update dbq_limits set paused_at = 7 where name = 'other'");
  const { unservedFunctions, pauses } = await queue.health();
  expect(unservedFunctions).toEqual([]);
  expect(pauses).toEqual([
    { target: { func: "other" }, pausedAt: new Date(7) },
    { target: { func: "elsewhere", group: "acme" }, pausedAt: expect.any(Date) },
  ]);
});

test("tasks that may wait for a limit are not unserved beside a free slot", async () => {
  const { queue, raw } = await queueOnFile();
  await startedWorker(queue, { concurrency: 8 });
  const held = deferred();
  const holder = task(uniqueName("holder"), () => held.promise, { uses: ["api"] });
  await queue.setLimit("api", { concurrency: 1 });
  await queue.enqueueTask(holder);
  await expect.poll(async () => (await queue.countTasks()).running).toBe(1);
  const names = ["of-function", "of-group", "shared"];
  await queue.enqueueTasks(names.map((name) => [remoteTask(name)] as const));
  await queue.enqueueTask(remoteTask("of-queue").with({ queueName: "mail" }));
  await startedWorker(queue, { queueName: "mail" });
  raw.exec("update dbq_tasks set updated_at = updated_at - 60000");
  const unserved = async () => (await queue.health()).unservedFunctions.map(({ func }) => func);
  const untaken = async () => (await inspectQueue(queue)).unclaimed.map(({ func }) => func);
  // Any of them may use the shared limit, whose only place is taken.
  expect([await unserved(), await untaken()]).toEqual([[], []]);
  await queue.setLimit("api", { concurrency: 2 });
  expect(await unserved()).toEqual(["of-function", "of-group", "shared", "of-queue"]);
  await queue.setLimit({ func: "of-function" }, { concurrency: 1 });
  await queue.setLimit({ func: "of-group", group: "acme" }, { rate: { limit: 1, per: "1h" } });
  await queue.setLimit({ queueName: "mail" }, { concurrency: 1 });
  expect([await unserved(), await untaken()]).toEqual([["shared"], ["shared"]]);
  held.resolve();
});

test("with the names of functions, inspectQueue finds shared limits that are not set, and limits of other functions", async () => {
  const queue = await temporaryQueue();
  const call = task(uniqueName("call"), async () => {}, { uses: ["inspected-api", "set-api"] });
  await queue.setLimit("set-api", { concurrency: 1 });
  await queue.setLimit({ func: call.taskName, group: "acme" }, { concurrency: 1 });
  await queue.setLimit({ func: "misspelt", group: "acme" }, { concurrency: 1 });
  await queue.pause({ func: "misspelt" });
  await queue.pause({ queueName: "mail" });
  expect(await inspectQueue(queue, { functions: [call.taskName] })).toMatchObject({
    unsetLimits: [{ func: call.taskName, name: "inspected-api" }],
    unregisteredLimits: ["misspelt"],
  });
  expect(await inspectQueue(queue)).toMatchObject({ unsetLimits: [], unregisteredLimits: [] });
});
