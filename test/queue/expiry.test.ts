/** The option `expiresIn`: a task that no worker has started in time ends as cancelled. */
import { expect, onTestFinished, test } from "vitest";
import { testQueue } from "../../src/features/testing/index.ts";
import { TaskCancelledError, task } from "../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";
import { charge } from "../support/schemas.ts";

const ran: unknown[] = [];
const note = task("expiry-note", async (what: string) => {
  ran.push(what);
});

async function kit() {
  ran.length = 0;
  const q = await testQueue({ now: "2026-03-29T00:00Z" });
  onTestFinished(() => q.close());
  return q;
}

test("a task that has not started when it expires ends as cancelled, and its await rejects with that reason", async () => {
  const q = await kit();
  const late = await q.enqueueTask(note.with({ expiresIn: "10m" }), "late");
  const result = q.awaitTaskResult(late, { timeout: "1m" });
  result.catch(() => undefined);
  await q.advance("10m");
  await expect(result).rejects.toThrow(TaskCancelledError);
  await expect(result).rejects.toThrow("expired: no attempt had started by 2026-03-29T00:10:00.000Z");
  const { status, error, expiresAt } = (await q.getTask(late)) ?? {};
  expect([status, error?.name, expiresAt]).toEqual(["cancelled", "TaskExpired", null]);
  await q.drain();
  expect(ran).toEqual([]);
});

test("a task that starts in time is not touched by its expiry, and its retries do not expire", async () => {
  const q = await kit();
  const flaky = task(
    uniqueName("flaky"),
    async () => {
      ran.push("flaky");
      if (ran.length === 1) throw new Error("the first time");
    },
    { backoff: () => "1h" },
  );
  const id = await q.enqueueTask(flaky.with({ expiresIn: "10m" }));
  expect((await q.getTask(id))?.expiresAt).toEqual(new Date("2026-03-29T00:10Z"));
  await q.drain({ rethrow: false, max: 1 });
  await q.advance("1h");
  await q.drain();
  expect((await q.getTask(id))?.status).toBe("completed");
});

test("expiresIn is measured from the enqueue, not from the end of the delay", async () => {
  const q = await kit();
  const id = await q.enqueueTask(note.with({ delay: "5m", expiresIn: "10m" }), "delayed");
  await q.advance("6m");
  expect((await q.getTask(id))?.status).toBe("pending");
  await q.advance("4m");
  expect((await q.getTask(id))?.status).toBe("cancelled");
});

test("a task that would expire before it is due is refused, and so is a duration of nothing", async () => {
  const q = await kit();
  await expect(q.enqueueTask(note.with({ delay: "1h", expiresIn: "10m" }), "never")).rejects.toThrow(
    'task "expiry-note": expiresIn is 600000 ms, and must be longer than delay, 3600000 ms: the task would expire before it is due',
  );
  expect(() => note.with({ expiresIn: 0 })).toThrow(/expiresIn/);
  expect(q.enqueued(note)).toEqual([]);
});

test("an option of the task, of enqueueTasks, of a transaction and of a schedule expires, too", async () => {
  const q = await kit();
  const brief = task(uniqueName("brief"), async () => undefined, { expiresIn: "1m" });
  const ids = await q.enqueueTasks([[brief], [brief.with({ expiresIn: "1h" })]]);
  const inside = await q.transaction((_, within) => within.enqueueTask(brief));
  await q.schedule("briefly", { every: "1h", startAt: new Date("2026-03-29T00:05Z") }, brief);
  await q.advance("2m");
  const statusOf = async (id: number) => (await q.getTask(id))?.status;
  expect(await Promise.all([...ids, inside].map(statusOf))).toEqual(["cancelled", "pending", "cancelled"]);
  await q.advance("3m");
  const [made] = await q.listTasks({ status: "pending", limit: 1 });
  expect(made?.expiresAt).toEqual(new Date("2026-03-29T00:06Z"));
  await q.advance("1m");
  expect(await statusOf(made?.id ?? 0)).toBe("cancelled");
});

