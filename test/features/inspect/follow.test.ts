import { once } from "node:events";
import { expect, test } from "vitest";
import { remoteTask, TaskFollower, Worker } from "../../../src/index.ts";
import { temporaryQueue } from "../../support/queue.ts";

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
