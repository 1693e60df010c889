/** Tasks that expire, wherever a feature claims, moves or shows them. */
import { expect, onTestFinished, test } from "vitest";
import { addAgent } from "../../src/features/manager/index.ts";
import { testQueue } from "../../src/features/testing/index.ts";
import { child } from "../../src/features/workflows/steps.ts";
import { currentTask, moveQueue, type Queue, remoteTask, TaskCancelledError, task } from "../../src/index.ts";
import { queueByClock, startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";
import { openDesk } from "./dashboard/requests.ts";
import { Broker, newDrain, sentBy } from "./drain/broker.ts";
import { ByHand, onFile, startedManager, urlOf } from "./manager/setup.ts";

const send = remoteTask<(n: number) => Promise<void>>("send", { queueName: "mail" });

/** Enqueues a task whose time is over before anybody looks for work. */
async function enqueueLate(queue: Queue, n: number): Promise<number> {
  const id = await queue.enqueueTask(send.with({ expiresIn: 1 }), n);
  const { expiresAt } = (await queue.getTask(id)) ?? {};
  await expect.poll(() => Date.now() > Number(expiresAt)).toBe(true);
  return id;
}

async function isExpired(queue: Queue, id: number): Promise<boolean> {
  const { status, error, startedAt, workerId } = (await queue.getTask(id)) ?? {};
  return status === "cancelled" && error?.name === "TaskExpired" && !startedAt && !workerId;
}

test("a move keeps the time at which a task expires, and the new database ends it", async () => {
  const [from, to] = [await temporaryQueue(), await temporaryQueue()];
  const late = await enqueueLate(from, 1);
  const later = await from.enqueueTask(send.with({ expiresIn: "1h" }), 2);
  const { expiresAt } = (await from.getTask(later)) ?? {};
  await moveQueue(from, to);
  expect((await to.getTask(later))?.expiresAt).toEqual(expiresAt);
  await startedWorker(to, { tasks: [task(uniqueName("other"), () => undefined)] });
  await to.awaitTaskCompletion(late, { timeout: "30s" });
  expect(await isExpired(to, late)).toBe(true);
  expect((await to.getTask(later))?.status).toBe("pending");
});

test("a drain sends no task that has expired, and ends it", async () => {
  const queue = await temporaryQueue();
  const late = await enqueueLate(queue, 1);
  const live = await queue.enqueueTask(send.with({ expiresIn: "1h" }), 2);
  const broker = new Broker();
  const { carrier } = newDrain(queue, { queueName: "mail", to: broker });
  const sent = sentBy(carrier, 1);
  await carrier.start();
  expect((await sent)[0]).toMatch(new RegExp(`-${live}$`));
  await queue.awaitTaskCompletion(late, { timeout: "30s" });
  expect(await isExpired(queue, late)).toBe(true);
  expect(broker.received.size).toBe(1);
});

test("a Manager gives an agent no task that has expired, and one whose attempt has begun does not expire", async () => {
  const queue = await onFile()();
  const manager = await startedManager(queue);
  const { token } = await addAgent(queue, "a", { funcs: ["send"], queues: ["mail"] });
  const agent = new ByHand(urlOf(manager), token);
  const late = await enqueueLate(queue, 1);
  const live = await queue.enqueueTask(send.with({ expiresIn: "1h" }), 2);
  const ids: number[] = [];
  while (ids.length === 0) {
    const { body } = await agent.claim(["send"], { queues: ["mail"] });
    ids.push(...body.tasks.map(({ id }: { id: number }) => id));
  }
  expect(ids).toEqual([live]);
  await queue.awaitTaskCompletion(late, { timeout: "30s" });
  expect(await isExpired(queue, late)).toBe(true);
  const generation = (await queue.getTask(live))?.generationId;
  await agent.settle({ id: live, generation, status: "completed", result: 7 });
  expect(await queue.getTask(live)).toMatchObject({ status: "completed", result: 7 });
});

test("a child that expires is a cancelled one to its workflow", async () => {
  const q = await testQueue({ now: "2026-03-29T00:00Z" });
  onTestFinished(() => q.close());
  const part = task(uniqueName("child"), async () => 1, { queueName: "nobody", expiresIn: "10m" });
  const parent = task(uniqueName("parent"), async () => {
    try {
      return await child(part);
    } catch (error) {
      return error instanceof TaskCancelledError ? "the child was cancelled" : String(error);
    }
  });
  const id = await q.enqueueTask(parent);
  expect((await q.getTask(id))?.status).toBe("pending");
  await q.drain({ rethrow: false, max: 1 });
  await q.advance("10m");
  await q.drain({ rethrow: false });
  expect(await q.awaitTaskResult(id)).toBe("the child was cancelled");
});

test("a task that completes in its own transaction after its time is completed", async () => {
  const { queue, clock } = await queueByClock();
  const slow = task(uniqueName("slow"), async () => {
    clock.advance(301);
    await queue.transaction((tx) => currentTask().within(tx).complete("done"));
  });
  const id = await queue.enqueueTask(slow.with({ expiresIn: 300 }));
  await startedWorker(queue, { tasks: [slow] });
  expect(await queue.awaitTaskResult(id, { timeout: "30s" })).toBe("done");
});

test("the dashboard shows when a task expires, until it has started, and edits of it keep that", async () => {
  const { queue, get } = await openDesk();
  const id = await queue.enqueueTask(send.with({ expiresIn: "1h" }), 1);
  const { expiresAt } = await queue.updateTask(id, { waitUntil: new Date(Date.now() + 60_000) });
  const page = async () => await (await get(`/tasks/${id}`)).text();
  expect(await page()).toContain("Expires");
  expect(await page()).toContain(expiresAt?.toISOString());
  await queue.updateTask(id, { expiresIn: null });
  expect(await page()).not.toContain("Expires");
});