test("updateTask gives a task another expiry, counted from the change, and takes it away", async () => {
  const q = await kit();
  const [soon, later, never] = (await q.enqueueTasks([
    [note, "soon"],
    [note.with({ expiresIn: "2m" }), "later"],
    [note.with({ expiresIn: "2m" }), "never"],
  ])) as [number, number, number];
  await q.advance("1m");
  expect((await q.updateTask(soon, { expiresIn: "1m" })).expiresAt).toEqual(new Date("2026-03-29T00:02Z"));
  expect((await q.updateTask(later, { expiresIn: "10m", priority: 9 })).expiresAt).toEqual(
    new Date("2026-03-29T00:11Z"),
  );
  expect((await q.updateTask(never, { expiresIn: null })).expiresAt).toBeNull();
  expect((await q.updateTask(later, { priority: 8 })).expiresAt).toEqual(new Date("2026-03-29T00:11Z"));
  await q.advance("2m");
  const statuses = async () =>
    await Promise.all([soon, later, never].map(async (id) => (await q.getTask(id))?.status));
  expect(await statuses()).toEqual(["cancelled", "pending", "pending"]);
  await q.advance("1h");
  expect(await statuses()).toEqual(["cancelled", "cancelled", "pending"]);
});

test("updateTask gives no expiry to a task whose first attempt has started, and may change the rest", async () => {
  const q = await kit();
  const failing = task(
    uniqueName("failing"),
    async (_order: { amount: number }) => {
      throw new Error("no");
    },
    { backoff: () => "1h", input: charge },
  );
  const id = await q.enqueueTask(failing, { amount: 1 });
  await q.drain({ rethrow: false, max: 1 });
  const before = await q.getTask(id);
  for (const changes of [{ expiresIn: "1m" }, { expiresIn: "1m", args: [{ amount: 2 }] }]) {
    const refused = q.updateTask(id, changes);
    await expect(refused).rejects.toMatchObject({ code: "DBQ_TASK_STARTED", taskId: id });
    await expect(refused).rejects.toThrow(
      `task ${id} was not changed: its first attempt has started, and only a task that has not started expires`,
    );
  }
  expect(await q.getTask(id)).toEqual(before);
  expect(await q.updateTask(id, { expiresIn: null, priority: 7 })).toMatchObject({
    priority: 7,
    expiresAt: null,
  });
});

test("a worker ends a task whose expiry updateTask has moved to now", async () => {
  const queue = await temporaryQueue();
  await startedWorker(queue, { tasks: [note] });
  const id = await queue.enqueueTask(note.with({ expiresIn: "1h", queueName: "nobody" }), "late");
  await queue.updateTask(id, { expiresIn: 20 });
  const done = await queue.awaitTaskCompletion(id, { timeout: "30s" });
  expect([done.status, done.error?.name]).toEqual(["cancelled", "TaskExpired"]);
});

test("a member of a group that expires counts as a cancelled one", async () => {
  const q = await kit();
  const { id } = await q.enqueueGroup([[note.with({ expiresIn: "1m" }), "member"]]);
  const result = q.awaitTaskResult(id, { timeout: "1m" });
  result.catch(() => undefined);
  await q.advance("1m");
  await expect(result).rejects.toThrow(/was cancelled/);
});

test("a link of a chain that expires is cancelled with the links before it, as by cancelTask", async () => {
  const q = await kit();
  const { ids } = await q.enqueueChain([
    [note, "first"],
    [note.with({ expiresIn: "1m" }), "second"],
  ]);
  await q.advance("1m");
  const statuses = ids.map(async (id) => (await q.getTask(id))?.status);
  expect(await Promise.all(statuses)).toEqual(["cancelled", "cancelled"]);
});

test("a worker ends a task when it expires, while it runs others, and wakes who awaits it", async () => {
  const queue = await temporaryQueue();
  await startedWorker(queue, { tasks: [note] });
  const id = await queue.enqueueTask(note.with({ expiresIn: 50, queueName: "nobody" }), "late");
  const done = await queue.awaitTaskCompletion(id, { timeout: "30s" });
  expect([done.status, done.error?.name]).toEqual(["cancelled", "TaskExpired"]);
});
