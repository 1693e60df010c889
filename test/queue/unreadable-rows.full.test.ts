/** As `unreadable-rows.test.ts`, on MySQL or MariaDB, which has zero dates. */
import { expect, it, onTestFinished } from "vitest";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { isMissing } from "../support/server.ts";
import { brokenPages, problemOf, queueBeside, reads, withTime, worked } from "./unreadable.ts";

const server = await mysqlServer();

it.skipIf(isMissing(server))(
  "beside rows on MySQL that dbq cannot read, all others are read, run, limited and shown, and diagnose names these",
  async () => {
    const { url, client, drop } = await newDatabase();
    onTestFinished(drop);
    await client.query("set session sql_mode = ''");
    const rows = withTime("'0000-00-00 00:00:00'");
    const before = "utc_timestamp() - interval 100 second";
    const { queue, missing } = await queueBeside(url, (text) => client.query(text), before, rows);
    expect(await missing()).toEqual([]);
    for (const [method, read] of Object.entries(reads))
      expect([method, await problemOf(read, queue)]).toEqual([method, undefined]);
    expect(await brokenPages(queue)).toEqual([]);
    expect(await worked(queue)).toEqual([]);
  },
);
