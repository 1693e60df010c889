/** A test's clock decides what is due: on SQLite, and on Postgres where a server can be had. */
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { TestClock } from "../../src/base/runtime/clock.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { temporaryFolder } from "../support/queue.ts";
import { isMissing } from "../support/server.ts";
import { clockTests } from "./virtual-clock.ts";

describe("on a file of SQLite", () => clockTests(async () => join(temporaryFolder(), "dbq.db")));

describe("on a database in memory", () => clockTests(async () => ":memory:"));

describe.skipIf(isMissing(await postgresServer()))("on Postgres", () =>
  clockTests(async () => {
    const { url, drop } = await newSchema();
    onTestFinished(async () => void (await drop()));
    return url;
  }),
);

test.each([[-1], [0.5], [Number.NaN], ["1h"]])("a step of %j is refused with its value", (step) => {
  const clock = new TestClock(7);
  expect(() => clock.advance(step as number)).toThrow(new RegExp(`TypeError|got ${step}`));
  expect(clock.now()).toBe(7);
});
