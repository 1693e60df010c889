/** A role or a database may switch off what dbq's plans depend on: dbq sets it where it has the session, and says so elsewhere. */
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { configOf, connectPostgres } from "../../../src/stores/postgres/connection.ts";
import { openPostgres } from "../../../src/stores/postgres/store.ts";
import { readServerUrl } from "../../../src/stores/server/url.ts";
import { newSchemaAlone, postgresServer, type Schema } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";

const names = ["enable_nestloop", "enable_indexscan", "enable_indexonlyscan", "jit"];

describe.skipIf(isMissing(await postgresServer()))("a role with other settings of the planner", () => {
  let schema: Schema;

  beforeAll(async () => {
    schema = await newSchemaAlone();
    const { rows } = await schema.client.query("select current_database() as name");
    const settings = [...names.slice(0, 3).map((name) => `${name} = off`), "jit = on", "jit_above_cost = 0"];
    for (const setting of settings)
      await schema.client.query(`alter role current_user in database ${rows[0].name} set ${setting}`);
    return schema.drop;
  });

  it.each(["own", "reading"] as const)("does not change the plans of %s connections", async (use) => {
    const { hosts, ...rest } = readServerUrl(schema.url, { port: 5432, user: "postgres" });
    const connection = await connectPostgres(configOf(rest, use), hosts[0] as never, use);
    onTestFinished(() => connection.end());
    const shown = async (name: string) => (await connection.query(`show ${name}`, [])).rows[0]?.[0];
    expect(await Promise.all(names.map(shown))).toEqual(["on", "on", "on", "off"]);
  });

  async function factsOf(sessions: boolean) {
    const store = await openPostgres(schema.url, { migrate: true, sessions });
    onTestFinished(() => store.close());
    return (await store.diagnose()).filter(({ name }) => names.includes(name));
  }

  it("is a fact where dbq's own connections override it", async () => {
    const value = "off for this role, and on for dbq's own connections";
    expect(await factsOf(true)).toEqual(names.slice(0, 3).map((name) => ({ name, value })));
  });

  // `sessions: false` sends no settings, as behind a pooler.
  it("is a problem with its remedy where dbq cannot set it", async () => {
    const facts = await factsOf(false);
    expect(facts.map(({ name, value }) => [name, value])).toEqual([
      ...names.slice(0, 3).map((name) => [name, "off"]),
      ["jit", "on"],
    ]);
    for (const { name, warning } of facts)
      expect(warning).toContain(`alter role … set ${name} = ${name === "jit" ? "off" : "on"}`);
  });
});
