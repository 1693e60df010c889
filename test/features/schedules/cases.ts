/** What schedules promise, on any database. Most cases fire by hand, as the job of a worker does. */

import { sql } from "drizzle-orm";
import { describe, expect, onTestFinished, test } from "vitest";
import { firedChannel, skippedChannel } from "../../../src/events.ts";
import { findTasks } from "../../../src/features/operate/find.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import type { ScheduleStore } from "../../../src/features/schedules/contract.ts";
import { slotDue } from "../../../src/features/schedules/contract.ts";
import { Firing } from "../../../src/features/schedules/fire.ts";
import {
  currentTask,
  openQueue,
  type Queue,
  remoteTask,
  type ScheduleChanges,
  type ScheduleTiming,
  type TaskSlot,
  task,
  type Worker,
} from "../../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";

const minute = 60_000;
const hourly = { cron: "@hourly" } as const;

const report = remoteTask<(what?: string, options?: object) => void>("report");

const storeOf = (queue: Queue) => internalsOf(queue).store.schedules;

/** Fires all that is due, as one worker does. */
async function fire(queue: Queue): Promise<void> {
  const job = new Firing(storeOf(queue), { workerId: "w", onWork: () => undefined, report: () => undefined });
  while ((await job.run()) === 0);
}

/** Makes a schedule due since so many milliseconds. */
async function makeDue(queue: Queue, name: string, since: number): Promise<number> {
  let slot = 0;
  await storeOf(queue).change(name, (row, now) => {
    slot = now - since;
    return row ? { row: { ...row, nextAt: slot } } : {};
  });
  return slot;
}

async function rowOf(queue: Queue, name: string) {
  const [row] = (await storeOf(queue).list({ names: [name] })).schedules;
  return row as NonNullable<typeof row>;
}

const tasksOf = (queue: Queue, scheduleName: string) => queue.listTasks({ scheduleName, limit: 1_000 });
const slotsOf = async (queue: Queue, name: string) =>
  (await tasksOf(queue, name)).map(({ slot }) => Number(slot)).sort((a, b) => a - b);

const finish = async (queue: Queue, name: string) => {
  for (const { id } of await tasksOf(queue, name)) await queue.cancelTask(id);
};

/** The messages of a channel, until the test ends. */
function heard(channel: typeof firedChannel): Record<string, unknown>[] {
  const messages: Record<string, unknown>[] = [];
  const listener = (message: unknown) => messages.push(message as Record<string, unknown>);
  channel.subscribe(listener);
  onTestFinished(() => {
    channel.unsubscribe(listener);
  });
  return messages;
}

/** Sends SQL in a transaction of the app's, as any program may. */
async function rawSql(queue: Queue, text: string): Promise<void> {
  await queue.transaction((tx) => {
    const db = tx as { run?(query: unknown): unknown; execute?(query: unknown): unknown };
    const query = sql.raw(text);
    if (db.run) db.run(query);
    else return db.execute?.(query) as Promise<unknown>;
    return undefined;
  });
}

