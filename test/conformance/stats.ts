import assert from "node:assert/strict";
import { groupBy } from "../../src/base/values/group-by.ts";
import { Histogram } from "../../src/base/values/histogram.ts";
import type {
  Counted,
  CountedNow,
  FunctionCount,
  StatsFilter,
  StatsRow,
  StatsSum,
} from "../../src/features/stats/contract.ts";
import { isFailure, toSum } from "../../src/features/stats/methods.ts";
import type { FullStore } from "../../src/features/store.ts";
import type { Group } from "./case.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const thisMinute = () => Math.floor(Date.now() / minuteMs) * minuteMs;
/** A whole hour, so many hours ago. */
const hoursAgo = (hours: number) => (Math.floor(Date.now() / hourMs) - hours) * hourMs;

const times = (...ms: number[]): string =>
  ms
    .reduce((all, one) => {
      all.add(one);
      return all;
    }, new Histogram())
    .encode();

const counted = (...ran: number[]): Counted => ({
  count: ran.length,
  waitBuckets: times(...ran.map(() => 1)),
  runBuckets: times(...ran),
});

/** Attempts of one function, of which `before` are written already. */
function attempts(func: string, ran: number[], before: number[] = [], outcome = "completed"): CountedNow {
  const fresh = counted(...ran);
  return { queueName: "default", func, outcome, fresh, total: counted(...before, ...ran) };
}

const all = { from: 0, to: 8_000_000_000_000 };

const shown = (rows: StatsRow[]) =>
  rows
    .map(({ minute, span, func, outcome, count, runBuckets }) =>
      [minute, span, func, outcome, count, runBuckets].join(" "),
    )
    .sort();

/** Folds all that there is to fold. */
async function foldAll(store: FullStore): Promise<void> {
  while (await store.stats.fold());
}

/** Of each hour how many attempts ended, how many of them failed, and how long they ran. */
function byHour(rows: StatsRow[]): [hour: number, count: number, failed: number, run: string][] {
  const hours = groupBy(rows, ({ minute }) => Math.floor(minute / hourMs) * hourMs);
  return [...hours]
    .sort(([a], [b]) => a - b)
    .map(([hour, own]) => [hour, sumOf(own), sumOf(own.filter(isFailure)), runOf(own)]);
}

const runOf = (rows: StatsRow[]): string =>
  rows.reduce((sum, { runBuckets }) => sum.addEncoded(runBuckets), new Histogram()).encode();

const byFunction = (rows: FunctionCount[]): [key: string, count: number][] =>
  [...groupBy(rows, ({ queueName, func, outcome }) => `${queueName} ${func} ${outcome}`)]
    .map(([key, own]): [string, number] => [key, sumOf(own)])
    .sort();

/** What the database adds up is what its rows say. */
async function checkSums({ stats }: FullStore, filter: StatsFilter): Promise<void> {
  const sums = (await stats.read(filter)).map(toSum);
  const byTime = ({ minute }: StatsSum) => String(minute);
  assert.deepEqual(shownSums(await stats.sums(filter, "time"), byTime), shownSums(sums, byTime));
  const byNames = ({ queueName, func }: StatsSum) => JSON.stringify([queueName, func]);
  assert.deepEqual(shownSums(await stats.sums(filter, "function"), byNames), shownSums(sums, byNames));
}

const shownSums = (sums: StatsSum[], keyOf: (sum: StatsSum) => string) =>
  [...groupBy(sums, keyOf)]
    .sort(([a], [b]) => Number(a > b) - Number(a < b))
    .map(([key, own]) => [
      ...[key, sumOf(own), own.reduce((all, { failed }) => all + failed, 0)],
      ...(["waitBuckets", "runBuckets"] as const).map((buckets) =>
        own.reduce((all, sum) => all.addEachEncoded(sum[buckets]), new Histogram()).encode(),
      ),
    ]);

const sumOf = (rows: { count: number }[]) => rows.reduce((sum, { count }) => sum + count, 0);

