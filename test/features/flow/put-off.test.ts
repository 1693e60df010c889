/** What shows how many tasks a rate has put off, so that nobody takes them for tasks that were enqueued to run later. */
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { lookAt } from "../../../src/entries/cli/top-look.ts";
import { screen } from "../../../src/entries/cli/top-screen.ts";
import { metricsText, openQueue, remoteTask, task } from "../../../src/index.ts";
import { dbq, dbqJson } from "../../entries/cli/in-process.ts";
import { startedWorker, temporaryFolder, uniqueName } from "../../support/queue.ts";
import { textOf } from "../dashboard/page-text.ts";
import { openDesk } from "../dashboard/requests.ts";

/** A queue in which a rate has let one of 50 tasks start, beside a task with a delay of its own. */
async function queueWithRate() {
  const folder = temporaryFolder();
  const queue = await openQueue(join(folder, "dbq.db"));
  onTestFinished(() => queue.close());
  const call = task(uniqueName(), async () => undefined, { limit: { rate: { limit: 1, per: "1h" } } });
  await queue.enqueueTasks(Array.from({ length: 50 }, () => [call] as const));
  await queue.enqueueTask(call.with({ delay: "1d" }));
  const worker = await startedWorker(queue);
  await expect.poll(async () => (await queue.countTasks()).scheduled).toBe(50);
  await worker.stop();
  return { folder, queue, func: call.taskName };
}

test("health, limits, metrics, top and the dashboard tell what a rate has put off from what was delayed", async () => {
  const began = Date.now();
  const { folder, queue, func } = await queueWithRate();
  const isSince = (time: Date | null | undefined) => Number(time) >= began - 1 && Number(time) <= Date.now();
  const [health] = (await queue.health()).queues;
  expect(health).toMatchObject({ name: "default", pending: 0, scheduled: 50, putOff: 49 });
  expect(isSince(health?.putOffSince)).toBe(true);
  const limit = (await queue.listLimits()).find(({ putOff }) => putOff !== 0);
  expect(limit).toMatchObject({ target: { func }, waiting: 0, putOff: 49 });
  expect(isSince(limit?.putOffSince)).toBe(true);

  const metrics = await metricsText(queue);
  expect(metrics).toContain('\ndbq_tasks_put_off{queue="default"} 49\n');
  expect(metrics).toMatch(/\ndbq_oldest_put_off_seconds\{queue="default"\} (?!0\n)\d+(\.\d+)?\n/);

  const look = await lookAt(queue);
  const later = { ...look, at: new Date(Number(health?.putOffSince) + 125_000) };
  const top = screen(later, "dbq.db", { columns: 160, rows: 40 });
  expect(top.find((line) => line.startsWith("QUEUE"))).toMatch(/ SCHEDULED +PUT OFF +PUT OFF FOR +FAILED /);
  expect(top.find((line) => line.startsWith("default"))).toMatch(/^default +0 +0 +50 +49 +2 min +0 /);

  expect((await dbq(folder, ["limits"])).out).toMatch(
    new RegExp(`^function ${func} +1/1h +0 +0 +49 +from code, .*put off since \\d{4}-`, "m"),
  );
  expect(await dbqJson(folder, ["limits"])).toMatchObject([
    { putOff: 49, putOffSince: limit?.putOffSince?.toISOString() },
  ]);
  expect(await dbqJson(folder, ["top"])).toMatchObject({
    queues: [{ putOff: 49 }],
    limits: [{ putOff: 49 }],
  });

  const { get } = await openDesk({}, queue);
  const page = await (await get("/queues")).text();
  expect(textOf(page, "queues")).toMatch(/50 ?49 put off by a rate, since/);
  expect(textOf(page, "limits")).toMatch(/49 ?since/);
});

test("top has no columns for what rates have put off where there is none", async () => {
  const queue = await openQueue(":memory:");
  onTestFinished(() => queue.close());
  await queue.enqueueTask(remoteTask("later").with({ delay: "1h" }));
  const lines = screen(await lookAt(queue), "dbq.db", { columns: 160, rows: 40 });
  expect(lines.join("\n")).not.toContain("PUT OFF");
  expect((await queue.health()).queues).toMatchObject([{ scheduled: 1, putOff: 0, putOffSince: null }]);
});

test("behind 10,000 tasks of other rates, what a function's rate has put off is not known, and never a false 0", async () => {
  const { folder, queue, func } = await queueWithRate();
  await queue.setLimit("a", { rate: { limit: 1, per: "1h" } });
  const client = new Database(join(folder, "dbq.db"));
  onTestFinished(() => void client.close());
  client
    .prepare(
      `with recursive n (i) as (select 1 union all select i + 1 from n where i < 10000)
      insert into dbq_tasks (func, status, wait_until, put_off_by) select 'other', 'scheduled', 9e12, ? from n`,
    )
    .run('["\u0021", "stands first in the index", ""]');
  // The functions of the other tests have limits here, too.
  const limits = await queue.listLimits();
  expect(limits).toContainEqual(
    expect.objectContaining({ target: { func }, putOff: null, putOffSince: null }),
  );
  expect(limits).toContainEqual(expect.objectContaining({ target: "a", putOff: 0, waiting: null }));
  const [health] = (await queue.health()).queues;
  expect(health).toMatchObject({ scheduled: 5_000, putOff: 5_000, atLeast: ["scheduled"] });
  expect((await dbq(folder, ["limits"])).out).toMatch(
    new RegExp(`^function ${func} +1/1h +0 +0 +from code`, "m"),
  );
});
