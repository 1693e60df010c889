/** The command line on a schema of Postgres, which the URL names. */
import { describe, expect, onTestFinished, test } from "vitest";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { dbq, dbqJson } from "./dbq.ts";

/** A URL of an existing schema, by whose connections no other one is found. */
async function urlOfSchema(): Promise<{ url: string; name: string }> {
  const { url, name, drop } = await newSchema();
  onTestFinished(drop);
  return { url: `${url.replace(`search_path=${name}`, "search_path=nowhere")}&schema=${name}`, name };
}

describe.skipIf(isMissing(await postgresServer()))("the parameter schema in --db", () => {
  test("is where a command makes the tables, and where move takes the tasks from and puts them", async () => {
    const [folder, old, now] = [temporaryFolder(), await urlOfSchema(), await urlOfSchema()];
    await dbqJson(folder, ["enqueue", "add", "[1, 2]", "--db", old.url]);
    expect(await dbqJson(folder, ["move", "--from", old.url, "--to", now.url])).toMatchObject({ tasks: 1 });
    expect(await dbqJson(folder, ["list", "--db", now.url])).toMatchObject([{ func: "add", args: [1, 2] }]);
    const { out } = await dbq(folder, ["doctor", "--json", "--db", now.url]);
    expect(JSON.parse(out).database).toContainEqual({ name: "schema", value: now.name });
  });
});
