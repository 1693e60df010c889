/** The clock is one seam: no other file of dbq asks what time it is, but for the reasons that are listed here. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const root = new URL("../../../src/", import.meta.url);

const asks =
  /Date\.now\b|new Date\(\)|statement_timestamp\(|clock_timestamp\(|utc_timestamp\(|julianday\(|unixepoch\(/;

/** Why a file may ask. A path that ends with a slash is a folder. */
const reasons: Readonly<Record<string, string>> = {
  "base/runtime/clock.ts": "it is the seam",
  "entries/": "a program prints the time of its lines",
  "stores/postgres/dialect.ts": "in production, the server's clock is SQL",
  "stores/mysql/dialect.ts": "in production, the server's clock is SQL",
  "stores/postgres/drizzle.ts": "it asks whether a transaction has begun, not what time it is",
  "stores/postgres/settle-and-claim.ts": "it measures how long a search takes",
  "stores/sqlite/touch.ts": "the time of a file wakes other processes",
  "stores/sqlite/heartbeat-thread.cjs": "beside a test's clock, this thread is not started",
  "worker/dispatcher.ts": "spans of traces have real times",
  "worker/events.ts": "spans of traces have real times",
  "features/drain/pump.ts": "spans of traces have real times",
  "features/dashboard/client/": "it runs in a browser",
  "features/stats/recorder.ts": "minutes of statistics are real ones, by a parameter that its tests set",
  "stores/sql/versions.ts": "a version that cannot be read counts as another one each time",
  "features/metrics/prometheus.ts": "a scrape gives the age of a time that the database has written",
  "features/executors/serve.ts": "it bounds how often a child sends its progress",
};

const isExcused = (path: string) =>
  Object.keys(reasons).some((known) => (known.endsWith("/") ? path.startsWith(known) : path === known));

/** The code without its comments. */
const codeOf = (path: string) =>
  readFileSync(new URL(path, root), "utf8").replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");

const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((path) =>
  /\.(ts|cjs)$/.test(path),
);

it("only the files that have a reason ask what time it is; the others ask the clock of their queue", () => {
  const asking = files.filter((path) => !isExcused(path) && asks.test(codeOf(path)));
  expect(asking).toEqual([]);
});

it.each(Object.keys(reasons).filter((path) => !path.endsWith("/")))("%s still asks", (path) => {
  expect(codeOf(path)).toMatch(asks);
});
