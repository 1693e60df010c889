/** How a test queue is opened, and what is its own. */
import { join } from "node:path";
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { afterEach, expect, expectTypeOf, onTestFinished, test, vi } from "vitest";
import "../../../src/features/testing/vitest.ts";
import { testQueue } from "../../../src/features/testing/index.ts";
import {
  currentTask,
  getDefaultQueue,
  openQueue,
  setDefaultQueue,
  type Task,
  task,
} from "../../../src/index.ts";
import { temporaryFolder, uniqueName } from "../../support/queue.ts";

afterEach(() => void vi.useRealTimers());

const double = task("double", async (n: number) => n * 2);

test("a queue on the app's own database writes in the app's transactions, and leaves the database open", async () => {
  const client = new Database(":memory:");
  onTestFinished(() => void client.close());
  const db = drizzle({ client });
  {
    await using q = await testQueue({ db, now: 0 });
    db.transaction((tx) => q.within(tx).enqueueTask(double, 1), { behavior: "immediate" });
    expect(() =>
      db.transaction((tx) => {
        q.within(tx).enqueueTask(double, 2);
        throw new Error("rolled back");
      }),
    ).toThrow("rolled back");
    expect(q.enqueued(double).map(({ args, createdAt }) => [args, createdAt])).toEqual([[[1], new Date(0)]]);
  }
  expect(client.prepare("select count(*) from dbq_tasks").pluck().get()).toBe(1);
});

test("a queue on a file has the tasks that another queue has written", async () => {
  const target = join(temporaryFolder(), "app.db");
  await using other = await openQueue(target);
  await other.enqueueTask(double, 3);
  await using q = await testQueue({ target });
  expect(await q.drain()).toMatchObject({ completed: 1 });
  expect(await other.countTasks()).toMatchObject({ completed: 1 });
});

test("several queues are open at a time, each with its own clock, tasks and context", async () => {
  await using first = await testQueue({ now: "2026-01-01", context: "first" });
  await using second = await testQueue({ now: "2027-01-01T00:00+01:00", context: "second" });
  const seen: unknown[] = [];
  const look = task(uniqueName(), async () => void seen.push(currentTask().context));
  await first.enqueueTask(look.with({ delay: "1h" }));
  await second.enqueueTask(look.with({ delay: "1h" }));
  await first.advance("1h");
  expect(await Promise.all([first.drain(), second.drain()])).toMatchObject([
    { completed: 1, scheduled: 0 },
    { completed: 0, scheduled: 1 },
  ]);
  expect(seen).toEqual(["first"]);
  expect(first.now()).toEqual(new Date("2026-01-01T01:00Z"));
  expect(second.now()).toEqual(new Date("2026-12-31T23:00Z"));
});

test("code that uses the default queue gets the test's, when the test says so", async () => {
  await using q = await testQueue();
  onTestFinished(() => setDefaultQueue(undefined));
  setDefaultQueue(q);
  await (await getDefaultQueue()).enqueueTask(double, 1);
  expect(q).toHaveEnqueued(double, [1]);
});

test("under fake timers nothing hangs", async () => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "setInterval", "setImmediate", "performance", "Date", "queueMicrotask"],
  });
  await using q = await testQueue();
  const flaky = task(uniqueName(), async () => {
    if (currentTask().retryCount === 0) throw new Error("once");
  });
  const id = await q.enqueueTask(flaky.with({ delay: "1h" }));
  await q.advance("1h");
  await q.drain();
  await q.advance("15s");
  expect(await q.drain()).toMatchObject({ completed: 1 });
  const other = await q.enqueueTask(double, 1);
  await q.crash(other);
  await q.advance("15s");
  expect(await q.drain()).toMatchObject({ completed: 1 });
  expect(await q.run(double, [2])).toMatchObject({ result: 4 });
  expect((await q.getTask(id))?.status).toBe("completed");
});

test("wrong options are refused with their names and values", async () => {
  const opening = (options: object) => testQueue(options);
  await expect(opening({ start: 1 })).rejects.toThrow(
    'testQueue: there is no option "start"; there are backoff',
  );
  await expect(opening({ now: "2026-03-29T00:00" })).rejects.toThrow(
    'testQueue: now: expected a Date, milliseconds since 1970, or a time with its zone, such as "2026-03-29T00:00Z", got "2026-03-29T00:00"',
  );
  await expect(opening({ now: new Date("never") })).rejects.toThrow("got an invalid Date");
  await expect(opening({ backoff: "soon" })).rejects.toThrow("testQueue: backoff: expected a duration");
  await expect(opening({ target: ":memory:", db: {} })).rejects.toThrow("pass target or db, not both");
  await using q = await testQueue({ now: 1_000 });
  await expect(q.advance("1")).rejects.toThrow("advance: expected a duration");
  await expect(q.advance(-1)).rejects.toThrow("got -1");
  await expect(q.advance(new Date(999))).rejects.toThrow(
    "the clock stands at 1970-01-01T00:00:01.000Z and does not go back",
  );
  await expect(q.drain({ max: 0 })).rejects.toThrow("drain: max: expected a whole number from 1");
  await expect(q.run(double, 1 as never)).rejects.toThrow(
    "run: expected the function's arguments in an array, got 1",
  );
  await expect(q.run(double, [1], { retries: 1 } as never)).rejects.toThrow(
    'run: there is no option "retries"',
  );
  await expect(q.advance(8.64e15)).rejects.toThrow(
    "advance: no Date is as late as 8640000000000000 after 1970-01-01T00:00:01.000Z",
  );
  await q.advance(new Date(5_000));
  expect(q.now()).toEqual(new Date(5_000));
});

test("types say which queue answers at once, and what an attempt returns", async () => {
  await using q = await testQueue();
  expectTypeOf(q.enqueued()).toEqualTypeOf<Task[]>();
  expectTypeOf(await q.run(double, [1])).toEqualTypeOf<Task<number>>();
  // @ts-expect-error: its argument is a number
  await q.run(double, ["1"]).catch(() => undefined);
  const server = () => testQueue({ target: "postgres://localhost/app" });
  expectTypeOf<ReturnType<Awaited<ReturnType<typeof server>>["enqueued"]>>().toEqualTypeOf<Promise<Task[]>>();
});
