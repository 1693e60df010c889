import { once } from "node:events";
import { expect, test } from "vitest";
import { currentTask, remoteTask, TaskFollower, task, Worker } from "../../../src/index.ts";
import { deferred, startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { queueOnFile, until } from "../../worker/setup.ts";

const add = remoteTask<(a: number, b: number) => Promise<number>>("add");

test("a follower reports each change of a task", async () => {
  const queue = await temporaryQueue();
  const follower = new TaskFollower(queue);
  await follower.start();
  const polled = async () => (await follower.poll()).map(({ event, task }) => `${event} ${task.func}`);
  expect(await polled()).toEqual([]);

  const id = await queue.enqueueTask(add.with({ delay: "1h" }), 1, 2);
  expect(await polled()).toEqual(["enqueued add"]);
  await queue.retryTask(id);
  expect(await polled()).toEqual(["due add"]);
  await queue.cancelTask(id);
  expect(await polled()).toEqual(["cancelled add"]);
  await queue.retryTask(id);
  expect(await polled()).toEqual(["retried add"]);
  expect(await polled()).toEqual([]);
});

test.each([
  [{ requestId: "r-1" }, ["enqueued 1", "cancelled 1"]],
  [{ meta: { tenant: 7 } }, ["enqueued 2"]],
  [{ func: "add", status: "cancelled" }, ["cancelled 1"]],
] as const)(
  "a follower with the filter %j reports the changes of those tasks alone",
  async (filter, expected) => {
    const queue = await temporaryQueue();
    const follower = new TaskFollower(queue, filter);
    await follower.start();
    const polled = async () => (await follower.poll()).map(({ event, task: { id } }) => `${event} ${id}`);
    const first = await queue.enqueueTask(add.with({ requestId: "r-1" }), 1, 2);
    await queue.enqueueTask(add.with({ meta: { tenant: 7 } }), 1, 2);
    const changes = await polled();
    await queue.cancelTask(first);
    expect([...changes, ...(await polled())]).toEqual(expected);
  },
);

test("a follower reports changes of old tasks beside many new ones", async () => {
  const queue = await temporaryQueue();
  const older = await queue.enqueueTask(add, 1, 2);
  const filler = () => Array.from({ length: 450 }, () => [remoteTask("filler")] as const);
  await queue.enqueueTasks(filler());
  const follower = new TaskFollower(queue);
  await follower.start();
  await queue.cancelTask(older);
  await queue.enqueueTasks(filler());
  const events = await follower.poll();
  expect(events.filter(({ event }) => event === "enqueued")).toHaveLength(450);
  expect(events.filter(({ event }) => event !== "enqueued")).toMatchObject([
    { event: "cancelled", task: { id: older } },
  ]);
  // What has ended slides back among the newest when those are deleted: that is no change of its own.
  await queue.purgeTasks({ func: "filler" });
  expect(await follower.poll()).toEqual([]);
});

test("a follower distinguishes a retry, a snooze and a stop", async () => {
  const queue = await temporaryQueue();
  const follower = new TaskFollower(queue);
  await follower.start();
  const { retrying, snoozing, stopped } = await import("./endings.ts");
  const worker = new Worker(queue, { tasks: [retrying, snoozing, stopped] });
  const ended = [once(worker, "retrying"), once(worker, "snoozed")];
  await queue.enqueueTasks([[retrying], [snoozing], [stopped]] as const);
  await worker.start();
  await Promise.all(ended);
  await worker.stop({ grace: 0 });
  const events = (await follower.poll()).map(({ event, task }) => `${event} ${task.func}`);
  const expected = ["retrying", "snoozing", "stopped"].flatMap((name) => [
    `enqueued ${name}`,
    `started ${name}`,
  ]);
  expect(events.toSorted()).toEqual(
    [...expected, "retrying retrying", "snoozed snoozing", "interrupted stopped"].toSorted(),
  );
});

test("a follower reports the start of a task before its end, also when it was cancelled before its turn at a rate", async () => {
  const { queue, raw } = await queueOnFile();
  const follower = new TaskFollower(queue);
  await follower.start();
  const id = await queue.enqueueTask(add, 1, 2);
  await queue.cancelTask(id);
  raw.exec("update dbq_tasks set started_at = finished_at + 150");
  const changes = await follower.poll();
  expect(changes.map(({ event }) => event)).toEqual(["enqueued", "started", "cancelled"]);
  const times = changes.map(({ time }) => time.getTime());
  expect(times).toEqual(times.toSorted((x, y) => x - y));
});

test("a follower with logs reports the lines of tasks that run while it follows, and no earlier ones", async () => {
  const queue = await temporaryQueue();
  const release = deferred();
  const chatty = task(uniqueName(), async () => {
    currentTask().log("one");
    await release.promise;
    currentTask().log("two");
  });
  await startedWorker(queue);
  const id = await queue.enqueueTask(chatty);
  await until(async () => (await queue.listLogs(id)).length === 1);
  const follower = new TaskFollower(queue, {}, { logs: true });
  await follower.start();
  const polled = async () =>
    (await follower.poll()).map(({ event, message }) =>
      message === undefined ? event : `${event} ${message}`,
    );
  expect(await polled()).toEqual([]);
  release.resolve();
  await queue.awaitTaskCompletion(id);
  expect(await polled()).toEqual(["log two", "completed"]);
  await queue.awaitTaskCompletion(await queue.enqueueTask(chatty));
  expect(await polled()).toEqual(["enqueued", "started", "log one", "log two", "completed"]);
  expect(await polled()).toEqual([]);
});

test.each(["completed", "pending"])(
  "a follower reports each line of a task once, also after the lines of ten thousand others that are %s",
  async (status) => {
    const { queue, raw } = await queueOnFile();
    const [second, third] = [deferred(), deferred()];
    const slow = task(uniqueName(), async () => {
      currentTask().log("one");
      await second.promise;
      currentTask().log("two");
      await third.promise;
    });
    await startedWorker(queue);
    const follower = new TaskFollower(queue, { func: slow.taskName }, { logs: true });
    await follower.start();
    const id = await queue.enqueueTask(slow);
    const lines = async () => {
      const changes = await follower.poll();
      return changes.filter(({ task }) => task.id === id).flatMap(({ message }) => message ?? []);
    };
    await until(async () => (await queue.listLogs(id)).length === 1);
    expect(await lines()).toEqual(["one"]);
    raw.exec(`
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 10001)
    insert into dbq_tasks (func, queue_name, status) select '${slow.taskName}', 'elsewhere', '${status}' from n;
    insert into dbq_task_logs (task_id, generation_id, message) select id, 1, 'other' from dbq_tasks where id > ${id}`);
    expect(await lines()).toEqual([]);
    second.resolve();
    await until(async () => (await queue.listLogs(id)).length === 2);
    expect(await lines()).toEqual(["two"]);
    third.resolve();
  },
);

test("a follower reports the lines of all running tasks, however many run", async () => {
  const { queue, raw } = await queueOnFile();
  const slow = task(uniqueName(), async (release: Promise<void>) => await release);
  const follower = new TaskFollower(queue, {}, { logs: true });
  await follower.start();
  raw.exec(`
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 450)
    insert into dbq_tasks (func, status) select '${slow.taskName}', 'running' from n`);
  await follower.poll();
  raw.exec("insert into dbq_task_logs (task_id, generation_id, message) select id, 1, 'line' from dbq_tasks");
  expect((await follower.poll()).filter(({ event }) => event === "log")).toHaveLength(450);
});
