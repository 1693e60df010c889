/** How MySQL and MariaDB count what runs: by an index, however many other tasks of the function run. */
import { MySqlDialect } from "drizzle-orm/mysql-core";
import { describe, expect, onTestFinished, test } from "vitest";
import { limitStatements } from "../../../src/features/limits/sql/statements.ts";
import { skipLockedDialect } from "../../../src/stores/mysql/dialect.ts";
import { claim, claimBy, insert } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql } from "../server/stores.ts";

describe.skipIf(isMissing(await mysqlServer()))("plans of MySQL", () => {
  test("running tasks without a group are counted without reading those of groups", async () => {
    const { url, client, drop } = await newDatabase();
    onTestFinished(drop);
    const store = await openedMysql(url);
    const groups = Array.from({ length: 500 }, (_, i) => ({ groupKey: `group-${i}` }));
    await insert(store, ...groups);
    expect(await claim(store, claimBy("w1", { limit: 500 }))).toHaveLength(500);
    const statement = limitStatements(skipLockedDialect).inUseUngrouped({ func: "resize" });
    const { sql, params } = new MySqlDialect().sqlToQuery(statement);
    await client.query("flush status");
    await client.query(sql, params);
    const [rows] = await client.query("show status like 'Handler_read%'");
    const reads = (rows as unknown as { Value: string }[]).map(({ Value }) => Number(Value));
    expect(Math.max(...reads)).toBeLessThan(10);
  });
});
