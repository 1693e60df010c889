/** Log lines that the database does not take: outcomes wait for them no longer than 10 s. */
import { expect, test } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import { currentTask, task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { ended, queueOnFile, until } from "./setup.ts";

test("a write of log lines that hangs holds outcomes for 10 s once, and lines are written again when it has ended", async () => {
  const { queue } = await queueOnFile();
  const { store } = internalsOf(queue);
  const { log } = store;
  const hung = deferred();
  store.log = () => hung.promise;
  const chatty = task(uniqueName(), async (line: string) => currentTask().log(line));
  const worker = await startedWorker(queue, { concurrency: 1 });
  const errors: string[] = [];
  worker.on("error", (error, where) => {
    errors.push(`${where}: ${(error as Error).message}`);
  });
  const ids = await queue.enqueueTasks(
    ["one", "two", "three", "four"].map((line) => [chatty, line] as const),
  );
  // Each is waited for 20 s at most: four writes one after another would take 40 s.
  for (const id of ids) expect(await ended(queue, id)).toMatchObject({ status: "completed" });
  store.log = log;
  hung.resolve();
  await until(() => errors.length === 2);
  expect(errors).toEqual([
    "writing log lines: it takes longer than 10000 ms: lines are dropped",
    "writing log lines: 3 lines were dropped",
  ]);
  const later = await queue.enqueueTask(chatty, "five");
  await ended(queue, later);
  expect(await queue.listLogs(later)).toMatchObject([{ message: "five" }]);
});
