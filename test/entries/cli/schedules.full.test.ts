import { sql } from "drizzle-orm";
import { expect, test } from "vitest";
import { remoteTask, type Schedule } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { folderWithQueue } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

test("add writes a schedule with every option, and changes the one of this name", async () => {
  const folder = temporaryFolder();
  const timing = ["--every", "30s", "--missed", "3", "--overlap", "allow", "--jitter", "2s"];
  const limits = ["--start-at", "2099-01-01", "--end-at", "2099-02-01T12:00:00Z"];
  const options = ["--priority", "8", "--queue", "mail", "--kwargs", '{"deep": true}', "--meta", "by=me"];
  const added = await dbqJson<Schedule>(folder, [
    "schedule",
    "add",
    "a",
    "report",
    '["all"]',
    ...timing,
    ...limits,
    ...options,
  ]);
  expect(added).toMatchObject({
    ...{
      name: "a",
      func: "report",
      args: ["all"],
      kwargs: { deep: true },
      every: 30_000,
      cron: null,
      jitter: 2_000,
    },
    ...{
      missed: { all: 3 },
      overlap: "allow",
      startAt: "2099-01-01T00:00:00.000Z",
      endAt: "2099-02-01T12:00:00.000Z",
    },
  });
  const changed = await dbq(folder, [
    "schedule",
    "add",
    "a",
    "report",
    "--cron",
    "30 2 * * *",
    "--time-zone",
    "Europe/Berlin",
  ]);
  expect(changed).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^a runs report every day at 02:30: next at /),
  });
  expect(await dbqJson<Schedule[]>(folder, ["schedules"])).toMatchObject([
    { cron: "30 2 * * *", args: [], every: null },
  ]);
});

test("the list has pages, of the schedules whose names begin with a prefix", async () => {
  const { folder, queue } = await folderWithQueue();
  const names = ["a%1", "a1", "a2", "a3", "b"];
  await queue.schedules(names.map((name) => [name, { cron: "@daily" }, remoteTask("report")] as const));
  const listed = async (...options: string[]) =>
    (await dbqJson<Schedule[]>(folder, ["schedules", ...options])).map(({ name }) => name);
  expect(await listed()).toEqual(names);
  expect(await listed("--prefix", "a%")).toEqual(["a%1"]);
  expect(await listed("--prefix", "a", "--limit", "2")).toEqual(["a%1", "a1"]);
  expect(await listed("--prefix", "a", "--limit", "2", "--after", "a1")).toEqual(["a2", "a3"]);
});

test("edit changes the timing, and keeps the rest", async () => {
  const folder = temporaryFolder();
  await dbq(folder, ["schedule", "add", "a", "report", "[1]", "--every", "1h", "--end-at", "2999-01-01"]);
  const edited = await dbq(folder, [
    "schedule",
    "edit",
    "a",
    "--overlap",
    "allow",
    "--end-at",
    "null",
    "--json",
  ]);
  expect(JSON.parse(edited.out)).toMatchObject({
    every: 3_600_000,
    overlap: "allow",
    endAt: null,
    args: [1],
  });
  const said = await dbq(folder, ["schedule", "edit", "a", "--cron", "0 3 * * *"]);
  expect(said.out).toMatch(/^a runs report every day at 03:00: next at /);
  expect(await dbq(folder, ["schedule", "edit", "a"])).toMatchObject({ code: 2 });
  expect((await dbq(folder, ["schedule", "edit", "b", "--overlap", "skip"])).code).toBe(1);
});

test("an expression without words is shown as it is", async () => {
  const added = await dbq(temporaryFolder(), ["schedule", "add", "a", "report", "--cron", "*/7 * * * *"]);
  expect(added).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^a runs report \*\/7 \* \* \* \*: next/),
  });
});

test("run, pause, resume and remove act on a schedule; list shows its tasks", async () => {
  const { folder, queue } = await folderWithQueue();
  await dbq(folder, ["schedule", "add", "a", "report", "--cron", "@daily"]);
  const run = await dbq(folder, ["schedule", "run", "a"]);
  expect(run).toMatchObject({ code: 0, out: "1\n" });
  expect(await dbqJson<{ id: number }[]>(folder, ["list", "--schedule", "a"])).toMatchObject([
    { id: 1, scheduleName: "a" },
  ]);
  expect((await dbq(folder, ["show", "1"])).out).toMatch(/schedule\s+a\n/);
  expect((await dbq(folder, ["schedules"])).out).toMatch(
    /^a +report +every day at 00:00 +UTC +\S.* +1 +pending/m,
  );
  expect(await dbq(folder, ["schedule", "pause", "a"])).toMatchObject({ code: 0, out: "paused a\n" });
  expect((await dbq(folder, ["schedules"])).out).toContain("paused");
  expect((await dbq(folder, ["stats"])).out).toContain("schedules: 1 (paused: 1, broken: 0)");
  expect((await dbq(folder, ["schedule", "resume", "a"])).out).toMatch(/^resumed a: next at /);
  expect(await dbq(folder, ["schedule", "remove", "a"])).toMatchObject({ code: 0, out: "removed a\n" });
  expect(await queue.listSchedules()).toEqual([]);
  const gone = await dbq(folder, ["schedule", "pause", "a"]);
  expect(gone).toMatchObject({ code: 1, err: 'error: there is no schedule "a"\n' });
  const asJson = await dbq(folder, ["schedule", "remove", "a", "--json"]);
  expect(JSON.parse(asJson.err)).toMatchObject({
    error: { code: "DBQ_SCHEDULE_NOT_FOUND", scheduleName: "a" },
  });
});

