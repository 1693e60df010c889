/** Progress of a running task: visible to every connection, and not a state change. */
import { expect, test } from "vitest";
import { currentTask, type RunningTask, task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { ended, next, queueOnFile, read, rejection, until } from "./setup.ts";

test("another connection sees the last progress while the task runs", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const noted = deferred();
  const release = deferred();
  const long = task(uniqueName(), async () => {
    for (let n = 0; n <= 40; n += 1) currentTask().progress(n / 100, `${n} done`);
    noted.resolve();
    await release.promise;
    currentTask().progress(0.75);
    await new Promise((resolve) => setImmediate(resolve));
    currentTask().progress(1, "x".repeat(5_000));
  });
  await startedWorker(queue);
  const other = await elsewhere();
  const id = await queue.enqueueTask(long);
  await noted.promise;
  const seen = await until(async () => {
    const row = await read(other, id);
    return row.progress !== null && row;
  });
  expect(seen).toMatchObject({ progress: 0.4, progressNote: "40 done", status: "running", generationId: 2 });
  release.resolve();
  // The last progress is stored with the outcome.
  const done = await ended(queue, id);
  expect(done).toMatchObject({ status: "completed", progress: 1, generationId: 3 });
  expect(done.progressNote).toBe("x".repeat(1_000));
});

test("progress of a number that is not finite throws in the handler", async () => {
  const { queue } = await queueOnFile();
  const wrong = task(uniqueName(), async (what: string) => currentTask().progress(Number(what)), {
    maxRetries: 0,
  });
  await startedWorker(queue);
  for (const what of ["NaN", "Infinity"]) {
    const failed = await ended(queue, await queue.enqueueTask(wrong, what));
    expect(failed).toMatchObject({ status: "failed", error: { name: "TypeError" }, progress: null });
    expect(failed.error?.message).toContain(what);
  }
});

test("an attempt starts without the progress of the attempt before, which can no longer add any", async () => {
  const { queue } = await queueOnFile();
  const first = deferred<RunningTask>();
  const seen = deferred<unknown>();
  const release = deferred();
  const flaky = task(
    uniqueName(),
    async () => {
      const current = currentTask();
      if (current.retryCount > 0) {
        const { progress, progressNote } = await read(queue, current.id);
        seen.resolve({ progress, progressNote });
        return await release.promise;
      }
      current.progress(0.9, "nearly");
      first.resolve(current);
      throw new Error("no");
    },
    { backoff: () => 0 },
  );
  const worker = await startedWorker(queue);
  const retrying = next(worker, "retrying");
  const id = await queue.enqueueTask(flaky);
  expect(await retrying).toMatchObject({ id });
  expect(await seen.promise).toEqual({ progress: null, progressNote: null });
  (await first.promise).progress(0.95, "of the past");
  release.resolve();
  expect(await ended(queue, id)).toMatchObject({ status: "completed", progress: null, progressNote: null });
});

test("progress that cannot be written is reported, and its task goes on", async () => {
  const { queue, raw } = await queueOnFile();
  raw.exec(`create trigger no_notes before update of progress on dbq_tasks when new.progress is not null
    begin select raise(abort, 'no notes today'); end`);
  const long = task(uniqueName(), async () => {
    currentTask().progress(0.5);
    return "done";
  });
  const worker = await startedWorker(queue);
  const told = new Promise<unknown[]>((resolve) => {
    worker.on("error", (error, where) => resolve([error, where]));
  });
  const id = await queue.enqueueTask(long);
  expect(await told).toEqual([expect.objectContaining({ code: "DBQ_DATABASE" }), "writing progress"]);
  expect(await ended(queue, id)).toMatchObject({ status: "completed", result: "done" });
});

test("currentTask() outside of a task throws", async () => {
  expect(await rejection((async () => currentTask().progress(1))())).toMatchObject({
    code: "DBQ_NOT_IN_TASK",
  });
});
