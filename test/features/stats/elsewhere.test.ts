/** Tasks that no worker runs are counted too: those that a drain sends, and those that agents run for a Manager. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { remoteTask, task } from "../../../src/index.ts";
import { temporaryQueue, uniqueName } from "../../support/queue.ts";
import { Broker, newDrain, sentBy } from "../drain/broker.ts";
import { startedAgent, startedManager, tokenFor } from "../manager/setup.ts";

test("a drain counts what it has sent, and does not know how long that runs", async () => {
  const queue = await temporaryQueue();
  const { carrier } = newDrain(queue, { to: new Broker() });
  const sent = sentBy(carrier, 2);
  await queue.enqueueTasks([[remoteTask("mail")], [remoteTask("mail")]] as const);
  await carrier.start();
  await sent;
  await carrier.stop();
  const none = { p50: null, p95: null, p99: null };
  expect(await queue.functionStats()).toMatchObject([{ func: "mail", count: 2, failed: 0, run: none }]);
});

test("a Manager counts what its agents have settled, and how long they had the tasks", async () => {
  const queue = await temporaryQueue();
  const [fine, bad] = [uniqueName("fine"), uniqueName("bad")];
  const slow = task(fine, async () => void (await sleep(30)));
  const failing = task(bad, () => Promise.reject(new Error("no luck")), { maxRetries: 0 });
  const manager = await startedManager(queue);
  await startedAgent([manager], { token: await tokenFor(queue, [fine, bad]), tasks: [slow, failing] });
  const ids = await queue.enqueueTasks([[slow], [failing]] as const);
  for (const id of ids) await queue.awaitTaskCompletion(id, { timeout: "20s" });
  await manager.stop();
  const found = await queue.functionStats();
  expect(found.map(({ func, count, failed }) => [func, count, failed]).sort()).toEqual([
    [bad, 1, 1],
    [fine, 1, 0],
  ]);
  expect(found.find(({ func }) => func === fine)?.run.p50).toBeGreaterThanOrEqual(27);
});
