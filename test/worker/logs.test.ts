/** The lines that a task logs: there before its outcome is, in order, bounded, and never of a lost attempt. */
import { drizzle } from "drizzle-orm/better-sqlite3";
import { expect, test } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import { currentTask, type RunningTask, task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { ended, loggingTask, queueOnFile, read, until } from "./setup.ts";

const messages = (lines: readonly { message: string }[]) => lines.map(({ message }) => message);

test("all lines of an attempt are stored when its outcome is visible, in their order", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const other = await elsewhere();
  const { store } = internalsOf(queue);
  const { log } = store;
  const release = deferred();
  store.log = async (lines, keep) => {
    await release.promise;
    await log(lines, keep);
  };
  const chatty = task(uniqueName(), async () => {
    const { log: line } = currentTask();
    for (let n = 0; n < 300; n += 1) line(`line ${n}`);
    throw new Error("no luck");
  });
  const quiet = task(uniqueName(), async () => "done");
  await startedWorker(queue);
  const id = await queue.enqueueTask(chatty.with({ maxRetries: 0 }));
  // Each of these is settled by a cycle that began after the function had thrown.
  for (let n = 0; n < 3; n += 1) await ended(queue, await queue.enqueueTask(quiet));
  expect(await read(other, id)).toMatchObject({ status: "running" });
  release.resolve();
  expect(await ended(other, id)).toMatchObject({ status: "failed", generationId: 3 });
  const lines = await other.listLogs(id);
  expect(messages(lines)).toEqual(Array.from({ length: 300 }, (_, n) => `line ${n}`));
  expect(lines[0]).toMatchObject({ taskId: id, generationId: 2 });
  expect(Math.abs((lines[0]?.at.getTime() ?? 0) - Date.now())).toBeLessThan(20_000);
});

test("another process reads the lines of a task while it runs, and a retry adds to them", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const other = await elsewhere();
  const release = deferred();
  const flaky = task(
    uniqueName(),
    async () => {
      currentTask().log(`attempt ${currentTask().retryCount}`);
      if (currentTask().retryCount > 0) return;
      await release.promise;
      throw new Error("no luck");
    },
    { backoff: () => 1 },
  );
  await startedWorker(queue);
  const id = await queue.enqueueTask(flaky);
  const seen = await until(async () => {
    const lines = await other.listLogs(id);
    return lines.length > 0 && lines;
  });
  expect(messages(seen)).toEqual(["attempt 0"]);
  release.resolve();
  await ended(queue, id);
  const lines = await other.listLogs(id);
  expect(messages(lines)).toEqual(["attempt 0", "attempt 1"]);
  expect(lines[1]?.generationId).toBeGreaterThan(lines[0]?.generationId ?? 0);
  expect(await queue.listLogs(999_999)).toEqual([]);
});

test("an attempt stores 1,000 lines of 2,000 characters, and one last line says how many were dropped", async () => {
  const { queue } = await queueOnFile();
  const endless = task(uniqueName(), async () => {
    currentTask().log(`${"x".repeat(1_999)}🎉`);
    for (let n = 0; n < 1_500; n += 1) currentTask().log(String(n));
  });
  await startedWorker(queue);
  const id = await queue.enqueueTask(endless);
  await ended(queue, id);
  const lines = messages(await queue.listLogs(id));
  expect(lines).toHaveLength(1_001);
  expect(lines[0]).toBe("x".repeat(1_999));
  expect(lines.slice(-2)).toEqual(["998", "501 more lines were dropped: an attempt logs at most 1000"]);
});

test("a task keeps the newest 2,000 lines of all its attempts", async () => {
  const { queue } = await queueOnFile();
  await startedWorker(queue);
  const id = await queue.enqueueTask(loggingTask(3, 900));
  await ended(queue, id);
  const lines = messages(await queue.listLogs(id));
  expect(lines).toHaveLength(2_000);
  expect([lines[0], lines.at(-1)]).toEqual(["0.700", "2.899"]);
});

test("an attempt that has lost its task, or has ended, logs nothing more", async () => {
  const { queue } = await queueOnFile();
  const running = deferred<RunningTask>();
  const over = deferred();
  const stubborn = task(uniqueName(), async () => {
    const { log, signal } = currentTask();
    log("before");
    running.resolve(currentTask());
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    log("after the cancel");
    over.resolve();
  });
  await startedWorker(queue);
  const id = await queue.enqueueTask(stubborn);
  const { log } = await running.promise;
  await until(async () => (await queue.listLogs(id)).length === 1);
  await queue.cancelTask(id);
  await over.promise;
  const marker = task(uniqueName(), async () => currentTask().log("written later"));
  await ended(queue, await queue.enqueueTask(marker));
  log("much later");
  await ended(queue, await queue.enqueueTask(marker));
  expect(messages(await queue.listLogs(id))).toEqual(["before"]);
});

test("the lines of a task that its function completes in its own transaction are stored", async () => {
  const { queue, raw } = await queueOnFile();
  const db = drizzle({ client: raw });
  const within = task(uniqueName(), async () => {
    const { log, within: bind } = currentTask();
    log("before");
    db.transaction((tx) => bind(tx).complete("done"));
    log("after");
  });
  await startedWorker(queue);
  const id = await queue.enqueueTask(within);
  expect(await ended(queue, id)).toMatchObject({ status: "completed", result: "done" });
  await until(async () => (await queue.listLogs(id)).length === 2);
  expect(messages(await queue.listLogs(id))).toEqual(["before", "after"]);
});

test("lines that the database refuses are reported, and the outcome is stored all the same", async () => {
  const { queue } = await queueOnFile();
  internalsOf(queue).store.log = async () => Promise.reject(new Error("disk full"));
  const chatty = task(uniqueName(), async () => currentTask().log("lost"));
  const worker = await startedWorker(queue);
  const reported = deferred<string>();
  worker.on("error", (_, where) => {
    reported.resolve(where);
  });
  expect(await ended(queue, await queue.enqueueTask(chatty))).toMatchObject({ status: "completed" });
  expect(await reported.promise).toBe("writing log lines");
});
