/** What pages read: anew when they are loaded, together when they are open and updated. */
import { expect, test, vi } from "vitest";
import type { Look } from "../../../src/features/dashboard/look.ts";
import { anew, ofOpenPages, SharedReads } from "../../../src/features/dashboard/reads.ts";

const minute = 60_000;
const time = (from: number) => ({ from: new Date(from), to: new Date(from + minute) });

/** A look whose reads count. */
function counting() {
  let reads = 0;
  const read = () => vi.fn(async () => ({ read: ++reads }));
  const reader = { stats: read(), functionStats: read() };
  const health = vi.fn(async () => ({ health: { read: ++reads }, pending: [] }));
  const brief = vi.fn(async () => ({ health: { read: ++reads }, pending: [] }));
  const causes = vi.fn(async (look: unknown) => look);
  const outcomes = read();
  const look = { reader, outcomes, health, brief, causes } as unknown as Look;
  return { look, reader, outcomes, health, brief, causes };
}

test("open pages share one read of the health and of each time's statistics", async () => {
  const { look, reader, outcomes, health } = counting();
  const shared = new SharedReads();
  for (let page = 0; page < 5; page += 1) {
    const reads = shared.of(look, { health: minute, statistics: minute });
    await Promise.all([
      reads.health(),
      reads.stats({ ...time(0), by: "minute" }),
      reads.functionStats(time(0)),
      reads.outcomes(new Date(0)),
    ]);
  }
  for (const read of [health, reader.stats, reader.functionStats, outcomes])
    expect(read).toHaveBeenCalledTimes(1);
  const reads = shared.of(look, { health: minute, statistics: minute });
  await reads.stats({ ...time(0), by: "hour" });
  await reads.stats({ ...time(minute), by: "minute" });
  expect(reader.stats).toHaveBeenCalledTimes(3);
});

test("a page that is loaded reads anew, and an open page never goes back behind it", async () => {
  const { look } = counting();
  const shared = new SharedReads();
  const open = shared.of(look, { health: minute, statistics: minute });
  const loaded = shared.of(look, anew);
  expect(await open.health()).toEqual({ read: 1 });
  expect(await loaded.health()).toEqual({ read: 2 });
  expect(await shared.of(look, anew).health()).toEqual({ read: 3 });
  expect(await open.health()).toEqual({ read: 3 });
});

test("a page that is loaded has one look at the health, for its causes too", async () => {
  const { look, health, causes } = counting();
  const reads = new SharedReads().of(look, anew);
  const [found, causesFound] = await Promise.all([reads.health(), reads.causes()]);
  expect([found, causesFound]).toEqual([{ read: 1 }, { health: { read: 1 }, pending: [] }]);
  expect(await reads.health()).toEqual({ read: 1 });
  for (const read of [health, causes]) expect(read).toHaveBeenCalledTimes(1);
});

test("a page that shows no counts of scheduled and failed tasks does not read them, and one that does reads all once", async () => {
  const { look, health, brief } = counting();
  const loaded = new SharedReads().of(look, anew);
  expect(await Promise.all([loaded.brief(), loaded.causes()])).toEqual([
    { read: 1 },
    { health: { read: 1 }, pending: [] },
  ]);
  expect([health.mock.calls.length, brief.mock.calls.length]).toEqual([0, 1]);
  const both = new SharedReads().of(look, anew);
  expect(await Promise.all([both.health(), both.brief(), both.causes()])).toEqual([
    { read: 2 },
    { read: 2 },
    { health: { read: 2 }, pending: [] },
  ]);
  expect([health.mock.calls.length, brief.mock.calls.length]).toEqual([1, 1]);
});

test("an open page has the newer of two looks that other pages had", async () => {
  const { look } = counting();
  const shared = new SharedReads();
  const open = shared.of(look, { health: minute, statistics: minute });
  expect(await open.health()).toEqual({ read: 1 });
  expect(await open.brief()).toEqual({ read: 1 });
  expect(await shared.of(look, anew).brief()).toEqual({ read: 2 });
  expect(await open.brief()).toEqual({ read: 2 });
});

test("a read that failed is not kept", async () => {
  const { look, health } = counting();
  health.mockRejectedValueOnce(new Error("the database is gone"));
  const open = new SharedReads().of(look, { health: minute, statistics: minute });
  await expect(open.health()).rejects.toThrow("the database is gone");
  expect(await open.health()).toEqual({ read: 1 });
});

test("open pages see a change of the health in the next round, and statistics as often as workers write them", () => {
  expect(ofOpenPages(250).health).toBeLessThan(250);
  expect(ofOpenPages(60_000).health).toBeLessThanOrEqual(1_000);
  expect(ofOpenPages(250).statistics).toBeLessThanOrEqual(10_000);
});
