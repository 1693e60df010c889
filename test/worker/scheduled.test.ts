/** Scheduled tasks become pending when they are due. */
import { expect, test } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import { currentTask, SnoozeTask, task } from "../../src/index.ts";
import { queueByClock, startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";
import { allEnded, ended, next, queueOnFile, read } from "./setup.ts";

test("tasks with a delay or waitUntil run when they are due, and not before", async () => {
  const { queue, clock } = await queueByClock();
  const quick = task(uniqueName(), async () => undefined);
  await startedWorker(queue);
  const moment = new Date(clock.now() + 250);
  const ids = [
    await queue.enqueueTask(quick.with({ delay: 400 })),
    await queue.enqueueTask(quick.with({ waitUntil: moment })),
    await queue.enqueueTask(quick.with({ delay: 100 })),
  ];
  const start = clock.now();
  for (const [id, due] of [
    [ids[2], 100],
    [ids[1], 250],
    [ids[0], 400],
  ] as const) {
    clock.advance(start + due - 1 - clock.now());
    // The worker looks for work at this time, too.
    await queue.awaitTaskCompletion(await queue.enqueueTask(quick));
    expect(await read(queue, id as number)).toMatchObject({ status: "scheduled" });
    clock.advance(1);
    await ended(queue, id as number);
  }
  const done = await allEnded(queue, ids);
  for (const { status, startedAt, waitUntil } of done) {
    expect(status).toBe("completed");
    expect(startedAt).toEqual(waitUntil);
  }
  expect(done[1]?.waitUntil).toEqual(moment);
  expect(Number(done[0]?.waitUntil) - Number(done[0]?.createdAt)).toBe(400);
});

test("a task that is not due is not run, also when another program inserted it", async () => {
  const { queue, raw } = await queueOnFile();
  const quick = task(uniqueName(), async () => undefined);
  const far = await queue.enqueueTask(quick.with({ delay: "300 days" }));
  const farthest = await queue.enqueueTask(quick.with({ waitUntil: new Date(8.64e15) }));
  // Another program sets `wait_until`, and leaves the status at its default.
  const insert = raw.prepare("insert into dbq_tasks (func, wait_until) values (?, ?)");
  insert.run(quick.taskName, Date.now() + 3_600_000);
  await startedWorker(queue, { pollInterval: 10 });
  await allEnded(queue, await queue.enqueueTasks([[quick], [quick.with({ delay: 50 })], [quick]]));
  expect(await read(queue, far)).toMatchObject({ status: "scheduled", generationId: 1 });
  expect(await read(queue, farthest)).toMatchObject({ status: "scheduled", generationId: 1 });
  expect(await read(queue, farthest + 1)).toMatchObject({ status: "pending", generationId: 1 });
});

test("a scheduled row that another program inserted runs when it is due", async () => {
  const { queue, raw } = await queueOnFile();
  const quick = task(uniqueName(), async () => "done");
  await startedWorker(queue, { pollInterval: 20 });
  raw.prepare("insert into dbq_tasks (func, wait_until) values (?, ?)").run(quick.taskName, Date.now() + 100);
  const done = await ended(queue, 1);
  expect(done).toMatchObject({ status: "completed", result: "done" });
  expect(Number(done.startedAt)).toBeGreaterThanOrEqual(Number(done.waitUntil));
});

test("a task whose waitUntil has passed runs at once", async () => {
  const { queue } = await queueOnFile();
  const quick = task(uniqueName(), async () => undefined);
  const ids = [
    await queue.enqueueTask(quick.with({ waitUntil: new Date(0) })),
    await queue.enqueueTask(quick.with({ delay: 0 })),
  ];
  for (const id of ids) expect(await read(queue, id)).toMatchObject({ status: "pending" });
  await startedWorker(queue);
  await allEnded(queue, ids);
});

test("a task that is due before all others runs in time, also when another process enqueued it", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const quick = task(uniqueName(), async () => "done");
  await queue.enqueueTask(quick.with({ delay: "1h" }));
  await startedWorker(queue);
  const other = await elsewhere();
  // The worker sleeps until the later task; the earlier one has to wake it.
  const id = await other.enqueueTask(quick.with({ delay: 50 }));
  expect(await ended(other, id)).toMatchObject({ status: "completed" });
});

const places = [
  ["a file", () => queueOnFile().then(({ queue }) => queue)],
  ["memory", () => temporaryQueue(undefined, ":memory:")],
  [
    "a file that cannot be watched",
    async () => {
      const { queue } = await queueOnFile();
      // Without a watch, as on a file system without inotify.
      internalsOf(queue).store.watch = () => () => undefined;
      return queue;
    },
  ],
] as const;

test.each(places)("a retry and a snooze in %s run when they are due", async (_, open) => {
  const queue = await open();
  let snoozes = 0;
  const flaky = task(
    uniqueName("flaky"),
    async () => {
      if (currentTask().retryCount === 0) throw new Error("once");
    },
    { backoff: () => 50 },
  );
  const sleepy = task(uniqueName("sleepy"), async () => {
    snoozes += 1;
    if (snoozes === 1) throw new SnoozeTask(50);
  });
  await startedWorker(queue, { pollInterval: 20 });
  // Together, since a later enqueue would wake the worker to check for due tasks.
  const ids = await queue.enqueueTasks([[flaky], [sleepy]]);
  for (const done of await allEnded(queue, ids)) expect(done).toMatchObject({ status: "completed" });
});

test("retryTask runs a scheduled task now", async () => {
  const { queue } = await queueOnFile();
  const quick = task(uniqueName(), async () => "done");
  const worker = await startedWorker(queue);
  const id = await queue.enqueueTask(quick.with({ delay: "1h" }));
  const completed = next(worker, "completed", id);
  expect(await queue.retryTask(id)).toMatchObject({ status: "pending", waitUntil: null });
  expect(await completed).toMatchObject({ id, result: "done" });
});

test("many tasks that are due at once all run", async () => {
  const { queue } = await queueOnFile();
  const quick = task(uniqueName(), async () => undefined);
  const ids = await queue.enqueueTasks(
    Array.from({ length: 1_200 }, () => [quick.with({ delay: 30 })] as const),
  );
  await startedWorker(queue, { concurrency: 100 });
  await allEnded(queue, ids);
});
