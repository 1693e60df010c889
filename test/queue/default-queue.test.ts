import { existsSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import {
  awaitTaskCompletion,
  awaitTaskResult,
  enqueueTask,
  getDefaultQueue,
  openQueue,
  setDefaultQueue,
} from "../../src/index.ts";
import { startedWorker, temporaryFolder, temporaryQueue } from "../support/queue.ts";
import { runProcess } from "./processes.ts";
import { countRows, rawClient } from "./raw.ts";
import { add, boom, echo } from "./tasks.ts";

/** Sets `DBQ_URL` for one test. */
function withUrl(url: string | undefined): void {
  if (url === undefined) delete process.env.DBQ_URL;
  else process.env.DBQ_URL = url;
}

beforeEach(() => {
  const { DBQ_URL } = process.env;
  setDefaultQueue(undefined);
  onTestFinished(() => {
    withUrl(DBQ_URL);
    setDefaultQueue(undefined);
  });
});

it("the default queue is opened once on first use, at DBQ_URL", async () => {
  const path = join(temporaryFolder(), "from-env.db");
  withUrl(`sqlite:${path}`);
  const [one, other, id] = await Promise.all([getDefaultQueue(), getDefaultQueue(), enqueueTask(add, 1, 2)]);
  onTestFinished(() => one.close());
  expect(other).toBe(one);
  expect(await one.getTask(id)).toMatchObject({ func: "add", args: [1, 2] });
  expect(countRows(rawClient(path))).toBe(1);
});

it("the default queue is dbq.db in the working directory without DBQ_URL", async () => {
  const folder = temporaryFolder();
  const env = { ...process.env };
  delete env.DBQ_URL;
  expect(JSON.parse(await runProcess("default", [], { cwd: folder, env }))).toEqual({ given: 1 });
  expect(existsSync(join(folder, "dbq.db"))).toBe(true);
  expect(countRows(rawClient(join(folder, "dbq.db")))).toBe(1);
});

it("openQueue refuses an undefined database, such as an environment variable that is not set", async () => {
  withUrl(join(temporaryFolder(), "from-env.db"));
  // The compiler refuses these calls; a program in JavaScript can make them.
  const open = openQueue as (...given: unknown[]) => Promise<unknown>;
  for (const given of [[undefined], [process.env.DBQ_NOT_SET, { poolSize: 2 }]]) {
    await expect(open(...given)).rejects.toThrow(TypeError);
    await expect(open(...given)).rejects.toThrow("openQueue() without arguments, which opens DBQ_URL");
  }
  const queue = await openQueue();
  onTestFinished(() => queue.close());
  expect(await queue.listTasks()).toEqual([]);
});

it("setDefaultQueue applies to each function that uses the default queue", async () => {
  withUrl("/nowhere/at/all.db");
  const queue = await temporaryQueue(undefined, ":memory:");
  setDefaultQueue(queue);
  await startedWorker(queue);
  const id = await enqueueTask(add, 40, 2);
  expect(await awaitTaskCompletion(id)).toMatchObject({ id, status: "completed", result: 42 });
  const result: number = await awaitTaskResult(id);
  expect(result).toBe(42);
  await expect(awaitTaskResult(await enqueueTask(boom, "no"))).rejects.toMatchObject({
    code: "DBQ_TASK_FAILED",
  });
  await expect(awaitTaskCompletion(4_711)).rejects.toMatchObject({ code: "DBQ_TASK_NOT_FOUND" });
  expect(await getDefaultQueue()).toBe(queue);
});

it("a default queue that could not be opened is tried again on the next use", async () => {
  const folder = temporaryFolder();
  withUrl(join(folder, "missing", "dbq.db"));
  await expect(enqueueTask(add, 1, 2)).rejects.toMatchObject({ code: "DBQ_DATABASE" });
  await expect(getDefaultQueue()).rejects.toThrow(/folder/);
  withUrl(join(folder, "dbq.db"));
  expect(await enqueueTask(add, 1, 2)).toBe(1);
  await (await getDefaultQueue()).close();
});

it("the default queue is opened again after it was set to undefined", async () => {
  const folder = temporaryFolder();
  withUrl(join(folder, "one.db"));
  const one = await getDefaultQueue();
  await one.close();
  setDefaultQueue(undefined);
  withUrl(join(folder, "two.db"));
  expect(await enqueueTask(add, 1, 2)).toBe(1);
  const two = await getDefaultQueue();
  expect(two).not.toBe(one);
  await two.close();
});

it("enqueueTask of the default queue encodes its arguments at the call", async () => {
  const queue = await temporaryQueue(undefined, ":memory:");
  setDefaultQueue(queue);
  const value = { n: 1 };
  const enqueued = enqueueTask(echo, value);
  value.n = 2;
  expect((await queue.getTask(await enqueued))?.args).toEqual([{ n: 1 }]);
});

it("setDefaultQueue refuses a value that is not a Queue", () => {
  for (const other of [null, {}, "dbq.db", Promise.resolve()])
    expect(() => setDefaultQueue(other as unknown as undefined)).toThrow(TypeError);
});
