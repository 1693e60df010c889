/** Invariant: a meta filter finds exactly the tasks that have this value, of this type, at this key. */
import { describe, expect, onTestFinished, test } from "vitest";
import { remoteTask } from "../../src/index.ts";
import { amount } from "../support/amount.ts";
import { temporaryQueue } from "../support/queue.ts";
import { databases } from "./databases.ts";
import { metaFilters } from "./meta.ts";

const { sqlite, postgres, mysql } = databases;
const timeout = 300_000;

test("on SQLite", { timeout }, () => metaFilters(sqlite, amount(30, 100, 3_000)));

test("on SQLite, an integer beyond 2^53 is compared as JavaScript reads it", async () => {
  const queue = await temporaryQueue();
  const noted = remoteTask("noted");
  for (const k of [48630930268748810, 1]) await queue.enqueueTask(noted.with({ meta: { k } }));
  expect((await queue.listTasks({ meta: { k: 48630930268748810 } })).map(({ meta }) => meta)).toEqual([
    { k: 48630930268748810 },
  ]);
});

describe.skipIf(await postgres.missing())("on a server", () => {
  test("on Postgres", { timeout }, () => metaFilters(postgres, amount(15, 40, 1_000)));
});

describe.skipIf(await mysql.missing())("on a server", () => {
  test("on MySQL and MariaDB", { timeout }, () => metaFilters(mysql, amount(10, 30, 600)));
});

// Postgres refuses to look into JSON that has an escape of a lone surrogate. Other programs, such as Python's
// json.dumps, write 😀 as two such escapes.
describe.skipIf(await postgres.missing())(
  "on Postgres, meta with an escape in it is found by its other keys",
  () => {
    test.each([
      ["an escaped pair", '"\\ud83d\\ude00"'],
      ["a backslash before u0000", '"C:\\\\u0000"'],
    ])("%s", async (_, value) => {
      const { target, put, remove } = await postgres.newDatabase();
      onTestFinished(remove);
      const queue = await temporaryQueue({}, target);
      await put({ func: "f", meta: `{"tenant":"acme","note":${value}}` });
      expect(await queue.listTasks({ meta: { tenant: "acme" } })).toHaveLength(1);
    });
  },
);
