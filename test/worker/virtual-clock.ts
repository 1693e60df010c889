/** What a queue with a test's clock does when the clock is stepped; the same tests for each database. */
import { expect, onTestFinished, test } from "vitest";
import { TestClock } from "../../src/base/runtime/clock.ts";
import { internalsOf } from "../../src/features/queue.ts";
import {
  CancelTask,
  currentTask,
  type Queue,
  SnoozeTask,
  task,
  type Worker,
  type WorkerOptions,
} from "../../src/index.ts";
import { openQueueAt } from "../../src/open.ts";
import { claimBy, newWorker } from "../conformance/arrange.ts";
import { startedWorker, uniqueName } from "../support/queue.ts";

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

const start = Date.UTC(2026, 2, 29);

/** A queue on an empty database, by a clock that stands at `start`. */
async function opened(target: string): Promise<{ queue: Queue; clock: TestClock }> {
  const clock = new TestClock(start);
  const queue = await openQueueAt(clock, target);
  onTestFinished(() => queue.close());
  return { queue, clock };
}

type Event = "completed" | "retrying" | "snoozed";

/** The next event of this kind. */
const next = (worker: Worker, event: Event) =>
  new Promise<void>((resolve) => void worker.once(event, () => resolve()));

async function workerOf(queue: Queue, options?: WorkerOptions): Promise<Worker> {
  return (await startedWorker(queue, options)) as Worker;
}

