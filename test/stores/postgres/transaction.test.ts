/** Settings that dbq uses for its own connections must not apply to an app's transaction. */
import { sql } from "drizzle-orm";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { openedPostgres } from "../server/stores.ts";

const server = await postgresServer();

describe.skipIf(isMissing(server))("a transaction of the app on Postgres", () => {
  it.each([
    "enable_seqscan",
    "enable_bitmapscan",
    "enable_hashjoin",
    "enable_mergejoin",
    "jit",
    "plan_cache_mode",
    "max_parallel_workers_per_gather",
  ])("has the server's own %s", async (name) => {
    const schema = await newSchema();
    onTestFinished(schema.drop);
    const store = await openedPostgres(schema.url);
    const own = await schema.client.query(`show ${name}`);
    const found = await store.transaction(
      async (tx) => await (tx as NodePgDatabase).execute(sql.raw(`show ${name}`)),
    );
    expect((found as { rows: unknown[] }).rows).toEqual(own.rows);
  });
});
