/** What `dbq doctor` says of a Postgres database. */
import { expect, onTestFinished, test } from "vitest";
import { openPostgres } from "../../../src/stores/postgres/store.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";

const server = await postgresServer();

test.skipIf(isMissing(server))(
  "an index of claims from before this version is a problem, and that of this version is none",
  async () => {
    const schema = await newSchema();
    const store = await openPostgres(schema.url, { migrate: true });
    onTestFinished(async () => {
      await store.close();
      await schema.drop();
    });
    const found = async () => (await store.diagnose()).find(({ name }) => name === "indexes of claims");
    expect(await found()).toEqual({ name: "indexes of claims", value: 2 });
    await schema.client.query(`drop index dbq_tasks_claim; create index dbq_tasks_claim
      on dbq_tasks (queue_name, func, priority desc, id) where status = 'pending'`);
    expect(await found()).toMatchObject({ value: 1, warning: expect.stringContaining("dbq migrate") });
  },
);
