/** The timer of `queue.watchTask`: a watch that waits has one, and a watch that has ended has none. */
import "../support/fakeable-timers.ts";
import { expect, onTestFinished, test, vi } from "vitest";
import { task } from "../../src/index.ts";
import { temporaryQueue, uniqueName } from "../support/queue.ts";

test("a watch that is ended while it waits leaves no timer, also beside a watch whose reader is busy", async () => {
  const queue = await temporaryQueue();
  const id = await queue.enqueueTask(task(uniqueName(), async () => "done"));
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const before = vi.getTimerCount();
  const [busy, events] = [queue.watchTask(id), queue.watchTask(id)];
  const first = Promise.all([busy.next(), events.next()]);
  await vi.runOnlyPendingTimersAsync();
  await first;
  const next = events.next();
  expect(vi.getTimerCount()).toBe(before + 1);
  await events.return();
  expect(await next).toEqual({ done: true, value: undefined });
  expect(vi.getTimerCount()).toBe(before);
});
