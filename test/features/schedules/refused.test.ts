import { expect, test } from "vitest";
import { type Queue, remoteTask, task } from "../../../src/index.ts";
import { temporaryQueue, uniqueName } from "../../support/queue.ts";

const report = remoteTask<() => void>("report");

test.each<[string, (queue: Queue) => Promise<unknown>, RegExp]>([
  [
    "startAt in milliseconds",
    (queue) => queue.schedule("a", { every: "1h", startAt: 0 as never }, report),
    /startAt: expected a Date, got 0/,
  ],
  [
    "startAt after the last moment",
    (queue) => queue.schedule("a", { every: "1h", startAt: new Date("9999-12-31T12:00Z") }, report),
    /startAt: expected a Date from 1970-01-01T00:00:00.000Z to 9999-12-31T00:00:00.000Z, got the Date 9999-12-31T12/,
  ],
  [
    "backfill from a number",
    (queue) => queue.backfillSchedule("a", 0 as never, new Date()),
    /from: expected a Date, got 0/,
  ],
  [
    "timeZone of an interval",
    (queue) => queue.schedule("a", { every: "1h", timeZone: "Europe/Berlin" }, report),
    /timeZone is for cron.*got every and timeZone "Europe\/Berlin"/,
  ],
  [
    "an expression without its object",
    (queue) => queue.schedule("a", "* * * * *" as never, report),
    /^schedule "a": expected an object such as \{ cron: "30 2 \* \* \*" \} or .*, got "\* \* \* \* \*"/,
  ],
  [
    "cron and a wrong every",
    (queue) => queue.schedule("a", { cron: "* * * * *", every: 5 } as never, report),
    /^schedule "a": expected one of cron and every, got both/,
  ],
  [
    "a schedule without a function",
    (queue) => queue.schedule("a", { every: "1s" }, undefined as unknown as typeof report),
    /^schedule "a": expected a registered function, got undefined/,
  ],
  [
    "waitUntil of the tasks",
    (queue) => queue.schedule("a", { every: "1h" }, report.with({ waitUntil: new Date(0) })),
    /the task has waitUntil, 1970/,
  ],
  [
    'onDuplicate "error" of the tasks',
    (queue) =>
      queue.schedule("a", { every: "1h" }, report.with({ uniqueKey: "k", onDuplicate: "error" as const })),
    /onDuplicate "error", and nobody hears the error/,
  ],
  [
    "a Date as the rate of a limit",
    (queue) => queue.setLimit("openai", { rate: new Date(0) as never }),
    /rate: expected an object of options, got the Date 1970/,
  ],
])("%s is refused, and nothing is written", async (_, act, message) => {
  const queue = await temporaryQueue();
  await expect(act(queue)).rejects.toThrow(message);
  await expect(act(queue)).rejects.toBeInstanceOf(TypeError);
  expect(await queue.listSchedules()).toEqual([]);
});

test("the error of an option group that throws has what it threw", async () => {
  const queue = await temporaryQueue();
  const fn = task(uniqueName(), () => undefined, {
    group: () => {
      throw new RangeError("boom");
    },
  });
  await expect(queue.enqueueTask(fn)).rejects.toThrow(/option group of task .* threw RangeError: boom$/);
});
