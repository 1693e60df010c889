/**
 * Invariant: the store on Postgres is the queue that its interface describes, whichever way its claims are kept apart. What
 * is called, steps of the server's clock and statements that fail, for good or for a moment, are drawn as for SQLite.
 */
import { describe, expect, onTestFinished, test } from "vitest";
import { openPostgres } from "../../src/stores/postgres/store.ts";
import { amount } from "../support/amount.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { isMissing } from "../support/server.ts";
import { agreement } from "./agreement.ts";
import { openRealPostgres } from "./real-postgres.ts";

const server = await postgresServer();

describe.skipIf(isMissing(server)).each(["skip-locked", "optimistic"] as const)("%s", (strategy) => {
  const open = () => openRealPostgres(strategy);
  agreement(
    `model of the store on Postgres, ${strategy}`,
    open,
    ["throws", "commit", "passes"],
    amount(8, 8, 120),
  );
});

describe.skipIf(isMissing(server))("a row that brings its own id", () => {
  test.each([-7, 0])("is claimed, whatever the id: %i", async (id) => {
    const { url, client, drop } = await newSchema();
    onTestFinished(drop);
    const store = await openPostgres(url, { migrate: true });
    onTestFinished(() => store.close());
    await client.query("insert into dbq_tasks (id, func) values ($1, 'resize')", [id]);
    const process = { host: "here", bootId: null, pidNamespace: null, pid: 1, processStart: null };
    await store.register({ ...process, id: "w1", queueNames: ["default"], concurrency: 1, lease: 1_000 });
    const claim = { workerId: "w1", queueNames: ["default"], funcs: ["resize"], limit: 1 };
    const { claimed } = await store.settleAndClaim({ outcomes: [], claim });
    expect(claimed).toMatchObject([{ id, status: "running" }]);
  });
});