export const statsGroup: Group = {
  name: "statistics",
  cases: [
    {
      name: "a second write of a minute replaces what the worker had written of it",
      run: async ({ store }) => {
        const now = thisMinute();
        await store.stats.write("w1", now, [attempts("a", [5]), attempts("b", [1])]);
        await store.stats.write("w1", now, [attempts("a", [7], [5])]);
        await store.stats.write("w2", now, [attempts("a", [9])]);
        await store.stats.write("w1", now, []);
        assert.deepEqual(
          shown(await store.stats.read(all)),
          [
            `${now} 1 a completed 2 ${times(5, 7)}`,
            `${now} 1 b completed 1 ${times(1)}`,
            `${now} 1 a completed 1 ${times(9)}`,
          ].sort(),
        );
      },
    },
    {
      name: "a write that is repeated counts once",
      run: async ({ store }) => {
        const now = thisMinute();
        for (let i = 0; i < 3; i++) await store.stats.write("w1", now, [attempts("a", [5])]);
        for (let i = 0; i < 3; i++) await store.stats.write("w1", now, [attempts("a", [7, 8], [5])]);
        assert.deepEqual(shown(await store.stats.read(all)), [`${now} 1 a completed 3 ${times(5, 7, 8)}`]);
      },
    },
    {
      name: "reading filters by time, queue and function, and gives the hour in which a time is",
      run: async ({ store }) => {
        const [old, now] = [hoursAgo(5), thisMinute()];
        await store.stats.write("w1", old + minuteMs, [attempts("a", [5])]);
        await foldAll(store);
        await store.stats.write("w1", now, [
          attempts("a", [1]),
          { ...attempts("b", [1]), queueName: "mail" },
        ]);
        const read = async (filter: object) => sumOf(await store.stats.read({ ...all, ...filter }));
        assert.equal(await read({}), 3);
        assert.equal(await read({ from: old + 30 * minuteMs }), 3);
        assert.equal(await read({ from: old + hourMs }), 2);
        assert.equal(await read({ to: now }), 1);
        assert.equal(await read({ to: now + 1 }), 3);
        assert.equal(await read({ func: "a" }), 2);
        assert.equal(await read({ queueName: "mail" }), 1);
        assert.equal(await read({ queueName: "mail", func: "a" }), 0);
        const times = [{}, { from: old + hourMs }, { to: now }, { func: "a" }, { queueName: "mail" }];
        for (const filter of times) await checkSums(store, { ...all, ...filter });
      },
    },
    {
      name: "after two minutes the rows of all workers become one, and count in the totals",
      run: async ({ store }) => {
        const [before, now] = [thisMinute() - 3 * minuteMs, thisMinute()];
        await store.stats.write("w1", before, [attempts("a", [5]), attempts("a", [3], [], "retry")]);
        await store.stats.write("w2", before, [attempts("a", [9, 9])]);
        await store.stats.write("w1", now, [attempts("a", [1])]);
        assert.equal(sumOf(await store.stats.totals()), 5);
        await foldAll(store);
        const folded = [
          `${before} 1 a completed 3 ${times(5, 9, 9)}`,
          `${before} 1 a retry 1 ${times(3)}`,
          `${now} 1 a completed 1 ${times(1)}`,
        ];
        assert.deepEqual(shown(await store.stats.read(all)), folded.sort());
        assert.equal(sumOf(await store.stats.totals()), 5);
        await foldAll(store);
        assert.deepEqual(shown(await store.stats.read(all)), folded.sort());
        assert.equal(sumOf(await store.stats.totals()), 5);
      },
    },
    {
      name: "after two hours the minutes become hours, and after 30 days they are deleted; the totals stay",
      run: async ({ store }) => {
        const [old, other] = [hoursAgo(4), hoursAgo(3)];
        await store.stats.write("w1", old, [attempts("a", [5])]);
        await store.stats.write("w1", old + 59 * minuteMs, [attempts("a", [6])]);
        await store.stats.write("w1", other, [attempts("a", [7])]);
        await store.stats.write("w1", hoursAgo(31 * 24), [attempts("a", [8])]);
        await foldAll(store);
        // A worker may be late: its row comes after its hour was folded.
        await store.stats.write("w2", old + minuteMs, [attempts("a", [9])]);
        await foldAll(store);
        assert.deepEqual(shown(await store.stats.read(all)), [
          `${old} 60 a completed 3 ${times(5, 6, 9)}`,
          `${other} 60 a completed 1 ${times(7)}`,
        ]);
        assert.equal(sumOf(await store.stats.totals()), 5);
      },
    },
    {
      name: "the hours of all functions and the counts since a time tell of what reading every row tells, folded or not",
      run: async ({ store }) => {
        const written = [50, 30, 26, 25, 24, 23, 5, 4, 2, 1].map((hours) => hoursAgo(hours));
        const check = async () => {
          for (const from of [...written, (written[0] as number) - hourMs]) {
            const read = await store.stats.read({ ...all, from });
            assert.deepEqual(byHour(await store.stats.hours({ ...all, from })), byHour(read));
            assert.deepEqual(byFunction(await store.stats.counts(from)), byFunction(read));
            await checkSums(store, { ...all, from });
          }
        };
        for (const [n, at] of written.entries()) {
          const mail = { ...attempts("a", [n]), queueName: "mail" };
          await store.stats.write("w1", at, [
            attempts("a", [1, n]),
            attempts("A", [n, n], [], "retry"),
            mail,
          ]);
          await store.stats.write("w2", at + 7 * minuteMs, [attempts("a", [2 * n])]);
        }
        await check();
        for (let more = true; more; ) {
          more = await store.stats.fold();
          await check();
        }
        // Of each hour, those that completed and those that are retried: however many functions there are.
        assert.equal((await store.stats.hours(all)).length, 2 * written.length);
        // A worker may be late.
        await store.stats.write("w3", written[0] as number, [attempts("a", [9]), attempts("b", [3])]);
        await check();
        await foldAll(store);
        await check();
      },
    },
    {
      name: "of whole hours the end is not counted",
      run: async ({ store }) => {
        for (const hours of [6, 5, 4])
          await store.stats.write("w1", hoursAgo(hours), [attempts("a", [hours])]);
        const hours = async () =>
          byHour(await store.stats.hours({ from: hoursAgo(5), to: hoursAgo(4) })).map(([, count]) => count);
        assert.deepEqual(await hours(), [1]);
        await foldAll(store);
        assert.deepEqual(await hours(), [1]);
      },
    },
    {
      name: "a worker that goes on with a minute that was folded meanwhile counts nothing twice",
      run: async ({ store }) => {
        const before = thisMinute() - 3 * minuteMs;
        await store.stats.write("w1", before, [attempts("a", [5])]);
        await foldAll(store);
        await store.stats.write("w1", before, [attempts("a", [7], [5])]);
        await foldAll(store);
        assert.deepEqual(shown(await store.stats.read(all)), [`${before} 1 a completed 2 ${times(5, 7)}`]);
        assert.equal(sumOf(await store.stats.totals()), 2);
      },
    },
    {
      name: "several processes that fold at once count nothing twice, and lose nothing",
      needs: ["several connections"],
      run: async ({ store, another }) => {
        const stores = [store, await another(), await another()];
        for (let n = 0; n < 30; n++) {
          const names = Array.from({ length: 20 }, (_, i) => attempts(`f${i}`, [n]));
          await store.stats.write(`w${n % 3}`, hoursAgo(4) + n * minuteMs, names);
        }
        await Promise.all(stores.map(foldAll));
        await foldAll(store);
        const rows = await store.stats.read(all);
        assert.deepEqual([rows.length, sumOf(rows), sumOf(await store.stats.totals())], [20, 600, 600]);
      },
    },
    {
      name: "names keep their characters, and those that differ by case or spaces are apart",
      run: async ({ store }) => {
        const before = thisMinute() - 3 * minuteMs;
        const names = ["a", "A", "a ", 'é 🎉 "quoted" \\ \' ; --', "z".repeat(255)];
        await store.stats.write(
          "w1",
          before,
          names.map((name) => attempts(name, [1])),
        );
        await foldAll(store);
        const rows = await store.stats.read(all);
        assert.deepEqual(rows.map(({ func }) => func).sort(), [...names].sort());
        assert.equal(sumOf(await store.stats.read({ ...all, func: "a" })), 1);
        await checkSums(store, all);
      },
    },
    {
      name: "corrupt buckets hide no others",
      run: async ({ store, sql }) => {
        const before = thisMinute() - 3 * minuteMs;
        await store.stats.write("w1", before, [attempts("a", [5])]);
        await store.stats.write("w2", before, [attempts("a", [6])]);
        await sql("update dbq_stats set run_buckets = '[1e999, \"x\"' where worker_id = 'w1'");
        await checkSums(store, all);
        await foldAll(store);
        assert.deepEqual(shown(await store.stats.read(all)), [`${before} 1 a completed 2 ${times(6)}`]);
      },
    },
  ],
};
