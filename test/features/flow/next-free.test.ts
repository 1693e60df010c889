import { expect, test } from "vitest";
import { task } from "../../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";

test("listLimits says when the rate of a function lets its next task start", async () => {
  const queue = await temporaryQueue();
  const fn = task(uniqueName(), () => undefined, { limit: { rate: { limit: 1, per: "1h" } } });
  await startedWorker(queue, { tasks: [fn] });
  const id = await queue.enqueueTask(fn);
  await queue.awaitTaskCompletion(id);
  const [limit] = await queue.listLimits();
  expect(limit).toMatchObject({ fromCode: true, nextFreeAt: expect.any(Date) });
  expect(Number(limit?.nextFreeAt)).toBeGreaterThan(Date.now() + 3_000_000);
});
