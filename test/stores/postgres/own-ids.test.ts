/** A row that a program inserts with an explicit id is a task like any other. */
import { describe, expect, onTestFinished, test } from "vitest";
import { openPostgres } from "../../../src/stores/postgres/store.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";

const server = await postgresServer();

describe.skipIf(isMissing(server))("a row with an explicit id", () => {
  test.each([-7, 0])("is claimed, also with id %i", async (id) => {
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
