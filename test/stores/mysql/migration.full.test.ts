/** MySQL commits each statement of a migration by itself: the next process that opens the database continues it. */
import { expect, onTestFinished, test } from "vitest";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql } from "../server/stores.ts";

test.skipIf(isMissing(await mysqlServer()))(
  "an interrupted migration continues with its next statement",
  async () => {
    const { url, client, drop } = await newDatabase();
    onTestFinished(drop);
    await openedMysql(url);
    // As if the process had been killed before the last table, and before the migration was recorded.
    await client.query("drop table dbq_workers");
    await client.query("delete from dbq_migrations");
    const store = await openedMysql(url);
    expect(await store.workers()).toEqual([]);
  },
);
