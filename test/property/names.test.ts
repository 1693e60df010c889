/**
 * Invariant: names that differ by case, accents, spaces or anything else are different, as unique keys, request ids,
 * queues, functions and in meta: each finds, holds, runs and purges its own task only.
 */
import { describe, test } from "vitest";
import { amount } from "../support/amount.ts";
import { databases } from "./databases.ts";
import { differentNames } from "./names.ts";

const { sqlite, postgres, mysql } = databases;
const timeout = 300_000;

test("on SQLite", { timeout }, () => differentNames(sqlite, amount(3, 6, 200)));

describe.skipIf(await postgres.missing())("on a server", () => {
  test("on Postgres", { timeout }, () => differentNames(postgres, amount(1, 3, 100)));
});

describe.skipIf(await mysql.missing())("on a server", () => {
  test("on MySQL and MariaDB", { timeout }, () => differentNames(mysql, amount(1, 2, 60)));
});
