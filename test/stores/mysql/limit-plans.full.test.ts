/** How MySQL and MariaDB count what runs and what waits: by an index, however many other tasks there are. */

import { MySqlDialect } from "drizzle-orm/mysql-core";
import type { SQL } from "drizzle-orm/sql/sql";
import { describe, expect, onTestFinished, test } from "vitest";
import { limitCounts } from "../../../src/features/limits/sql/counts.ts";
import { limitStatements } from "../../../src/features/limits/sql/statements.ts";
import { skipLockedDialect } from "../../../src/stores/mysql/dialect.ts";
import { claim, claimBy, insert } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase, type OwnDatabase } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql } from "../server/stores.ts";

/** The first row of a statement, and how many rows the server has read for it, by how it reads them. */
async function answerOf(client: OwnDatabase["client"], statement: SQL) {
  const { sql, params } = new MySqlDialect().sqlToQuery(statement);
  await client.query("flush status");
  const [[row]] = (await client.query({ sql, values: params, rowsAsArray: true })) as unknown as [
    unknown[][],
  ];
  const [rows] = await client.query("show session status like 'Handler_read%'");
  return { row, reads: (rows as unknown as { Value: string }[]).map(({ Value }) => Number(Value)) };
}

describe.skipIf(isMissing(await mysqlServer()))("plans of MySQL", () => {
  test("running tasks without a group are counted without reading those of groups", async () => {
    const { url, client, drop } = await newDatabase();
    onTestFinished(drop);
    const store = await openedMysql(url);
    const groups = Array.from({ length: 500 }, (_, i) => ({ groupKey: `group-${i}` }));
    await insert(store, ...groups);
    expect(await claim(store, claimBy("w1", { limit: 500 }))).toHaveLength(500);
    const statement = limitStatements(skipLockedDialect).inUseUngrouped({ func: "resize" });
    const reads = (await answerOf(client, statement)).reads;
    expect(Math.max(...reads)).toBeLessThan(10);
  });

  test("waiting tasks of a function are counted in all queues, and each task of another one is read once at most", async () => {
    const { url, client, drop } = await newDatabase();
    onTestFinished(drop);
    const store = await openedMysql(url);
    const queues = Array.from({ length: 20 }, (_, i) => `queue-${i}`);
    await insert(store, ...queues.flatMap((queueName) => Array.from({ length: 50 }, () => ({ queueName }))));
    await insert(store, ...queues.map((queueName) => ({ queueName, func: "rare" })));
    const { row, reads } = await answerOf(
      client,
      limitCounts(skipLockedDialect).func.waiting({ name: "rare" }),
    );
    expect(row).toEqual([20]);
    expect(reads.reduce((sum, each) => sum + each, 0)).toBeLessThan(1_500);
  });
});
