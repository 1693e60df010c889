/** What `src/base/runtime/drizzle-internals.ts` takes for granted of Drizzle. A failure says what Drizzle has changed. */
import Database from "better-sqlite3";
import { DrizzleQueryError, sql } from "drizzle-orm";
import { drizzle as overSqlite } from "drizzle-orm/better-sqlite3";
import * as mysqlCore from "drizzle-orm/mysql-core";
import { drizzle as overMysql } from "drizzle-orm/mysql2";
import { drizzle as overPostgres } from "drizzle-orm/node-postgres";
import * as pgCore from "drizzle-orm/pg-core";
import { type SQL, sql as sqlOfModule } from "drizzle-orm/sql/sql";
import * as sqliteCore from "drizzle-orm/sqlite-core";
import { Pool } from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  beforeTransactionEnds,
  beginningOf,
  clientUnder,
  driverError,
  drizzleClasses,
  isDrizzle,
  placeholderName,
  queryConfig,
  savepointOf,
  sessionOf,
} from "../../../src/base/runtime/drizzle-internals.ts";
import { postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";

const server = await postgresServer();
const here = "src/base/runtime/drizzle-internals.ts";
const entityKind = Symbol.for("drizzle:entityKind");

const modules = [
  ["sqlite", "drizzle-orm/sqlite-core", sqliteCore],
  ["postgres", "drizzle-orm/pg-core", pgCore],
  ["mysql", "drizzle-orm/mysql-core", mysqlCore],
] as const;

describe("the names of Drizzle's classes", () => {
  test.each(modules)("of %s are those that dbq knows", (dialect, path, module) => {
    const kinds = Object.values(module).map((each) => Object(each)[entityKind]);
    for (const [what, names] of Object.entries(drizzleClasses[dialect]))
      expect(
        kinds.filter((kind) => names.includes(kind)).length,
        `${path} exports no class of a ${what} that is named ${names.join(" or ")}: add its new name to drizzleClasses in ${here}`,
      ).toBe(1);
  });

  test.each([
    ["sqlite", overSqlite.mock()],
    ["postgres", overPostgres.mock()],
    ["mysql", overMysql.mock()],
  ] as const)("tell a database of %s from the others", (dialect, db) => {
    const known = Object.entries(drizzleClasses).filter(([, { database }]) => isDrizzle(db, database));
    expect(
      known.map(([name]) => name),
      `drizzle() for ${dialect} no longer returns an instance of a class in drizzleClasses of ${here}`,
    ).toEqual([dialect]);
  });
});

describe("a statement", () => {
  test("comes from the same module by the path that loads no query builders", () => {
    expect(sqlOfModule, "drizzle-orm/sql/sql no longer exports the sql template of drizzle-orm").toBe(sql);
  });

  test("is written with dbq's quotes and parameters", () => {
    const { tasks } = { tasks: sqliteCore.sqliteTable("tasks", { id: sqliteCore.integer("task_id") }) };
    const config = queryConfig<Parameters<SQL["toQuery"]>[0]>({
      escapeName: (name) => `<${name}>`,
      escapeParam: (index) => `:${index + 1}`,
      escapeString: (text) => `'${text}'`,
    });
    const { sql: text, params } =
      sql`select ${tasks.id} from ${tasks} where a = ${sql.placeholder("a")} and b = ${1}`.toQuery(config);
    const changed = `SQL.toQuery no longer takes the settings that queryConfig of ${here} makes`;
    expect(text, changed).toBe("select <tasks>.<task_id> from <tasks> where a = :1 and b = :2");
    const unnamed = `sql.placeholder no longer is a Placeholder with a name: see placeholderName in ${here}`;
    expect(params.map(placeholderName), unnamed).toEqual(["a", undefined]);
    expect(params[1]).toBe(1);
  });

  test("has its first text where beginningOf reads it", () => {
    const changed = `the chunks of a statement have changed: see beginningOf in ${here}`;
    expect(beginningOf(sql.raw("release savepoint sp1")), changed).toBe("release savepoint sp1");
    expect(beginningOf(sql`select ${1}`), changed).toBe("select ");
    expect([beginningOf("select 1"), beginningOf(sql`${1}`)], changed).toEqual(["", ""]);
  });
});

test("over better-sqlite3 the driver's connection is under a database, and under its transactions", () => {
  const client = new Database(":memory:");
  onTestFinished(() => void client.close());
  const db = overSqlite({ client });
  const changed = `Drizzle keeps the connection of better-sqlite3 elsewhere: see clientUnder in ${here}`;
  expect(clientUnder(db), changed).toBe(client);
  db.transaction((tx) => {
    expect(clientUnder(tx), changed).toBe(client);
    const { transaction } = drizzleClasses.sqlite;
    expect([isDrizzle(tx, transaction), isDrizzle(db, transaction)]).toEqual([true, false]);
  });
});

test("the driver's error is in an error of Drizzle's", () => {
  const reason = new Error("no such table");
  expect(
    driverError(new DrizzleQueryError("select 1", [], reason)),
    `DrizzleQueryError has other fields: see driverError in ${here}`,
  ).toBe(reason);
});

describe.skipIf(isMissing(server))("a transaction on Postgres", () => {
  test("ends by statements that dbq can hold back, and so do its savepoints", async () => {
    const pool = new Pool({ connectionString: server.url });
    onTestFinished(() => pool.end());
    const order: string[] = [];
    await overPostgres({ client: pool }).transaction(async (tx) => {
      expect(isDrizzle(tx, drizzleClasses.postgres.transaction)).toBe(true);
      beforeTransactionEnds(sessionOf(tx), async () => {
        order.push("before the end");
        const { rows } = await tx.execute<{ n: number }>(sql`select 1 as n`);
        order.push(`still in it: ${rows[0]?.n}`);
      });
      await tx.transaction(async (inner) => {
        const changed = `savepoints have another session or name: see sessionOf and savepointOf in ${here}`;
        expect([sessionOf(inner) === sessionOf(tx), savepointOf(inner)], changed).toEqual([true, "sp1"]);
        const execute = inner.execute.bind(inner);
        inner.execute = ((query: SQL) => {
          order.push(beginningOf(query));
          return execute(query);
        }) as typeof inner.execute;
      });
    });
    const unseen = `Drizzle no longer ends savepoints by tx.execute, or transactions by session.prepareQuery(...).execute(): see ${here}`;
    expect(order, unseen).toEqual(["release savepoint sp1", "before the end", "still in it: 1"]);
  });
});
