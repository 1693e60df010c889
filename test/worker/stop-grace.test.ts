/** The shortest grace of all calls of stop applies. */
import { expect, test } from "vitest";
import { task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { queueOnFile, read } from "./setup.ts";

test("a second stop with a longer grace does not prolong the first", async () => {
  const { queue } = await queueOnFile();
  const begun = deferred();
  const hold = task(uniqueName(), () => {
    begun.resolve();
    return new Promise<void>(() => undefined);
  });
  const worker = await startedWorker(queue);
  const id = await queue.enqueueTask(hold);
  await begun.promise;
  const short = worker.stop({ grace: 300 });
  const long = worker.stop({ grace: 8_000 });
  const asked = performance.now();
  await Promise.all([short, long]);
  expect(performance.now() - asked).toBeLessThan(6_000);
  expect(await read(queue, id)).toMatchObject({ status: "pending", retryCount: 0, generationId: 3 });
});