/** `target`: the address of an empty database. */
export function clockTests(target: () => Promise<string>): void {
  test("a delayed task becomes due, and all its times are the clock's", async () => {
    const { queue, clock } = await opened(await target());
    const worker = await workerOf(queue);
    const tomorrow = task(uniqueName(), async () => "done");
    const id = await queue.enqueueTask(tomorrow.with({ delay: "1d" }));
    const at = await queue.enqueueTask(tomorrow.with({ waitUntil: new Date(start + 2 * day) }));
    clock.advance(day - 1);
    await internalsOf(queue).store.promote(10);
    expect((await queue.getTask(id))?.status).toBe("scheduled");
    const done = next(worker, "completed");
    clock.advance(1);
    await done;
    const end = new Date(start + day);
    expect(await queue.awaitTaskCompletion(id)).toMatchObject({
      createdAt: new Date(start),
      waitUntil: end,
      startedAt: end,
      finishedAt: end,
      updatedAt: end,
    });
    expect((await queue.getTask(at))?.status).toBe("scheduled");
    const second = next(worker, "completed");
    clock.advance(day);
    await second;
    expect((await queue.awaitTaskCompletion(at)).finishedAt).toEqual(new Date(start + 2 * day));
  });

  test("a backoff of an hour, a Date as backoff, and a snooze elapse by steps", async () => {
    const { queue, clock } = await opened(await target());
    const worker = await workerOf(queue);
    let attempts = 0;
    const steps = [new Error("no luck"), new Error("again"), new SnoozeTask("1h")];
    const backoff = (retry: number) => (retry === 1 ? "1h" : new Date(clock.now() + hour));
    const stubborn = task(
      uniqueName(),
      async () => {
        const error = steps[attempts];
        attempts += 1;
        if (error) throw error;
        return attempts;
      },
      { backoff },
    );
    const id = await queue.enqueueTask(stubborn);
    for (const event of ["retrying", "retrying", "snoozed"] as const) {
      if (attempts === 0) await next(worker, event);
      const { status, waitUntil } = (await queue.getTask(id)) ?? {};
      expect([status, waitUntil]).toEqual(["scheduled", new Date(clock.now() + hour)]);
      const following = event === "snoozed" ? "completed" : attempts === 1 ? "retrying" : "snoozed";
      const happened = next(worker, following);
      clock.advance(hour);
      await happened;
    }
    expect(await queue.awaitTaskResult(id)).toBe(4);
    const ended = (await queue.listAttempts(id)).map(({ endedAt }) => endedAt.getTime() - start);
    expect(ended).toEqual([0, hour]);
  });

  test("the lease of a worker that has died elsewhere expires, and a living one keeps its task", async () => {
    const { queue, clock } = await opened(await target());
    const { store } = internalsOf(queue);
    const fn = task(uniqueName(), async () => "rescued");
    const id = await queue.enqueueTask(fn);
    await store.register(newWorker("dead", { lease: hour }));
    const { claimed } = await store.settleAndClaim({
      outcomes: [],
      claim: claimBy("dead", { funcs: [fn.taskName] }),
    });
    expect(claimed).toHaveLength(1);
    const worker = await workerOf(queue, { tasks: [fn] });
    const living = worker.id;
    const ids = async () => (await queue.listWorkers()).map((each) => each.id);
    expect(await ids()).toEqual(["dead", living]);
    // A look that comes before a step sees the heartbeat; one that comes after it finds that it stands still.
    const looked = async () => {
      clock.advance(hour);
      return await ids();
    };
    await expect.poll(looked, { timeout: 10_000 }).toEqual([living]);
    expect(await queue.awaitTaskResult(id)).toBe("rescued");
    const [attempt] = await queue.listAttempts(id);
    expect(attempt?.outcome).toBe("crashed");
    expect(((attempt?.endedAt.getTime() ?? 0) - start) % hour).toBe(0);
  });

  test("an attempt's timeout passes with the clock", async () => {
    const { queue, clock } = await opened(await target());
    const worker = await workerOf(queue);
    const started = new Promise((resolve) => worker.once("started", resolve));
    const patient = task(
      uniqueName(),
      () => new Promise((_, reject) => currentTask().signal.addEventListener("abort", reject)),
      { timeout: "1h", maxRetries: 0 },
    );
    const id = await queue.enqueueTask(patient);
    await started;
    clock.advance(hour - 1);
    expect((await queue.getTask(id))?.status).toBe("running");
    clock.advance(1);
    expect(await queue.awaitTaskCompletion(id)).toMatchObject({
      status: "failed",
      error: { name: "TimeoutError" },
      finishedAt: new Date(start + hour),
    });
  });

  test("the next start that a rate allows comes by a step", async () => {
    const { queue, clock } = await opened(await target());
    const worker = await workerOf(queue);
    const hourly = task(uniqueName(), async () => "done", { limit: { rate: { limit: 1, per: "1h" } } });
    const first = next(worker, "completed");
    const ids = [await queue.enqueueTask(hourly), await queue.enqueueTask(hourly)];
    await first;
    const waiting = async () =>
      (await Promise.all(ids.map((id) => queue.getTask(id)))).filter((each) => each?.status !== "completed");
    await expect.poll(async () => (await waiting()).map((each) => each?.status)).toEqual(["scheduled"]);
    expect((await waiting()).map((each) => each?.waitUntil)).toEqual([new Date(start + hour)]);
    const second = next(worker, "completed");
    clock.advance(hour);
    await second;
    expect(await waiting()).toEqual([]);
  });

  test("retention prunes, and a unique key is free when its time has passed", async () => {
    const { queue, clock } = await opened(await target());
    await workerOf(queue);
    const daily = task(uniqueName(), async () => 1, { uniqueKey: "daily", uniqueFor: "1d" });
    const id = await queue.enqueueTask(daily);
    await queue.awaitTaskCompletion(id);
    clock.advance(day - 1);
    expect(await queue.enqueueTask(daily)).toBe(id);
    clock.advance(1);
    const second = await queue.enqueueTask(daily);
    expect(second).not.toBe(id);
    await queue.awaitTaskCompletion(second);
    clock.advance(7 * day);
    await expect.poll(async () => (await queue.listTasks()).length, { timeout: 10_000 }).toBe(1);
    clock.advance(1);
    await expect.poll(async () => (await queue.listTasks()).length, { timeout: 10_000 }).toBe(0);
  });

  test("time stands still between the steps, in the app's transaction too", async () => {
    const { queue, clock } = await opened(await target());
    const fn = task(uniqueName(), async () => {
      throw new CancelTask("never");
    });
    clock.advance(5 * minute);
    const now = new Date(start + 5 * minute);
    const id = await queue.transaction((_, q) => q.enqueueTask(fn.with({ delay: "1h" })));
    await new Promise((resolve) => setTimeout(resolve, 5));
    const other = await queue.enqueueTask(fn);
    const [first, last] = [await queue.getTask(id), await queue.getTask(other)];
    expect([first?.createdAt, last?.createdAt]).toEqual([now, now]);
    expect(first?.waitUntil).toEqual(new Date(now.getTime() + hour));
    expect((await queue.cancelTask(id)).finishedAt).toEqual(now);
  });
}
