/** The examples on a server. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { temporaryFolder } from "../support/queue.ts";
import { isMissing } from "../support/server.ts";
import { program } from "./program.ts";

const examples = fileURLToPath(new URL("../../examples", import.meta.url));
const tsconfig = join(examples, "tsconfig.json");

const run = (file: string, env: Record<string, string>) =>
  program(join(examples, file), { cwd: temporaryFolder(), tsconfig, env });

const measured = /from enqueued to begun, \d+ tasks: p50 -?[\d.]+ ms, p99 -?[\d.]+ ms/;

describe.skipIf(isMissing(await postgresServer()))("on Postgres", () => {
  test("postgres.ts writes an order with its task, and a receipt with its completion, in one transaction each", async () => {
    const { url, client, drop } = await newSchema();
    onTestFinished(drop);
    const { ended, output } = run("postgres.ts", { DATABASE_URL: url });
    expect({ ...(await ended), output: output() }).toEqual({
      code: 0,
      signal: null,
      output: [
        "Order 1: 3 x tea. Thank you!",
        "kept with the order: Order 1: 3 x tea. Thank you!",
        "RangeError: there is not enough cake",
        "tasks: 0 to do, 1 completed",
        "",
      ].join("\n"),
    });
    const { rows } = await client.query(
      "select o.receipt, t.result #>> '{}' as result, t.status from shop_orders o full join dbq_tasks t on t.args ->> 0 = o.id::text",
    );
    const receipt = "Order 1: 3 x tea. Thank you!";
    expect(rows).toEqual([{ receipt, result: receipt, status: "completed" }]);
  });

  test("wake-up.ts measures, and deletes its tasks", async () => {
    const { url, client, drop } = await newSchema();
    onTestFinished(drop);
    const { ended, printed, output } = run("wake-up.ts", { DBQ_URL: url, WAKE_UPS: "3" });
    await printed(measured);
    expect(await ended, output()).toEqual({ code: 0, signal: null });
    const { rows } = await client.query("select func from dbq_tasks union all select id from dbq_workers");
    expect(rows).toEqual([]);
  });
});

describe.skipIf(isMissing(await mysqlServer()))("on MySQL or MariaDB", () => {
  test("wake-up.ts measures", async () => {
    const { url, drop } = await newDatabase();
    onTestFinished(drop);
    const { ended, printed, output } = run("wake-up.ts", { DBQ_URL: url, WAKE_UPS: "3" });
    await printed(measured);
    expect(await ended, output()).toEqual({ code: 0, signal: null });
  });
});

test("wake-up.ts measures on SQLite", async () => {
  const { ended, printed, output } = run("wake-up.ts", { DBQ_URL: "wake.db", WAKE_UPS: "3" });
  await printed(measured);
  expect(await ended, output()).toEqual({ code: 0, signal: null });
});
