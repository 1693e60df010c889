/** How MySQL and MariaDB find the queues, functions and priorities of pending tasks: by the index, however many tasks each has. */
import { MySqlDialect } from "drizzle-orm/mysql-core";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Level, PendingNames } from "../../../src/features/inspect/sql/pending-names.ts";
import { skipLockedDialect } from "../../../src/stores/mysql/dialect.ts";
import type { Program } from "../../../src/stores/sql/program.ts";
import { insert } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase, type OwnDatabase } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql } from "../server/stores.ts";

/** Runs the statements of a program. */
async function run<T>(client: OwnDatabase["client"], program: Program<T>): Promise<T> {
  let answer: unknown;
  for (;;) {
    const step = program.next(answer);
    if (step.done) return step.value;
    if (step.value.want !== "rowsOnce") throw new Error(`unexpected step: ${step.value.want}`);
    const { sql, params } = new MySqlDialect().sqlToQuery(step.value.query);
    [answer] = await client.query({ sql, values: params, rowsAsArray: true });
  }
}

/** Rows that the connection has read since the last `flush status`. */
async function rowsRead(client: OwnDatabase["client"]): Promise<number> {
  const [rows] = await client.query("show session status like 'Handler_read%'");
  return (rows as unknown as { Value: string }[]).reduce((sum, { Value }) => sum + Number(Value), 0);
}

describe.skipIf(isMissing(await mysqlServer()))("the names of pending tasks on MySQL", () => {
  test("are found without reading each task, for as many queues, functions and priorities as there are", async () => {
    const { url, client, drop } = await newDatabase();
    onTestFinished(drop);
    const store = await openedMysql(url);
    const places = Array.from({ length: 12 }, (_, n) => `queue-${String(n).padStart(2, "0")}`).flatMap(
      (queueName) =>
        ["a", "b", "it's"].flatMap((func) =>
          [9, 5, 0, -3].map((priority) => ({ queueName, func, priority })),
        ),
    );
    await insert(store, ...Array.from({ length: 20 }, () => places).flat());
    const names = new PendingNames(skipLockedDialect);
    await client.query("flush status");
    const levels: readonly Level[] = await run(client, names.levels());
    expect(levels).toEqual(places);
    // One for each step, and again for each of the up to seven steps that stand behind it in one statement.
    expect(await rowsRead(client)).toBeLessThan(places.length * 7);
    await client.query("flush status");
    expect(await run(client, names.queues())).toEqual([...new Set(places.map(({ queueName }) => queueName))]);
    expect(await rowsRead(client)).toBeLessThan(12 * 9);
  });
});
