import { once } from "node:events";
import { expect, test } from "vitest";
import { Follower } from "../../../src/entries/cli/follow.ts";
import { remoteTask, Worker } from "../../../src/index.ts";
import { temporaryQueue } from "../../support/queue.ts";
import { eventsOf, folderWithQueue, isEvent, startDbq, startWorker } from "./dbq.ts";

const add = remoteTask<(a: number, b: number) => Promise<number>>("add");
const fail = remoteTask<(message: string) => Promise<void>>("fail");

test("tail follows tasks from being enqueued to their end, until SIGINT", async () => {
  const { folder, queue } = await folderWithQueue();
  const old = await queue.enqueueTask(add.with({ delay: "1h" }), 0, 0);
  const tail = startDbq(folder, ["tail", "--json"]);
  await tail.err(isEvent("following"));
  const good = await queue.enqueueTask(add, 1, 2);
  const bad = await queue.enqueueTask(fail.with({ maxRetries: 0 }), "no");
  await tail.out(isEvent("enqueued", bad));
  await startWorker(folder);
  await tail.out(isEvent("completed", good));
  const failed = JSON.parse(await tail.out(isEvent("failed", bad)));
  expect(failed).toMatchObject({ func: "fail", error: { name: "Error", message: "no" } });
  await queue.cancelTask(old);
  await tail.out(isEvent("cancelled", old));
  tail.child.kill("SIGINT");
  const { code, out } = await tail.ended;
  expect(code).toBe(0);
  const events = eventsOf(out);
  for (const id of [good, bad]) {
    expect(events.filter((event) => event.endsWith(` ${id}`)).map((event) => event.split(" ")[0])).toEqual([
      "enqueued",
      "started",
      id === good ? "completed" : "failed",
    ]);
  }
  expect(events).not.toContain(`enqueued ${old}`);
});

test("tail ends when its reader has gone", async () => {
  const { folder, queue } = await folderWithQueue();
  const tail = startDbq(folder, ["tail", "--func", "add"]);
  await tail.err((line) => line.startsWith("following"));
  await queue.enqueueTask(remoteTask("other"));
  const id = await queue.enqueueTask(add, 1, 2);
  expect(await tail.out(() => true)).toContain(`enqueued    #${id} add`);
  tail.child.stdout?.destroy();
  // Each is written to a pipe that nobody reads any more.
  const timer = setInterval(() => void queue.enqueueTask(add, 1, 2), 100);
  const { code, err } = await tail.ended.finally(() => clearInterval(timer));
  expect([code, err]).toEqual([0, "following dbq.db, Ctrl-C ends\n"]);
});

test("a follower tells what became of a task, whatever way it went", async () => {
  const queue = await temporaryQueue();
  const follower = new Follower(queue, {});
  await follower.begin();
  const looked = async () => (await follower.look()).map(({ event, task }) => `${event} ${task.func}`);
  expect(await looked()).toEqual([]);

  const id = await queue.enqueueTask(add.with({ delay: "1h" }), 1, 2);
  expect(await looked()).toEqual(["enqueued add"]);
  await queue.retryTask(id);
  expect(await looked()).toEqual(["due add"]);
  await queue.cancelTask(id);
  expect(await looked()).toEqual(["cancelled add"]);
  await queue.retryTask(id);
  expect(await looked()).toEqual(["retried add"]);
  expect(await looked()).toEqual([]);
});

test("a follower misses no older task, however many newer ones there are", async () => {
  const queue = await temporaryQueue();
  const older = await queue.enqueueTask(add, 1, 2);
  const filler = () => Array.from({ length: 450 }, () => [remoteTask("filler")] as const);
  await queue.enqueueTasks(filler());
  const follower = new Follower(queue, {});
  await follower.begin();
  await queue.cancelTask(older);
  await queue.enqueueTasks(filler());
  const events = await follower.look();
  expect(events.filter(({ event }) => event === "enqueued")).toHaveLength(450);
  expect(events.filter(({ event }) => event !== "enqueued")).toMatchObject([
    { event: "cancelled", task: { id: older } },
  ]);
  // What has ended slides back among the newest when those are deleted: that is no change of its own.
  await queue.purgeTasks({ func: "filler" });
  expect(await follower.look()).toEqual([]);
});

test("a follower tells a retry, a snooze and a stop apart", async () => {
  const queue = await temporaryQueue();
  const follower = new Follower(queue, {});
  await follower.begin();
  const { retrying, snoozing, stopped } = await import("./fixtures/endings.ts");
  const worker = new Worker(queue, { tasks: [retrying, snoozing, stopped] });
  const ended = [once(worker, "retrying"), once(worker, "snoozed")];
  await queue.enqueueTasks([[retrying], [snoozing], [stopped]] as const);
  await worker.start();
  await Promise.all(ended);
  await worker.stop({ grace: 0 });
  const events = (await follower.look()).map(({ event, task }) => `${event} ${task.func}`);
  const expected = ["retrying", "snoozing", "stopped"].flatMap((name) => [
    `enqueued ${name}`,
    `started ${name}`,
  ]);
  expect(events.toSorted()).toEqual(
    [...expected, "retrying retrying", "snoozed snoozing", "interrupted stopped"].toSorted(),
  );
});
