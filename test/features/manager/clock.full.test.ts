/** An agent whose time of day is an hour off: the database's clock decides what is due, silent or expired. */
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { addAgent } from "../../../src/features/manager/index.ts";
import { noClock, SteppedClock } from "../../chaos/stepped-clock.ts";
import { Harness } from "../../fixtures/harness.ts";
import { chore } from "../../fixtures/tasks.ts";
import { startedManager, urlOf } from "./setup.ts";

const hour = 3_600_000;
const reason = noClock();
if (reason !== undefined && process.env.DBQ_REQUIRE_ALL === "1") throw new Error(reason);

/** An agent process whose clock is so many milliseconds ahead, and whose token is valid for `expires`. */
async function setUp(offset: number, expires: string) {
  const harness = await Harness.open();
  onTestFinished(() => harness[Symbol.asyncDispose]());
  const { queue, folder } = harness;
  const manager = await startedManager(queue, { lease: "1s" });
  const clock = new SteppedClock(join(folder, "clock"), "agent");
  clock.step(offset);
  const { token } = await addAgent(queue, "off", { funcs: chore.taskName, expires });
  const options = { managers: urlOf(manager), token, concurrency: 4 };
  harness.start("agent-process.ts", [options], clock.how);
  const ready = await harness.eventLog.until("ready");
  expect(Math.abs(ready.at - Date.now() - offset)).toBeLessThan(60_000);
  return harness;
}

describe.skipIf(reason !== undefined).each([
  ["ahead", hour],
  ["behind", -hour],
])("an agent whose clock is an hour %s", (_, offset) => {
  it("keeps what runs beyond the lease, and its retries, snoozes and timeouts come in time", async () => {
    const { queue } = await setUp(offset, "30m");
    const began = Date.now();
    const ids = await queue.enqueueTasks([
      [chore, 2_500, "return"],
      [chore, 0, "throwOnce"],
      [chore, 0, "snoozeOnce"],
      [chore.with({ timeout: 500, maxRetries: 0 }), 5_000, "return"],
    ] as const);
    const [long, again, snoozed, slow] = await Promise.all(
      ids.map((id) => queue.awaitTaskCompletion(id, { timeout: "30s" })),
    );
    // Neither rescued nor handed back: claimed and settled once.
    expect(long).toMatchObject({ status: "completed", retryCount: 0, generationId: 3 });
    expect(again).toMatchObject({ status: "completed", retryCount: 1 });
    expect(snoozed).toMatchObject({ status: "completed", retryCount: 0 });
    expect(slow).toMatchObject({ status: "failed", error: { name: "TimeoutError" } });
    expect(Date.now() - began).toBeLessThan(20_000);
    for (const task of [long, again, snoozed, slow])
      expect(Math.abs((task?.finishedAt?.getTime() ?? 0) - Date.now())).toBeLessThan(60_000);
  });

  it("has a token that is valid until it expires by the database's clock, and no longer", async () => {
    const { queue, eventLog } = await setUp(offset, "8s");
    const id = await queue.enqueueTask(chore, 0, "return");
    expect((await queue.awaitTaskCompletion(id, { timeout: "7s" })).status).toBe("completed");
    const refused = await eventLog.until("error", ({ note }) => String(note).includes("refused the token"));
    expect(Math.abs(refused.at - offset - Date.now())).toBeLessThan(60_000);
    const late = await queue.enqueueTask(chore, 0, "return");
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await queue.getTask(late)).toMatchObject({ status: "pending" });
  }, 60_000);
});
