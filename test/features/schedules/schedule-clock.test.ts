/** Schedules on SQLite, where the host's clock decides, when that clock is stepped or a time zone changes its hour. */
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { Firing } from "../../../src/features/schedules/fire.ts";
import { type Queue, remoteTask } from "../../../src/index.ts";
import { temporaryFolder, temporaryQueue } from "../../support/queue.ts";

const hour = 3_600_000;
const report = remoteTask("report");

/** Sets the time of day; timers run on. */
function setClock(time: string | number): void {
  vi.useFakeTimers({ toFake: ["Date"], now: new Date(time) });
  onTestFinished(() => {
    vi.useRealTimers();
  });
}

async function fire(queue: Queue): Promise<void> {
  const job = new Firing(internalsOf(queue).store.schedules, {
    workerId: "w",
    onWork: () => undefined,
    report: () => undefined,
  });
  while ((await job.run()) === 0);
}

const slotsOf = async (queue: Queue) =>
  (await queue.listTasks({ limit: 1_000 })).map(({ slot }) => slot?.toISOString().slice(0, 16)).sort();

const opened = () => temporaryQueue(undefined, join(temporaryFolder(), "dbq.db"));

test("a clock that is stepped an hour forwards misses slots, and one that is stepped back repeats none", async () => {
  setClock("2026-06-01T12:00:00Z");
  const queue = await opened();
  await queue.schedule("a", { cron: "*/10 * * * *", overlap: "allow", missed: { all: 99 } }, report);
  setClock("2026-06-01T13:00:30Z");
  await fire(queue);
  const slots = ["12:10", "12:20", "12:30", "12:40", "12:50", "13:00"].map((time) => `2026-06-01T${time}`);
  expect(await slotsOf(queue)).toEqual(slots);
  for (
    let now = Date.parse("2026-06-01T12:00:30Z");
    now < Date.parse("2026-06-01T13:20:00Z");
    now += hour / 12
  ) {
    setClock(now);
    await fire(queue);
  }
  expect(await slotsOf(queue)).toEqual([...slots, "2026-06-01T13:10"]);
});

test.each([
  ["2026-03-29T00:10:00Z", "30 2 * * *", ["2026-03-29T01:00"]],
  ["2026-10-24T23:40:00Z", "30 2 * * *", ["2026-10-25T00:30"]],
  ["2026-10-24T23:40:00Z", "0 * * * *", ["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"]],
])(
  "through the change of the hour after %s, %s makes the tasks of the table",
  async (start, cron, expected) => {
    setClock(start);
    const queue = await opened();
    await queue.schedule("a", { cron, timeZone: "Europe/Berlin", overlap: "allow" }, report);
    for (let now = Date.parse(start); now < Date.parse(start) + 2.5 * hour; now += 30_000) {
      setClock(now);
      await fire(queue);
    }
    expect(await slotsOf(queue)).toEqual(expected);
  },
);

test("the event loop goes on while 1,000 missed slots of each second in 60 days are looked up", async () => {
  const now = Date.parse("2026-06-01T12:00:00Z");
  setClock(now - 60 * 24 * hour);
  const queue = await opened();
  const every = { cron: "* * * * * *", timeZone: "Europe/Berlin", missed: { all: 1_000 } } as const;
  for (const name of ["a", "b", "c"]) await queue.schedule(name, every, report);
  setClock(now);
  // A slot in a zone is looked up by the clock of the zone.
  const looks = vi.spyOn(Intl.DateTimeFormat.prototype as { format: unknown }, "format", "get");
  const inTurns: number[] = [];
  let isOver = false;
  const turns = (async () => {
    while (!isOver) {
      inTurns.push(looks.mock.calls.length);
      looks.mockClear();
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  await fire(queue);
  isOver = true;
  await turns;
  inTurns.push(looks.mock.calls.length);
  looks.mockRestore();
  expect(Math.max(...inTurns)).toBeLessThan(500);
  expect(await queue.countTasks()).toMatchObject({ pending: 3_000 });
});
