/** What Prometheus reads. */
import { expect, test } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import { waitForEvent } from "../../src/features/workflows/steps.ts";
import { metricsText, remoteTask, task, Worker } from "../../src/index.ts";
import { temporaryQueue, uniqueName } from "../support/queue.ts";

/** Each sample of the text by its name and labels. */
const samples = (text: string) =>
  new Map(
    text.split("\n").flatMap((line) => {
      const [, name, value] = /^([a-z].*) ([^ ]+)$/.exec(line) ?? [];
      return name === undefined ? [] : [[name, Number(value)] as const];
    }),
  );

test("metricsText has the tasks of each queue, the age of the oldest pending, and histograms of runs and waits", async () => {
  const queue = await temporaryQueue();
  const fn = task(uniqueName(), async () => undefined);
  const failing = task(uniqueName(), () => Promise.reject(new Error("no luck")), { maxRetries: 0 });
  await queue.enqueueTasks([[fn], [fn], [failing], [remoteTask("later").with({ delay: "1h" })]] as const);
  const worker = new Worker(queue);
  await worker.start();
  await worker.idle();
  await worker.stop();
  await queue.enqueueTask(remoteTask("hostile").with({ queueName: 'a "quoted"\\ \n one' }));
  const text = await metricsText(queue);
  expect(text).toMatch(/^# TYPE dbq_tasks gauge$/m);
  expect(text).toMatch(/^# TYPE dbq_task_duration_seconds histogram$/m);
  const found = samples(text);
  expect(found.get('dbq_tasks{queue="default",status="scheduled"}')).toBe(1);
  expect(found.get('dbq_tasks{queue="default",status="failed"}')).toBe(1);
  expect(found.get('dbq_tasks{queue="a \\"quoted\\"\\\\ \\n one",status="pending"}')).toBe(1);
  expect(found.get('dbq_oldest_pending_seconds{queue="default"}')).toBe(0);
  expect(found.get('dbq_causes{kind="unserved",severity="critical"}')).toBe(0);
  const ofFn = `queue="default",func="${fn.taskName}",outcome="completed"`;
  expect(found.get(`dbq_task_duration_seconds_count{${ofFn}}`)).toBe(2);
  expect(found.get(`dbq_task_duration_seconds_bucket{${ofFn},le="+Inf"}`)).toBe(2);
  expect(found.get(`dbq_task_duration_seconds_sum{${ofFn}}`)).toBeGreaterThanOrEqual(0);
  expect(
    found.get(`dbq_task_duration_seconds_count{queue="default",func="${failing.taskName}",outcome="failed"}`),
  ).toBe(1);
  expect(found.get(`dbq_task_wait_seconds_count{queue="default",func="${fn.taskName}"}`)).toBe(2);
});

test("metricsText says how many tasks wait for what, and since when; each kind has a sample", async () => {
  const queue = await temporaryQueue();
  const waits = task(uniqueName(), () => waitForEvent("paid"));
  await queue.enqueueTask(waits);
  const worker = new Worker(queue, { concurrency: 1, pollInterval: 50 });
  await worker.start();
  while ((await queue.countTasks()).waiting === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  await worker.stop();
  const found = samples(await metricsText(queue));
  expect(found.get('dbq_tasks{queue="default",status="waiting"}')).toBe(1);
  expect(found.get('dbq_waiting_tasks{kind="event"}')).toBe(1);
  expect(found.get('dbq_waiting_tasks{kind="child"}')).toBe(0);
  expect(found.get('dbq_oldest_waiting_seconds{kind="event"}')).toBeGreaterThan(0);
  expect(found.get('dbq_oldest_waiting_seconds{kind="time"}')).toBe(0);
});

test("the buckets of a histogram grow up to its count, and each has the times up to its bound", async () => {
  const queue = await temporaryQueue();
  const counts = { count: 6, waitBuckets: "[]", runBuckets: "[0,1,16,1,17,1,24,1,104,1,148,1]" };
  const row = { queueName: "q", func: "f", outcome: "completed", total: counts, fresh: counts };
  await internalsOf(queue).store.stats.write("w1", Math.floor(Date.now() / 60_000) * 60_000, [row]);
  const found = samples(await metricsText(queue));
  const upTo = (le: string) =>
    found.get(`dbq_task_duration_seconds_bucket{queue="q",func="f",outcome="completed",le="${le}"}`);
  const bounds = ["0.001", "0.004", "0.016", "1.024", "4.096", "4194.304", "+Inf"];
  expect(bounds.map(upTo)).toEqual([2, 4, 4, 4, 4, 5, 6]);
  expect([...found.keys()].some((name) => name.startsWith("dbq_task_wait_seconds"))).toBe(false);
});
