import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { moveQueue, task } from "../../../src/index.ts";
import { startedWorker, temporaryFolder, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { queueOnFile } from "../../worker/setup.ts";
import { failing, run, testsOn } from "./scenario.ts";

describe("on SQLite", () => testsOn(async () => join(temporaryFolder(), "dbq.db")));

test("wrong options are refused by their names", async () => {
  const queue = await temporaryQueue();
  const list = (options: object) => queue.listFailures(options);
  await expect(list({ since: "yesterday" })).rejects.toThrow(/listFailures: since: expected a duration/);
  await expect(list({ since: new Date(Number.NaN) })).rejects.toThrow(/since: expected a valid Date/);
  await expect(list({ limit: 0 })).rejects.toThrow(/limit: expected a whole number from 1 to 1000, got 0/);
  await expect(list({ func: 7 })).rejects.toThrow(/listFailures: func/);
  await expect(list({ queue: "x" })).rejects.toThrow(/there is no option "queue"/);
  await expect(queue.retryTasks({ failure: undefined } as object)).rejects.toThrow(/failure is undefined/);
});

test("a worker whose tasks complete writes no counts and no kinds", async () => {
  const { queue, raw } = await queueOnFile();
  const fine = task(uniqueName("fine"), () => undefined);
  const worker = await startedWorker(queue);
  const ids = await queue.enqueueTasks(Array.from({ length: 20 }, () => [fine] as const));
  for (const id of ids) await queue.awaitTaskCompletion(id);
  await worker.stop();
  expect(raw.prepare("select count(*) as n from dbq_failures").get()).toEqual({ n: 0 });
  expect(raw.prepare("select count(*) as n from dbq_tasks where failure is not null").get()).toEqual({
    n: 0,
  });
});

test("a database without the table still runs tasks, and the worker reports once that it cannot count failures", async () => {
  const { queue, raw } = await queueOnFile();
  raw.exec("drop table dbq_failures");
  const fails = failing();
  const worker = await startedWorker(queue);
  const reports: string[] = [];
  worker.on("error", (_, where) => reports.push(where));
  const id = await queue.enqueueTask(fails, "no user 7");
  expect((await queue.awaitTaskCompletion(id)).status).toBe("failed");
  await worker.stop();
  expect(reports.filter((where) => where === "counting failures")).toHaveLength(1);
});

test("a kind that no row counts is known by its newest failed task, and has the same id", async () => {
  const { queue, raw } = await queueOnFile();
  const [id] = await run(queue, failing(), ["row 12 is gone"]);
  const [before] = await queue.listFailures();
  expect(before).toMatchObject({ message: "row <n> is gone", count: 1, open: 1, sample: id });
  raw.exec("delete from dbq_failures");
  const at = (await queue.getTask(id as number))?.finishedAt;
  expect(await queue.listFailures()).toEqual([{ ...before, count: 0, firstAt: at, lastAt: at }]);
});

test("a move takes the kinds of tasks and attempts along, and leaves the counts behind", async () => {
  const queue = await temporaryQueue();
  const [id] = await run(queue, failing(1), ["no user 7"]);
  const [before] = await queue.listFailures();
  const next = await temporaryQueue();
  await moveQueue(queue, next);
  expect(await next.listFailures()).toMatchObject([
    { id: before?.id, message: "no user <n>", count: 0, open: 1 },
  ]);
  const attempts = await next.listAttempts(id as number);
  expect(attempts.map(({ failure }) => failure)).toEqual([before?.id, before?.id]);
});

test("the kinds of one minute beyond the bound count together, and their tasks are found by their own kinds", async () => {
  const { queue } = await queueOnFile();
  const fails = failing();
  const inLetters = (n: number) => String(n).replace(/\d/g, (digit) => "ghijklmnop".charAt(Number(digit)));
  // More than two minutes hold, of 200 kinds each: they may fail around the turn of a minute.
  const ids = await run(
    queue,
    fails,
    Array.from({ length: 430 }, (_, n) => `odd ${inLetters(n)}`),
  );
  const found = await queue.listFailures({ limit: 1_000 });
  const others = found.filter(({ errorName }) => errorName === "Others");
  expect(others.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThanOrEqual(1);
  expect(found.reduce((sum, { count }) => sum + count, 0)).toBe(430);
  expect(found.reduce((sum, { open }) => sum + open, 0)).toBe(430);
  const last = found.find(({ sample, open }) => open === 1 && sample === ids.at(-1));
  expect(last).toMatchObject({ message: `odd ${inLetters(429)}` });
  expect(await queue.countTasks({ failure: String(last?.id) })).toMatchObject({ failed: 1 });
});