test.each([
  [["--cron", "61 * * * *"], /no cron expression/],
  [["--cron", "0 0 31 2 *"], /never due/],
  [[], /one of cron and every, got neither/],
  [["--every", "10ms"], /at least 1000 ms/],
  [["--every", "1s", "--time-zone", "Mars"], /the name of a time zone/],
  [["--every", "1s", "--start-at", "tomorrow"], /expected a time such as/],
  [["--every", "1s", "--start-at", "2027-02-30"], /a day that exists, such as .*, got "2027-02-30"/],
  [["--every", "1s", "--end-at", "2027-04-31T12:00:00Z"], /a day that exists.*, got "2027-04-31T12:00:00Z"/],
  [["--every", "1s", "--missed", "often"], /one, skip, or a number/],
])("wrong usage %j is refused with exit code 2", async (options, says) => {
  const refused = await dbq(temporaryFolder(), ["schedule", "add", "a", "report", ...options]);
  expect(refused).toMatchObject({ code: 2, out: "", err: expect.stringMatching(says) });
});

test("doctor names a broken schedule, and one that nobody fires", async () => {
  const { folder, queue } = await folderWithQueue();
  for (const name of ["broken", "late"])
    await dbq(folder, ["schedule", "add", name, "report", "--cron", "@daily"]);
  const { internalsOf } = await import("../../../src/features/queue.ts");
  const { schedules } = internalsOf(queue).store;
  await schedules.change("broken", (row) => (row ? { row: { ...row, timeZone: "Mars" } } : {}));
  await schedules.change("late", (row, now) => (row ? { row: { ...row, nextAt: now - 120_000 } } : {}));
  const { code, out } = await dbq(folder, ["doctor"]);
  expect(code).toBe(1);
  expect(out).toMatch(/the schedule broken makes no tasks: time_zone: expected the name of a time zone/);
  expect(out).toMatch(/the schedule late is due since .*: start a worker/);
});

test("a row that was edited by hand is listed as broken, beside the others", async () => {
  const { folder, queue } = await folderWithQueue();
  for (const name of ["bad", "good"]) await dbq(folder, ["schedule", "add", name, "report", "--every", "1h"]);
  await queue.transaction((tx) => {
    (tx as { run(query: unknown): unknown }).run(
      sql.raw(
        "update dbq_schedules set every_ms = 'text', last_task_id = 'x', skipped = 'x' where name = 'bad'",
      ),
    );
  });
  const { code, out } = await dbq(folder, ["schedules"]);
  expect(code).toBe(0);
  expect(out).toMatch(/^bad +report .*broken .*every_ms: expected a whole number/m);
  expect(out).toMatch(/^good +report +every hour/m);
  expect((await dbq(folder, ["doctor"])).out).toMatch(/the schedule bad makes no tasks: every_ms/);
});

test("backfill prints the ids of new tasks; a task of add has the group that it is given", async () => {
  const { folder, queue } = await folderWithQueue();
  await dbq(folder, ["schedule", "add", "a", "report", "--cron", "@daily", "--group", "acme"]);
  const backfill = ["schedule", "backfill", "a", "2026-01-01", "2026-01-02"];
  expect(await dbq(folder, backfill)).toMatchObject({ code: 0, out: "1\n2\n" });
  expect(await dbq(folder, backfill)).toMatchObject({ code: 0, out: "no new tasks\n" });
  expect(await queue.listTasks({})).toMatchObject([{ groupKey: "acme" }, { groupKey: "acme" }]);
});

test("backfill refuses a day that does not exist, and takes 29 February of a leap year", async () => {
  const { folder, queue } = await folderWithQueue();
  await dbq(folder, ["schedule", "add", "a", "report", "--cron", "@daily"]);
  expect(await dbq(folder, ["schedule", "backfill", "a", "2026-02-28", "2026-02-29"])).toMatchObject({
    code: 2,
    err: expect.stringContaining('got "2026-02-29"'),
  });
  expect(await queue.countTasks({})).toMatchObject({ pending: 0 });
  expect(await dbq(folder, ["schedule", "backfill", "a", "2024-02-29", "2024-02-29"])).toMatchObject({
    code: 0,
    out: "1\n",
  });
});

test.each([
  ["--missed", "x", '--missed: expected one, skip, or a number from 1 to 1000, got "x"'],
  ["--overlap", "x", "Allowed choices are skip, allow"],
])("%s %s is refused, and the error has the choices", async (option, value, message) => {
  const added = await dbq(temporaryFolder(), ["schedule", "add", "a", "f", "--every", "1h", option, value]);
  expect(added).toMatchObject({ code: 2, err: expect.stringContaining(message) });
});
