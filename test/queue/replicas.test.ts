/**
 * Drizzle's `withReplicas` gives a plain object in 0.x, which is no Drizzle database: the error has to name what to pass instead.
 * In 1.x it gives a database whose statements go to the primary.
 */
import { drizzle as overSqlite } from "drizzle-orm/better-sqlite3";
import { withReplicas as ofMysql } from "drizzle-orm/mysql-core";
import { drizzle as overMysql } from "drizzle-orm/mysql2";
import { drizzle as overPostgres } from "drizzle-orm/node-postgres";
import { withReplicas as ofPostgres } from "drizzle-orm/pg-core";
import { withReplicas as ofSqlite } from "drizzle-orm/sqlite-core";
import { describe, expect, it } from "vitest";
import { drizzleClasses, isDrizzle } from "../../src/base/runtime/drizzle-internals.ts";
import { openQueue } from "../../src/index.ts";
import { mysqlDrizzle } from "../../src/stores/mysql/drizzle.ts";
import { postgresDrizzle } from "../../src/stores/postgres/drizzle.ts";
import { drizzleOf } from "../../src/stores/server/drizzle.ts";
import { clientOf } from "../../src/stores/sqlite/drizzle.ts";
import { temporaryQueue } from "../support/queue.ts";
import { echo } from "./tasks.ts";

const databases = [
  ["SQLite", () => ofSqlite(overSqlite.mock(), [overSqlite.mock()]), clientOf],
  [
    "Postgres",
    () => ofPostgres(overPostgres.mock(), [overPostgres.mock()]),
    (db: unknown) => drizzleOf(db, postgresDrizzle),
  ],
  [
    "MySQL",
    () => ofMysql(overMysql.mock(), [overMysql.mock()]),
    (db: unknown) => drizzleOf(db, mysqlDrizzle),
  ],
] as const;

const isDatabase = isDrizzle(databases[0][1](), drizzleClasses.sqlite.database);

describe.skipIf(isDatabase).each(databases)("a database of withReplicas on %s", (_, make, within) => {
  it("is refused by openQueue with an error that names $primary", async () => {
    const opening = openQueue(make());
    await expect(opening).rejects.toThrow(TypeError);
    await expect(opening).rejects.toThrow(/^openQueue: .*: it comes from withReplicas, pass its \$primary$/);
  });

  it("is refused by within with an error that names $primary", () => {
    expect(() => within(make())).toThrow(TypeError);
    expect(() => within(make())).toThrow(/: it comes from withReplicas, pass its \$primary$/);
  });
});

const file = () => ofSqlite(overSqlite(":memory:"), [overSqlite(":memory:")]);
const targets = [["the $primary of withReplicas", () => file().$primary] as const];
if (isDatabase) targets.push(["a database of withReplicas of Drizzle 1.x", file] as never);

it.each(targets)("%s is a target, and its transactions are those of the queue", async (_, make) => {
  const db = make();
  const queue = await temporaryQueue({}, db);
  const id = db.transaction((tx) => queue.within(tx).enqueueTask(echo, 1));
  expect(await queue.getTask(id)).toMatchObject({ args: [1] });
});
