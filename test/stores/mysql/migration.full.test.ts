/** MySQL commits each statement of a migration by itself: whoever opens the database next goes on with it. */
import { expect, onTestFinished, test } from "vitest";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql } from "../server/stores.ts";

test.skipIf(isMissing(await mysqlServer()))("a migration that was cut off is gone on with", async () => {
  const { url, client, drop } = await newDatabase();
  onTestFinished(drop);
  await openedMysql(url);
  // As if the process had been killed before the last table, and before it noted that it was done.
  await client.query("drop table dbq_workers");
  await client.query("delete from dbq_migrations");
  const store = await openedMysql(url);
  expect(await store.workers()).toEqual([]);
});