export function scheduleCases(database: string, target: () => Promise<string>): void {
  const opened = async () => temporaryQueue(undefined, await target());

  describe(`${database}: a definition`, () => {
    test("the first one writes a schedule whose first slot is in the future", async () => {
      const queue = await opened();
      const before = Date.now() - 1_000;
      const made = await queue.schedule(
        "nightly",
        { every: "30s", missed: { all: 3 }, overlap: "allow", jitter: "2s" },
        report.with({ priority: 8, kwargs: { deep: true } }),
        "all",
      );
      expect(made).toMatchObject({
        ...{
          name: "nightly",
          func: "report",
          args: ["all"],
          kwargs: { deep: true },
          cron: null,
          every: 30_000,
        },
        ...{
          timeZone: "UTC",
          missed: { all: 3 },
          overlap: "allow",
          jitter: 2_000,
          startAt: null,
          endAt: null,
        },
        ...{ lastSlot: null, lastTaskId: null, skipped: 0, pausedAt: null, problem: null },
      });
      expect(made.upcoming).toHaveLength(3);
      expect(made.nextAt).toEqual(made.upcoming[0]);
      expect(Number(made.nextAt)).toBeGreaterThanOrEqual(before + 30_000);
      expect(await queue.listSchedules()).toEqual([made]);
      expect(await queue.countTasks()).toMatchObject({ pending: 0, scheduled: 0 });
    });

    test("the same one again writes nothing", async () => {
      const queue = await opened();
      const timing = { cron: "30 2 * * *", timeZone: "Europe/Berlin", endAt: new Date("2099-01-01") };
      const write = () =>
        queue.schedule("a", timing, report.with({ meta: { by: "me" }, timeout: "5s" }), "all");
      await write();
      const before = await rowOf(queue, "a");
      await Promise.all([write(), write(), write()]);
      expect(await rowOf(queue, "a")).toEqual(before);
    });

    test("other arguments leave the slots as they are; another timing counts from now and is not due at once", async () => {
      const queue = await opened();
      const first = await queue.schedule("a", { every: "1h" }, report, "x");
      await storeOf(queue).change("a", (row, now) =>
        row ? { row: { ...row, anchorAt: now - 30 * minute, nextAt: now + 30 * minute } } : {},
      );
      const other = await queue.schedule("a", { every: "1h", overlap: "allow" }, report, "y");
      expect(other).toMatchObject({ args: ["y"], overlap: "allow", createdAt: first.createdAt });
      expect(Number(other.nextAt) - Date.now()).toBeLessThan(31 * minute);
      await makeDue(queue, "a", 10 * minute);
      const changed = await queue.schedule("a", { every: "2h" }, report, "y");
      expect(Number(changed.nextAt) - Date.now()).toBeGreaterThan(119 * minute);
      await fire(queue);
      expect(await tasksOf(queue, "a")).toEqual([]);
    });

    test("an edit changes what it names, and its timing counts from now", async () => {
      const queue = await openQueue(await target());
      await queue.schedule("a", { every: "1h", overlap: "allow", jitter: "5s" }, report, "all");
      const before = await rowOf(queue, "a");
      expect(await queue.editSchedule("a", { overlap: "skip" })).toMatchObject({
        overlap: "skip",
        jitter: 5_000,
      });
      expect(await rowOf(queue, "a")).toMatchObject({
        nextAt: before.nextAt,
        anchorAt: before.anchorAt,
        args: '["all"]',
      });
      const daily = { cron: "0 3 * * *", timeZone: "Europe/Berlin", endAt: new Date("2999-01-01") };
      expect(await queue.editSchedule("a", daily)).toMatchObject({ ...daily, every: null, overlap: "skip" });
      expect(await queue.editSchedule("a", { every: "2m", endAt: null })).toMatchObject({
        ...{ cron: null, every: 120_000, timeZone: "UTC", endAt: null, args: ["all"] },
      });
      expect(Number((await queue.getSchedule("a"))?.nextAt)).toBeLessThan(Date.now() + 3 * minute);
      await queue.close();
    });

    test("an edit that cannot be is refused, and changes nothing", async () => {
      const queue = await openQueue(await target());
      await queue.schedule("a", { every: "1h", startAt: new Date("2998-01-01") }, report);
      const before = await rowOf(queue, "a");
      for (const [changes, message] of [
        [{}, 'editSchedule: expected what is to change, such as { overlap: "skip" }, got nothing'],
        [{ cron: "@daily", every: "1h" }, "editSchedule: expected one of cron and every, got both"],
        [{ overlap: "queue" }, 'editSchedule: overlap: expected "skip" or "allow", got "queue"'],
        [{ timeZone: "Europe/Berlin" }, 'editSchedule "a": timeZone is for cron'],
        [
          { endAt: new Date("2997-01-01") },
          'editSchedule "a": endAt is 2997-01-01T00:00:00.000Z, before startAt',
        ],
        [{ cron: "0 0 30 2 *" }, 'editSchedule "a": cron: "0 0 30 2 *" is never due'],
      ] as const)
        await expect(queue.editSchedule("a", changes as ScheduleChanges)).rejects.toThrow(message);
      expect(await rowOf(queue, "a")).toEqual(before);
      await expect(queue.editSchedule("b", { overlap: "skip" })).rejects.toMatchObject({
        code: "DBQ_SCHEDULE_NOT_FOUND",
      });
      await queue.close();
    });

    test("many processes write the first one at once: there is one schedule", async () => {
      const url = await target();
      const queues = await Promise.all([1, 2, 3, 4].map(() => temporaryQueue(undefined, url)));
      const written = await Promise.all(queues.map((queue) => queue.schedule("a", hourly, report)));
      expect(new Set(written.map(({ createdAt }) => Number(createdAt))).size).toBe(1);
      expect(await rowOf(queues[0] as Queue, "a")).toMatchObject({ generationId: 1 });
    });

    test("a schedule whose startAt has passed is not due at once, and one whose endAt has passed is never due", async () => {
      const queue = await opened();
      const past = new Date(Date.now() - 5 * minute - 300);
      const startAt = await queue.schedule("a", { every: "1m", startAt: past }, report);
      expect((Number(startAt.nextAt) - Number(past)) % minute).toBe(0);
      expect(Number(startAt.nextAt)).toBeGreaterThan(Date.now() - 1_000);
      const over = await queue.schedule("b", { cron: "* * * * *", endAt: past }, report);
      expect(over).toMatchObject({ nextAt: null, upcoming: [], problem: null });
      await fire(queue);
      expect(await queue.countTasks()).toMatchObject({ pending: 0 });
    });
  });

  describe(`${database}: many definitions at once`, () => {
    const odd = report.with({ meta: { of: 'Hi 🌊 "you"' }, priority: 8, uniqueKey: "é" });
    const call = ["\\ \u0000 \ud83c\udf0a", { deep: [1, null] }] as const;
    const timing: ScheduleTiming = {
      cron: "30 2 * * MON",
      timeZone: "Europe/Berlin",
      missed: { all: 3 },
      overlap: "allow",
      jitter: "2s",
      startAt: new Date(86_400_000),
      endAt: new Date("2099-01-01"),
    };

    test("new ones, changed ones and those that stay are written as one by one", async () => {
      const queue = await opened();
      const before = await queue.schedule("stays", hourly, report, "x");
      await queue.schedule("changes", { every: "1h" }, report, "x");
      await queue.pauseSchedule("changes");
      const single = await queue.schedule("single", timing, odd, ...call);
      const written = await queue.schedules([
        ["new 🌊", timing, odd, ...call],
        ["stays", hourly, report, "x"],
        ["changes", timing, odd, ...call],
      ]);
      const { createdAt: _, updatedAt: __, name: ___, ...same } = single;
      const upcoming = await queue.getSchedule("new 🌊");
      expect(written.map(({ name }) => name)).toEqual(["new 🌊", "stays", "changes"]);
      expect(written[0]).toMatchObject({ ...same, nextAt: upcoming?.nextAt, upcoming: upcoming?.upcoming });
      expect(written[1]).toEqual(before);
      const { nextAt: ____, upcoming: _____, pausedAt: ______, ...kept } = same;
      expect(written[2]).toMatchObject({ ...kept, pausedAt: expect.any(Date) });
      const { options } = await rowOf(queue, "single");
      expect((await rowOf(queue, "new 🌊")).options).toBe(options);
      expect((await rowOf(queue, "changes")).options).toBe(options);
    });

    test("none is written when one is wrong, and the error names it", async () => {
      const queue = await opened();
      const list = (...more: unknown[]) =>
        queue.schedules([["a", hourly, report], more] as unknown as [
          [string, ScheduleTiming, typeof report],
        ]);
      for (const [entry, message] of [
        [["b", { cron: "0 0 31 2 *" }, report], 'schedule "b": cron: "0 0 31 2 *" is never due'],
        [["b", { ...hourly, timeZone: "Mars" }, report], 'schedule "b": timeZone: expected the name'],
        [["b", hourly, report, Number.NaN], /^schedule "b": .*args\[0\]/],
        [["b", hourly, () => 1], /^schedule "b": /],
        [["a", hourly, report], 'schedules: "a" is in the list twice'],
        [[" b", hourly, report], "a name without white space"],
      ] as const)
        await expect(list(...entry)).rejects.toThrow(message);
      await expect(queue.schedules([["a"], "b"] as never)).rejects.toThrow("schedules: [1]: expected [name");
      await expect(queue.schedules("a" as never)).rejects.toThrow("in an array");
      expect(await queue.listSchedules()).toEqual([]);
      expect(await queue.schedules([])).toEqual([]);
    });

    test("the same list again writes nothing, also at once in many processes and in any order", async () => {
      const url = await target();
      const queues = await Promise.all([1, 2, 3, 4].map(() => temporaryQueue(undefined, url)));
      const list = Array.from({ length: 40 }, (_, n) => [`s${n}`, hourly, report, "x"] as const);
      await Promise.all(queues.map((queue, i) => queue.schedules(i % 2 === 0 ? list : [...list].reverse())));
      const [queue] = queues as [Queue];
      const all = await queue.listSchedules();
      expect(all).toHaveLength(40);
      expect(await queue.schedules(list)).toEqual(
        list.map(([name]) => all.find((each) => each.name === name)),
      );
      for (const name of ["s0", "s39"]) expect(await rowOf(queue, name)).toMatchObject({ generationId: 1 });
    });

    test("inside of a transaction, they exist if and only if it commits", async () => {
      const queue = await opened();
      await expect(
        queue.transaction((_, q) => {
          const written = q.schedules([
            ["a", hourly, report],
            ["b", hourly, report],
          ]);
          const fail = () => {
            throw new Error("rolled back");
          };
          return written instanceof Promise ? written.then(fail) : fail();
        }),
      ).rejects.toThrow("rolled back");
      expect(await queue.getSchedule("a")).toBeUndefined();
      await queue.transaction((_, q) => q.schedules([["a", hourly, report]]));
      expect(await queue.getSchedule("a")).toMatchObject({ name: "a", func: "report" });
    });

    test("a list of names has pages in one order, and a prefix is no pattern", async () => {
      const queue = await opened();
      const names = ["A", "a", "a%b", "a_b", "aXb", "ab", "ab c", "é", "～", "🌊", "🌊x"];
      await queue.schedules(names.map((name) => [name, hourly, report] as const));
      const sorted = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
      const of = async (options?: Parameters<typeof queue.listSchedules>[0]) =>
        (await queue.listSchedules(options)).map(({ name }) => name);
      expect(await of()).toEqual(sorted);
      for (const prefix of [undefined, "a", "a%", "a_", "ab", "é", "🌊", "b"]) {
        const expected = sorted.filter((name) => prefix === undefined || name.startsWith(prefix));
        const pages: string[] = [];
        for (let page = await of({ ...(prefix && { prefix }), limit: 2 }); page.length > 0; ) {
          pages.push(...page);
          page = await of({ ...(prefix && { prefix }), limit: 2, after: page.at(-1) as string });
        }
        expect(pages).toEqual(expected);
        if (prefix) expect(await of({ prefix })).toEqual(expected);
        expect(await of({ after: sorted[4] as string })).toEqual(sorted.slice(5));
      }
      for (const wrong of [{ limit: 0 }, { limit: 1_001 }, { prefix: 7 }, { after: "" }, { first: 1 }])
        await expect(queue.listSchedules(wrong as never)).rejects.toThrow(TypeError);
    });
  });

  describe(`${database}: a slot`, () => {
    test("makes one task, with the options of the call, and moves the schedule on", async () => {
      const queue = await opened();
      const [fired, skipped] = [heard(firedChannel), heard(skippedChannel)];
      const fn = report.with({
        ...{
          priority: 8,
          queueName: "mail",
          maxRetries: 7,
          timeout: "5s",
          requestId: "r",
          meta: { by: "me" },
        },
        ...{ kwargs: { deep: true }, uniqueKey: "key" },
      });
      await queue.schedule("nightly", hourly, fn, "all");
      const slot = await makeDue(queue, "nightly", 500);
      await fire(queue);
      await fire(queue);
      const tasks = await tasksOf(queue, "nightly");
      expect(tasks).toMatchObject([
        {
          ...{
            func: "report",
            args: ["all"],
            kwargs: { deep: true },
            priority: 8,
            queueName: "mail",
            maxRetries: 7,
          },
          ...{ timeout: 5_000, requestId: "r", meta: { by: "me" }, uniqueKey: "key", status: "pending" },
          ...{ scheduleName: "nightly", slot: new Date(slot), traceContext: null },
        },
      ]);
      const [now] = await queue.listSchedules();
      expect(now).toMatchObject({ lastSlot: new Date(slot), lastTaskId: tasks[0]?.id, skipped: 0 });
      expect(Number(now?.nextAt)).toBeGreaterThan(Date.now() - 1_000);
      expect(fired).toEqual([
        { schedule: "nightly", func: "report", slot: new Date(slot), taskId: tasks[0]?.id },
      ]);
      expect(skipped).toEqual([]);
      expect(await queue.countTasks({ scheduleName: "nightly" })).toMatchObject({ pending: 1 });
      expect(await queue.countTasks({ scheduleName: "other" })).toMatchObject({ pending: 0 });
      const found = await findTasks(internalsOf(queue).store, { scheduleName: "nightly" }, { limit: 10 });
      // An index found it.
      expect([found.tasks.map(({ id }) => id), found.looked]).toEqual([[tasks[0]?.id], null]);
    });

    test("a delay of the call counts from the slot's task", async () => {
      const queue = await opened();
      await queue.schedule("a", hourly, report.with({ delay: "1h" }));
      await makeDue(queue, "a", 500);
      await fire(queue);
      expect((await tasksOf(queue, "a")).map(({ status }) => status)).toEqual(["scheduled"]);
    });

    test("four workers at once make one task of each of 300 schedules", async () => {
      const url = await target();
      const queues = await Promise.all([1, 2, 3, 4].map(() => temporaryQueue(undefined, url)));
      const [first] = queues as [Queue];
      await first.schedule("s0", { every: "1h" }, report);
      await makeDue(first, "s0", 1_000);
      const others = Array.from({ length: 299 }, (_, n) => `select 's${n + 1}' as name`).join(" union all ");
      await rawSql(
        first,
        `insert into dbq_schedules (name, func, every_ms, next_at)
          select n.name, s.func, s.every_ms, s.next_at from dbq_schedules s cross join (${others}) n`,
      );
      await Promise.all(queues.map(fire));
      const tasks = await first.listTasks({ limit: 1_000 });
      expect(tasks).toHaveLength(300);
      expect(new Set(tasks.map(({ scheduleName }) => scheduleName)).size).toBe(300);
      for (const { nextAt } of await first.listSchedules())
        expect(Number(nextAt)).toBeGreaterThan(Date.now());
    }, 60_000);

    test("the function reads its slot, and how late it runs", async () => {
      const queue = await opened();
      const seen: (TaskSlot | undefined)[] = [];
      const fn = task(uniqueName(), async () => {
        seen.push(currentTask().schedule);
      });
      await queue.schedule("a", hourly, fn);
      const slot = await makeDue(queue, "a", 3_000);
      await fire(queue);
      const worker = await startedWorker(queue, { tasks: [fn] });
      await worker.idle();
      await queue.awaitTaskCompletion(await queue.triggerSchedule("a"));
      await queue.awaitTaskCompletion(await queue.enqueueTask(fn));
      expect(seen).toEqual([
        { name: "a", slot: new Date(slot), late: expect.any(Number) },
        undefined,
        undefined,
      ]);
      expect(seen[0]?.late).toBeGreaterThanOrEqual(3_000);
      expect(seen[0]?.late).toBeLessThan(60_000);
    });

    test("a worker that does not know the function fires, soon after the slot", async () => {
      const queue = await opened();
      const worker: Worker = await startedWorker(queue, {
        tasks: [task(uniqueName(), async () => undefined)],
      });
      const fired = heard(firedChannel);
      const { nextAt } = await queue.schedule("a", { every: "1s" }, report);
      await expect.poll(() => fired.length, { timeout: 10_000, interval: 20 }).toBeGreaterThan(0);
      expect(Number(fired[0]?.slot)).toBe(Number(nextAt));
      const [made] = await tasksOf(queue, "a");
      // The aim is 50 ms: this catches a poll instead of a timer also on a busy machine.
      expect(Number(made?.createdAt) - Number(nextAt)).toBeLessThan(900);
      await worker.stop();
    });

    test("another worker learns of a schedule that was written after its start", async () => {
      const url = await target();
      const [writer, other] = [await temporaryQueue(undefined, url), await temporaryQueue(undefined, url)];
      await startedWorker(other, { tasks: [task(uniqueName(), async () => undefined)] });
      await writer.schedule("a", { every: "1s" }, report);
      await expect
        .poll(async () => (await tasksOf(writer, "a")).length, { timeout: 10_000, interval: 50 })
        .toBeGreaterThan(0);
    });

    test("a slot whose uniqueKey another task holds makes none, and counts as skipped", async () => {
      const queue = await opened();
      const skipped = heard(skippedChannel);
      const holder = await queue.enqueueTask(report.with({ uniqueKey: "key" }), "by hand");
      await queue.schedule("a", hourly, report.with({ uniqueKey: "key" }));
      await makeDue(queue, "a", 1_000);
      await fire(queue);
      expect(await tasksOf(queue, "a")).toEqual([]);
      expect(await rowOf(queue, "a")).toMatchObject({ skipped: 1, lastTaskId: null });
      expect(skipped).toMatchObject([{ schedule: "a", reason: "duplicate", count: 1 }]);
      expect(await queue.triggerSchedule("a")).toBe(holder);
    });

    test("what the call says of its uniqueKey holds for each slot", async () => {
      const queue = await opened();
      const fn = report.with({ uniqueKey: "key", uniqueFor: "1h" });
      await queue.schedule("a", { ...hourly, overlap: "allow" }, fn);
      await makeDue(queue, "a", 2_000);
      await fire(queue);
      await finish(queue, "a");
      await makeDue(queue, "a", 1_000);
      await fire(queue);
      expect(await tasksOf(queue, "a")).toMatchObject([
        { uniqueUntil: expect.any(Date), status: "cancelled" },
      ]);
      expect(await rowOf(queue, "a")).toMatchObject({ skipped: 1 });
    });

    test("after endAt the schedule stays, and is never due", async () => {
      const queue = await opened();
      await queue.schedule("a", { every: "1s", endAt: new Date(Date.now() + minute) }, report);
      const slot = await makeDue(queue, "a", 1_000);
      await storeOf(queue).change("a", (row) => (row ? { row: { ...row, endAt: slot } } : {}));
      await fire(queue);
      expect(await slotsOf(queue, "a")).toEqual([slot]);
      expect(await queue.listSchedules()).toMatchObject([{ nextAt: null, upcoming: [], problem: null }]);
    });
  });

  describe(`${database}: slots that nobody was there for`, () => {
    const missed = async (timing: Omit<ScheduleTiming, "cron" | "every">) => {
      const queue = await opened();
      await queue.schedule("a", { every: "1m", ...timing }, report);
      const since = await makeDue(queue, "a", 10 * minute + 5_000);
      // The slots are a minute apart from this one on: ten are more than 60 s late, and one is not.
      await storeOf(queue).change("a", (row) => (row ? { row: { ...row, anchorAt: since } } : {}));
      return { queue, slots: Array.from({ length: 11 }, (_, n) => since + n * minute) };
    };

    test("one: the latest of them makes a task, and so does a slot at most 60 s late", async () => {
      const { queue, slots } = await missed({ overlap: "allow" });
      await fire(queue);
      expect(await slotsOf(queue, "a")).toEqual(slots.slice(-2));
      expect(await rowOf(queue, "a")).toMatchObject({
        skipped: 9,
        nextAt: (slots.at(-1) as number) + minute,
      });
    });

    test("one, with overlap skip: the latest of them is the only task", async () => {
      const { queue, slots } = await missed({});
      const skipped = heard(skippedChannel);
      await fire(queue);
      expect(await slotsOf(queue, "a")).toEqual(slots.slice(-2, -1));
      expect(await rowOf(queue, "a")).toMatchObject({ skipped: 10 });
      expect(skipped).toMatchObject([
        { reason: "missed", count: 9, slot: new Date(slots[0] as number) },
        { reason: "overlap", count: 1, slot: new Date(slots.at(-1) as number) },
      ]);
    });

    test("skip: none makes a task but the slot at most 60 s late", async () => {
      const { queue, slots } = await missed({ missed: "skip" });
      await fire(queue);
      expect(await slotsOf(queue, "a")).toEqual(slots.slice(-1));
      expect(await rowOf(queue, "a")).toMatchObject({ skipped: 10 });
    });

    test("{ all: n }: each makes a task, the latest n at most", async () => {
      for (const [n, count] of [
        [3, 3],
        [50, 10],
      ] as const) {
        const { queue, slots } = await missed({ missed: { all: n } });
        await fire(queue);
        expect(await slotsOf(queue, "a")).toEqual(slots.slice(0, -1).slice(-count));
      }
    });
  });

  describe(`${database}: overlap`, () => {
    test("skip: no second task while one has not finished, also a triggered one", async () => {
      const queue = await opened();
      await queue.schedule("a", hourly, report);
      await queue.schedule("b", hourly, report);
      await queue.triggerSchedule("a");
      for (const name of ["a", "b"]) await makeDue(queue, name, 1_000);
      await fire(queue);
      expect(await slotsOf(queue, "b")).toHaveLength(1);
      expect(await tasksOf(queue, "a")).toMatchObject([{ slot: null }]);
      expect(await rowOf(queue, "a")).toMatchObject({ skipped: 1, lastSlot: null });
      await finish(queue, "a");
      await makeDue(queue, "a", 900);
      await fire(queue);
      expect(await tasksOf(queue, "a")).toHaveLength(2);
    });

    test("allow: each slot makes a task", async () => {
      const queue = await opened();
      await queue.schedule("a", { ...hourly, overlap: "allow" }, report);
      for (const since of [3_000, 2_000, 1_000]) {
        await makeDue(queue, "a", since);
        await fire(queue);
      }
      expect(await tasksOf(queue, "a")).toHaveLength(3);
      expect(await rowOf(queue, "a")).toMatchObject({ skipped: 0 });
    });
  });

  describe(`${database}: operating`, () => {
    test("a paused schedule makes no tasks, and resumed it does not make up for them", async () => {
      const queue = await opened();
      await queue.schedule("a", { every: "1m" }, report);
      const paused = await queue.pauseSchedule("a");
      expect(paused).toMatchObject({ pausedAt: expect.any(Date), nextAt: null, upcoming: [] });
      expect(await queue.pauseSchedule("a")).toEqual(paused);
      await makeDue(queue, "a", 10 * minute);
      await fire(queue);
      expect(await tasksOf(queue, "a")).toEqual([]);
      const resumed = await queue.resumeSchedule("a");
      expect(resumed.pausedAt).toBeNull();
      expect(Number(resumed.nextAt)).toBeGreaterThan(Date.now() - 1_000);
      await fire(queue);
      expect(await tasksOf(queue, "a")).toEqual([]);
      expect(await queue.resumeSchedule("a")).toEqual(resumed);
    });

    test("a trigger makes one task now, also of a paused schedule", async () => {
      const queue = await opened();
      const { nextAt } = await queue.schedule("a", hourly, report.with({ priority: 9 }), "x");
      const id = await queue.triggerSchedule("a");
      await queue.pauseSchedule("a");
      const second = await queue.triggerSchedule("a");
      expect(await tasksOf(queue, "a")).toMatchObject([
        { id: second, slot: null, scheduleName: "a" },
        { id, slot: null, args: ["x"], priority: 9 },
      ]);
      expect(await rowOf(queue, "a")).toMatchObject({
        lastTaskId: second,
        lastSlot: null,
        nextAt: Number(nextAt),
      });
    });

    test("a backfill makes the tasks of the slots between two times, both included, once", async () => {
      const queue = await opened();
      await queue.schedule("a", { cron: "@hourly", timeZone: "Europe/Berlin" }, report);
      const [from, to] = [new Date("2026-01-01T00:00Z"), new Date("2026-01-01T03:00Z")];
      const half = await queue.backfillSchedule("a", from, new Date("2026-01-01T01:30Z"));
      expect(half).toHaveLength(2);
      const [one, other] = await Promise.all([
        queue.backfillSchedule("a", from, to),
        queue.backfillSchedule("a", from, to),
      ]);
      expect([...one, ...other]).toHaveLength(2);
      const hours = [0, 1, 2, 3].map((n) => Number(from) + n * 60 * minute);
      expect(await slotsOf(queue, "a")).toEqual(hours);
      expect(await queue.backfillSchedule("a", from, to)).toEqual([]);
    });

    test("a slot that a backfill has made is not made again when it is due", async () => {
      const queue = await opened();
      await queue.schedule("a", { every: "1h", overlap: "allow" }, report);
      const slot = await makeDue(queue, "a", 1_000);
      await storeOf(queue).change("a", (row) => (row ? { row: { ...row, anchorAt: slot } } : {}));
      expect(await queue.backfillSchedule("a", new Date(slot), new Date(slot))).toHaveLength(1);
      await fire(queue);
      expect(await slotsOf(queue, "a")).toEqual([slot]);
      expect(await rowOf(queue, "a")).toMatchObject({ skipped: 0 });
    });

    test("a removed schedule leaves its tasks", async () => {
      const queue = await opened();
      await queue.schedule("a", hourly, report);
      const id = await queue.triggerSchedule("a");
      expect(await queue.removeSchedule("a")).toBeUndefined();
      expect(await queue.listSchedules()).toEqual([]);
      expect(await queue.getTask(id)).toMatchObject({ scheduleName: "a", status: "pending" });
      for (const call of [
        queue.removeSchedule,
        queue.pauseSchedule,
        queue.resumeSchedule,
        queue.triggerSchedule,
      ])
        await expect(call("a")).rejects.toMatchObject({ code: "DBQ_SCHEDULE_NOT_FOUND", scheduleName: "a" });
      await expect(queue.backfillSchedule("a", new Date(0), new Date(1))).rejects.toMatchObject({
        code: "DBQ_SCHEDULE_NOT_FOUND",
      });
    });

    test("the list is in the order of names, and names are compared byte by byte", async () => {
      const queue = await opened();
      for (const name of ["b", "A", "a", "ä", "B"]) await queue.schedule(name, hourly, report);
      expect((await queue.listSchedules()).map(({ name }) => name)).toEqual(["A", "B", "a", "b", "ä"]);
    });
  });

  describe(`${database}: inside of a transaction`, () => {
    test("a schedule exists if and only if the transaction commits", async () => {
      const queue = await opened();
      const undone = queue.transaction((_, q) => {
        const written = q.schedule("a", hourly, report);
        if (written instanceof Promise)
          return written.then(() => {
            throw new Error("undo");
          });
        throw new Error("undo");
      });
      await expect(undone).rejects.toThrow("undo");
      expect(await queue.listSchedules()).toEqual([]);
      const written = await queue.transaction((_, q) => q.schedule("a", hourly, report));
      expect(await queue.listSchedules()).toEqual([written]);
    });

    test("each method is there, and sees what the transaction has written", async () => {
      const queue = await opened();
      await queue.schedule("a", { every: "1h" }, report);
      const { internals } = { internals: internalsOf(queue).store.synchronous };
      const [from, to] = [new Date(Date.now() + minute), new Date(Date.now() + 61 * minute)];
      // The same steps, on values or on promises.
      function* steps(
        q: Parameters<Parameters<Queue["transaction"]>[0]>[1],
      ): Generator<unknown, unknown[], never> {
        const paused = yield q.pauseSchedule("a");
        const resumed = yield q.resumeSchedule("a");
        const id = yield q.triggerSchedule("a");
        const ids = yield q.backfillSchedule("a", from, to);
        const listed = yield q.listSchedules();
        const removed = yield q.removeSchedule("a");
        return [paused, resumed, id, ids, listed, removed];
      }
      const results = await queue.transaction((_, q) => {
        const run = steps(q as never);
        if (internals) {
          let next = run.next();
          while (!next.done) next = run.next(next.value as never);
          return next.value;
        }
        return (async () => {
          let next = run.next();
          while (!next.done) next = run.next((await next.value) as never);
          return next.value;
        })();
      });
      const [paused, resumed, id, ids, listed] = results as unknown[];
      expect(paused).toMatchObject({ pausedAt: expect.any(Date) });
      expect(resumed).toMatchObject({ pausedAt: null });
      expect(listed).toMatchObject([{ name: "a", lastTaskId: id }]);
      expect(ids).toHaveLength(1);
      expect(await queue.listSchedules()).toEqual([]);
      expect(await tasksOf(queue, "a")).toHaveLength(2);
    });
  });

  describe(`${database}: a row that something else has written`, () => {
    test.each([
      ["cron = 'every day'", /expected 5 fields/],
      ["cron = '61 * * * *'", /no cron expression/],
      ["cron = '0 0 31 2 *'", /never due/],
      ["cron = null", /one of cron and every, got neither/],
      ["every_ms = 5000", /one of cron and every, got both/],
      ["cron = null, every_ms = 5", /every_ms: expected a whole number/],
      ["time_zone = 'Mars/Olympus'", /time_zone: expected the name of a time zone/],
      ["missed = 'often'", /missed: expected/],
      ["overlap = 'maybe'", /overlap: expected/],
      ["jitter_ms = -5", /jitter_ms: expected/],
      ["args = '{}'", /args: expected a JSON array/],
      ['options = \'{"priority":"high"}\'', /options: priority: expected a whole number/],
      ["options = '[]'", /options: expected a JSON object/],
      ["options = '{\"priority\":99999999999}'", /options: priority: expected a whole number from/],
      ["options = '{\"priority\":null}'", /options: priority: expected a whole number, got null/],
      ["options = '{\"maxRetries\":-1}'", /options: maxRetries: expected a whole number from 0/],
      ["options = '{\"timeout\":-1}'", /options: timeout: expected a duration/],
      ['options = \'{"groupKey":""}\'', /options: groupKey: expected a well-formed string/],
      ['options = \'{"unique":{"until":"never"}}\'', /options: unique: until: expected/],
    ])("%s stops only itself, and the list says why", async (set, problem) => {
      const queue = await opened();
      await queue.schedule("a", hourly, report);
      await queue.schedule("b", hourly, report);
      await rawSql(queue, `update dbq_schedules set ${set} where name = 'a'`);
      await makeDue(queue, "a", 2_000);
      await makeDue(queue, "b", 1_000);
      await fire(queue);
      expect(await tasksOf(queue, "a")).toEqual([]);
      expect(await tasksOf(queue, "b")).toHaveLength(1);
      const [broken, fine] = await queue.listSchedules();
      expect(fine?.problem).toBeNull();
      expect(broken).toMatchObject({ nextAt: null, upcoming: [], problem: expect.stringMatching(problem) });
      await expect(queue.triggerSchedule("a")).rejects.toThrow(/is broken/);
      expect(await queue.schedule("a", hourly, report)).toMatchObject({
        problem: null,
        nextAt: expect.any(Date),
      });
    });

    /** Whole numbers that columns of 64 bits take, and that JavaScript has no number for; on SQLite a text in their place. */
    const unreadable = [
      ...["generation_id", "last_task_id", "every_ms", "jitter_ms"].map(
        (column) => `${column} = 9223372036854775807`,
      ),
      "generation_id = 9007199254740993",
      ...(database === "SQLite"
        ? ["generation_id", "last_task_id", "every_ms", "jitter_ms", "skipped", "next_at", "last_slot"].map(
            (column) => `${column} = 'many'`,
          )
        : []),
    ];

    test.each(unreadable)(
      "%s keeps nobody from pausing, resuming, rewriting and removing it",
      async (set) => {
        const queue = await opened();
        const daily = { every: "24h" } as const;
        await queue.schedule("a", daily, report);
        const spoil = () => rawSql(queue, `update dbq_schedules set ${set} where name = 'a'`);
        await spoil();
        expect((await queue.pauseSchedule("a")).pausedAt).toBeInstanceOf(Date);
        await spoil();
        expect((await queue.resumeSchedule("a")).pausedAt).toBeNull();
        await spoil();
        expect(await queue.editSchedule("a", { every: "2h" })).toMatchObject({ every: 7_200_000 });
        await spoil();
        const mended = await queue.schedule("a", daily, report);
        expect(mended).toMatchObject({ problem: null, nextAt: expect.any(Date) });
        expect(await queue.triggerSchedule("a")).toEqual(expect.any(Number));
        await spoil();
        await queue.removeSchedule("a");
        expect(await queue.listSchedules()).toEqual([]);
      },
    );

    test.each([
      ["cron = 'never'", "cron = '0 0 1 1 *'"],
      ["args = '{}'", "args = '[]'"],
    ])("resumed with the fault %s and then mended, it fires at its own slots only", async (fault, mend) => {
      const queue = await opened();
      const row = (set: string) => rawSql(queue, `update dbq_schedules set ${set} where name = 'a'`);
      await queue.schedule("a", { cron: "0 0 1 1 *" }, report);
      await queue.pauseSchedule("a");
      await row(fault);
      expect((await queue.resumeSchedule("a")).problem).not.toBeNull();
      await row(mend);
      await fire(queue);
      expect(await tasksOf(queue, "a")).toEqual([]);
      const { nextAt, problem } = (await queue.listSchedules())[0] ?? {};
      expect([problem, nextAt?.getUTCMonth(), nextAt?.getUTCDate()]).toEqual([null, 0, 1]);
    });

    test("a pause that is written again as an unreadable time stays a pause", async () => {
      const queue = await opened();
      await queue.schedule("a", hourly, report);
      await queue.pauseSchedule("a");
      if (database === "SQLite")
        await rawSql(queue, "update dbq_schedules set paused_at = 'soon' where name = 'a'");
      expect((await queue.schedule("a", hourly, report)).pausedAt).toBeInstanceOf(Date);
    });

    test("when a batch fails, each schedule that is due fires by itself, and still skips a slot that overlaps", async () => {
      const queue = await opened();
      for (const name of ["a", "b"]) await queue.schedule(name, hourly, report);
      await queue.triggerSchedule("a");
      for (const name of ["a", "b"]) await makeDue(queue, name, 1_000);
      const store: ScheduleStore = {
        ...storeOf(queue),
        fire: (limit, decide, name) =>
          name === undefined
            ? Promise.reject(new Error("bad row"))
            : storeOf(queue).fire(limit, decide, name),
      };
      expect(
        await new Firing(store, { workerId: "w", onWork: () => undefined, report: () => undefined }).run(),
      ).toBe(0);
      expect(await tasksOf(queue, "a")).toMatchObject([{ slot: null }]);
      expect(await rowOf(queue, "a")).toMatchObject({ skipped: 1 });
      expect(await slotsOf(queue, "b")).toHaveLength(1);
    });

    test("a schedule without next_at that is not over says so; resume and the same definition mend it", async () => {
      const queue = await opened();
      const lose = () => rawSql(queue, "update dbq_schedules set next_at = null where name = 'a'");
      await queue.schedule("a", hourly, report);
      await lose();
      const [lost] = await queue.listSchedules();
      expect(lost).toMatchObject({ nextAt: null, problem: expect.stringMatching(/next_at is null/) });
      const mended = { nextAt: expect.any(Date), problem: null };
      expect(await queue.resumeSchedule("a")).toMatchObject(mended);
      await lose();
      expect(await queue.schedule("a", hourly, report)).toMatchObject(mended);
    });

    test("a mended row goes on by itself", async () => {
      const queue = await opened();
      await queue.schedule("a", hourly, report);
      await rawSql(queue, "update dbq_schedules set cron = 'x' where name = 'a'");
      await makeDue(queue, "a", 2_000);
      await fire(queue);
      await rawSql(queue, "update dbq_schedules set cron = '@hourly' where name = 'a'");
      expect(await rowOf(queue, "a")).toMatchObject({ nextAt: expect.any(Number) });
      await makeDue(queue, "a", 2_000);
      await fire(queue);
      expect(await tasksOf(queue, "a")).toHaveLength(1);
    });
  });

  describe(`${database}: a broken row that was put off, and is mended by hand`, () => {
    /** Breaks the schedule, has a worker put it off, and mends it. As if the worker had looked a minute ago. */
    async function putOff(queue: Queue, broken: string, mended: string): Promise<void> {
      await rawSql(queue, `update dbq_schedules set ${broken} where name = 'a'`);
      await makeDue(queue, "a", 1_000);
      await fire(queue);
      await rawSql(queue, `update dbq_schedules set ${mended} where name = 'a'`);
      const earlier =
        { SQLite: "60000", Postgres: "interval '60 seconds'" }[database] ?? "interval 60 second";
      const columns = ["next_at", "updated_at"].map((column) => `${column} = ${column} - ${earlier}`);
      await rawSql(queue, `update dbq_schedules set ${columns.join(", ")} where name = 'a'`);
    }

    const newYear = Date.UTC(new Date().getUTCFullYear() + 1, 0, 1);

    test("a row that was put off waits for the next slot of its cron expression", async () => {
      const queue = await opened();
      await queue.schedule("a", hourly, report);
      await putOff(queue, "cron = 'x'", "cron = '@yearly'");
      const [listed] = await queue.listSchedules();
      expect(Number(listed?.nextAt)).toBe(newYear);
      await fire(queue);
      expect(await tasksOf(queue, "a")).toEqual([]);
      expect(await rowOf(queue, "a")).toMatchObject({ nextAt: newYear, skipped: 0, lastSlot: null });
    });

    test("a row that was put off waits for the next slot of its interval", async () => {
      const queue = await opened();
      await queue.schedule("a", { every: "1h" }, report);
      let anchorAt = 0;
      await storeOf(queue).change("a", (row, now) => {
        anchorAt = now - 30 * minute;
        return row ? { row: { ...row, anchorAt } } : {};
      });
      await putOff(queue, "every_ms = 5", "every_ms = 3600000");
      await fire(queue);
      expect(await tasksOf(queue, "a")).toEqual([]);
      expect((await rowOf(queue, "a")).nextAt).toBe(anchorAt + 60 * minute);
    });

    test("a row that was put off fires the slots that are due since the last look", async () => {
      const queue = await opened();
      await queue.schedule("a", { cron: "* * * * * *", overlap: "allow" }, report);
      await putOff(queue, "cron = 'x'", "cron = '* * * * * *'");
      await fire(queue);
      const slots = await slotsOf(queue, "a");
      expect(slots.length).toBeGreaterThanOrEqual(59);
      expect(slots.filter((slot) => slot % 1_000 !== 0)).toEqual([]);
    });

    test("a row that was put off is triggered and defined anew without another slot", async () => {
      const queue = await opened();
      const yearly = { cron: "@yearly" };
      await queue.schedule("a", yearly, report);
      await putOff(queue, "options = '[]'", "options = '{}'");
      await queue.triggerSchedule("a");
      expect((await rowOf(queue, "a")).nextAt).toBe(newYear);
      await putOff(queue, "options = '[]'", "options = '[]'");
      expect(Number((await queue.schedule("a", yearly, report)).nextAt)).toBe(newYear);
    });

    test("a next_at that is set by hand after the mend is a slot", async () => {
      const queue = await opened();
      await queue.schedule("a", hourly, report);
      await putOff(queue, "cron = 'x'", "cron = '@yearly'");
      const ago = { SQLite: "- 5000", Postgres: "- interval '5 seconds'" }[database] ?? "- interval 5 second";
      await rawSql(queue, `update dbq_schedules set next_at = next_at ${ago} where name = 'a'`);
      const { nextAt } = await rowOf(queue, "a");
      await fire(queue);
      expect(await slotsOf(queue, "a")).toEqual([nextAt]);
    });
  });

  describe(`${database}: the sleep of a worker`, () => {
    test("a look at what is due tells when the next schedule is, and nothing without one", async () => {
      const queue = await opened();
      const { store } = internalsOf(queue);
      expect(await store.promote(10)).toEqual({ promoted: 0, nextDue: undefined });
      await queue.schedule("a", { every: "1h" }, report);
      await queue.schedule("b", { every: "30m" }, report);
      const nextSlot = slotDue.of(await store.promote(10));
      expect(nextSlot).toBeGreaterThan(28 * minute);
      expect(nextSlot).toBeLessThanOrEqual(30 * minute);
      await queue.pauseSchedule("b");
      expect(slotDue.of(await store.promote(10))).toBeGreaterThan(58 * minute);
    });
  });

  test(`${database}: a queue that is opened again has its schedules`, async () => {
    const url = await target();
    const first = await openQueue(url);
    const written = await first.schedule("a", { every: "1h" }, report);
    await first.close();
    const second = await temporaryQueue(undefined, url);
    expect(await second.listSchedules()).toEqual([written]);
  });
}
