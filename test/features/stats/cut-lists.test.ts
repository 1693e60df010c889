/** MySQL cuts a list off at `group_concat_max_len`: by default 1,024 bytes on MySQL, for connections that an app has opened. */
import { expect, test } from "vitest";
import { Histogram } from "../../../src/base/values/histogram.ts";
import type { StatsSum } from "../../../src/features/stats/contract.ts";
import { StatsOperations } from "../../../src/features/stats/sql.ts";
import { columnsOf } from "../../../src/stores/sql/columns.ts";
import type { Row } from "../../../src/stores/sql/dialect.ts";
import { textsOf } from "../../../src/stores/sql/texts.ts";
import { sqliteDialect } from "../../../src/stores/sqlite/dialect.ts";

const encode = (...times: number[]) => {
  const histogram = new Histogram();
  for (const time of times) histogram.add(time);
  return histogram.encode();
};

const lists = [encode(5, 7), encode(90)];
const whole = lists.join(";");

/** The rows of which the lists are made. */
const stored = lists.map((buckets, i) => {
  const values: Record<string, unknown> = {
    ...{ id: i, minute: 60_000, span: 1, worker_id: "", queue_name: "default", func: "send" },
    ...{ outcome: "completed", count: 2 - i, wait_buckets: buckets, run_buckets: buckets },
  };
  return columnsOf("dbq_stats").map((column) => values[column]) as Row;
});

/** Answers the statement of `sums` with this list of run times, and a second one with the rows. */
function sumsOf(list: string): { sums: StatsSum[]; statements: number } {
  const answers: Row[][] = [[[60_000, "", "", 3, 0, whole, list, 2] as Row], stored];
  const program = new StatsOperations(textsOf(sqliteDialect)).sums({ from: 0, to: 1 }, "time");
  let statements = 0;
  for (let step = program.next(); ; step = program.next(answers[statements++]))
    if (step.done) return { sums: step.value, statements };
}

const timesOf = (sums: StatsSum[]) =>
  sums.reduce((all, { runBuckets }) => all.addEachEncoded(runBuckets), new Histogram()).encode();

test("sums whose lists the database has cut off are made of the rows", () => {
  expect(sumsOf(whole)).toMatchObject({ sums: [{ count: 3, runBuckets: whole }], statements: 1 });
  for (let length = 0; length < whole.length; length += 1) {
    const { sums, statements } = sumsOf(whole.slice(0, length));
    expect(statements, whole.slice(0, length)).toBe(2);
    expect(timesOf(sums)).toBe(encode(5, 7, 90));
  }
});
