/** `dbq doctor` warns of a `drizzle-kit push` that would drop dbq's tables, by the text of the app's configuration. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { drizzleKitFact } from "../../../src/entries/cli/kit-fact.ts";
import type { Diagnosis } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { dbq, folderWithQueue } from "./dbq.ts";

function folderWith(files: Readonly<Record<string, string>>, folder = temporaryFolder()): string {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

const config = (dialect: string, more = "") => `import { defineConfig } from "drizzle-kit";
  // push with tablesFilter: ["!dbq_*"]? Not yet.
  export default defineConfig({ dialect: "${dialect}", schema: "./src/**/*.schema.ts", out: "./drizzle",
    migrations: { table: "m", schema: "drizzle" }, ${more} dbCredentials: { url: process.env.DATABASE_URL! } });`;
const declares = "export * from 'dbq-ts/schema/sqlite';";
const orders = { "src/db/orders.schema.ts": "export const orders = 1;" };

const facts = (name: string, more: Readonly<Record<string, string>> = {}): Diagnosis[] =>
  Object.entries({ [name]: "1.0", database: "app", ...more }).map(([of, value]) => ({ name: of, value }));
const [sqlite, postgres] = [facts("SQLite"), facts("Postgres", { schema: "public" })];

const warningOf = (files: Readonly<Record<string, string>>, database: readonly Diagnosis[]) =>
  drizzleKitFact(folderWith(files), database)?.warning;

describe("a configuration that neither hides nor declares the tables is a problem", () => {
  test.each([
    ["SQLite", "sqlite", 'add tablesFilter: ["!dbq_*"] to it'],
    ["MySQL", "mysql", 'add tablesFilter: ["!dbq_*"] to it'],
    ["MariaDB", "mysql", 'add tablesFilter: ["!dbq_*"] to it'],
    ["Postgres", "postgresql", 'openQueue(url, { schema: "dbq" }), and DBQ_URL with ?schema=dbq'],
  ])("on %s", (name, dialect, fix) => {
    const database = facts(name, { schema: "public" });
    const warning = warningOf({ "drizzle.config.ts": config(dialect), ...orders }, database);
    expect(warning).toContain("would drop dbq's tables with all tasks, since drizzle.config.ts neither");
    expect(warning).toContain(fix);
  });

  test.each(["drizzle.config.js", "drizzle.config.mjs"])("in %s", (file) => {
    expect(warningOf({ [file]: config("sqlite"), ...orders }, sqlite)).toContain(file);
  });

  test("in JSON", () => {
    const json = JSON.stringify({ dialect: "sqlite", schema: ["./src/db"] }, undefined, 2);
    expect(warningOf({ "drizzle.config.json": json, ...orders }, sqlite)).toContain("drizzle.config.json");
  });

  test("when its filter leaves some of the tables in", () => {
    const files = { "drizzle.config.ts": config("sqlite", 'tablesFilter: ["!dbq_tasks"],'), ...orders };
    expect(warningOf(files, sqlite)).toContain("would drop");
  });

  test("when it looks at the schema of the tables", () => {
    const files = {
      "drizzle.config.ts": config("postgresql", 'schemaFilter: ["public", "jobs"],'),
      ...orders,
    };
    expect(warningOf(files, facts("Postgres", { schema: "jobs" }))).toContain("would drop");
  });
});

test("a filter that hides the tables on Postgres is a problem: push fails on their sequences", () => {
  const files = { "drizzle.config.ts": config("postgresql", 'tablesFilter: ["!dbq_*"],'), ...orders };
  expect(warningOf(files, postgres)).toContain("fails on Postgres with this tablesFilter");
});

/** The configuration of a folder in which this version of drizzle-kit is installed, or in a folder above it. */
function factWith(version: string, more: string, schema: string, from = "."): Diagnosis | undefined {
  const files = { "drizzle.config.ts": config("postgresql", more), ...orders };
  const folder = folderWith({ "node_modules/drizzle-kit/package.json": JSON.stringify({ version }) });
  return drizzleKitFact(folderWith(files, join(folder, from)), facts("Postgres", { schema }));
}

describe("drizzle-kit 1.0 on Postgres", () => {
  test("compares all schemas when its configuration has no filter, so it would drop a schema of dbq's own", () => {
    const warning = factWith("1.0.0-rc.5", "", "jobs", "apps/web")?.warning;
    expect(warning).toContain("would drop dbq's tables");
    expect(warning).toContain('add schemaFilter: ["!jobs"] to it');
    expect(factWith("0.31.11", "", "jobs")).toMatchObject({
      value: expect.stringContaining("does not look at"),
    });
  });

  test.each(['["!jobs"]', '["public"]', '"shop_*"'])(
    "leaves a schema alone that schemaFilter %s hides",
    (filter) => {
      const fact = factWith("1.0.0", `schemaFilter: ${filter},`, "jobs");
      expect(fact).toEqual({
        name: "drizzle-kit",
        value: "drizzle.config.ts (does not look at the schema jobs)",
      });
    },
  );

  test("drops a schema of dbq's own also when tablesFilter hides the tables in it", () => {
    expect(factWith("1.0.0", 'tablesFilter: ["!dbq_*"],', "jobs")?.warning).toContain(
      'schemaFilter: ["!jobs"]',
    );
  });

  test("hides the sequences with the tables, so tablesFilter is enough in public", () => {
    const hidden = factWith("1.0.0", 'tablesFilter: ["!dbq_*"],', "public");
    expect(hidden).toEqual({
      name: "drizzle-kit",
      value: "drizzle.config.ts (its tablesFilter leaves dbq's tables out)",
    });
    expect(factWith("1.0.0", "", "public")?.warning).toContain('add tablesFilter: ["!dbq_*"] to it');
  });
});

describe("no problem is", () => {
  test.each<[string, Readonly<Record<string, string>>, readonly Diagnosis[], string | undefined]>([
    ["a folder without drizzle-kit", {}, sqlite, undefined],
    [
      "a configuration for another database",
      { "drizzle.config.ts": config("mysql"), ...orders },
      sqlite,
      undefined,
    ],
    [
      "one whose dialect is computed",
      { "drizzle.config.ts": "export default { dialect: process.env.D, schema: './a.ts' }", "a.ts": "" },
      sqlite,
      undefined,
    ],
    [
      "one for a database of Cloudflare",
      { "drizzle.config.ts": config("sqlite", 'driver: "d1-http",'), ...orders },
      sqlite,
      undefined,
    ],
    [
      "one for another file",
      { "drizzle.config.ts": config("sqlite", 'x: { url: "file:other.db" },'), ...orders },
      sqlite,
      undefined,
    ],
    [
      "one for another database of the server",
      { "drizzle.config.ts": config("mysql", 'x: { url: "mysql://root@127.0.0.1/shop" },'), ...orders },
      facts("MySQL"),
      undefined,
    ],
    [
      "a filter that hides the tables",
      { "drizzle.config.ts": config("sqlite", 'tablesFilter: ["!dbq_*"],'), ...orders },
      sqlite,
      "drizzle.config.ts (its tablesFilter leaves dbq's tables out)",
    ],
    [
      "a filter for the app's own tables",
      { "drizzle.config.ts": config("sqlite", "tablesFilter: 'shop_*',"), ...orders },
      sqlite,
      "drizzle.config.ts (its tablesFilter leaves dbq's tables out)",
    ],
    [
      "a schema of its own on Postgres",
      { "drizzle.config.ts": config("postgresql"), ...orders },
      facts("Postgres", { schema: "jobs" }),
      "drizzle.config.ts (does not look at the schema jobs)",
    ],
    [
      "a schema file with the tables",
      { "drizzle.config.ts": config("sqlite"), ...orders, "src/db/jobs.schema.ts": declares },
      sqlite,
      "drizzle.config.ts (has dbq's tables in its schema)",
    ],
    [
      "a schema file that exports another one with the tables",
      {
        "drizzle.config.ts": config("sqlite"),
        "src/a.schema.ts": 'export * from "./jobs/index.js";',
        "src/jobs/index.ts": declares,
      },
      sqlite,
      "drizzle.config.ts (has dbq's tables in its schema)",
    ],
    [
      "a schema file that imports by an alias",
      { "drizzle.config.ts": config("sqlite"), "src/a.schema.ts": 'export * from "@/jobs";' },
      sqlite,
      "drizzle.config.ts (its schema is not known without running it)",
    ],
    [
      "a filter that is computed",
      { "drizzle.config.ts": config("sqlite", "tablesFilter: filters,"), ...orders },
      sqlite,
      "drizzle.config.ts (its tablesFilter is not known without running it)",
    ],
    [
      "a schema that names no file",
      { "drizzle.config.ts": config("sqlite") },
      sqlite,
      "drizzle.config.ts (its schema is not known without running it)",
    ],
  ])("%s", (_, files, database, value) => {
    expect(drizzleKitFact(folderWith(files), database)).toEqual(
      value === undefined ? undefined : { name: "drizzle-kit", value },
    );
  });
});

test("doctor reports the configuration in its folder, and ends with 1", async () => {
  const { folder } = await folderWithQueue();
  folderWith({ "drizzle.config.ts": config("sqlite", 'x: { url: "./dbq.db" },'), ...orders }, folder);
  const { code, out } = await dbq(folder, ["doctor", "--json"]);
  expect(code).toBe(1);
  expect(JSON.parse(out)).toMatchObject({
    problems: [expect.stringMatching(/^drizzle-kit: "drizzle-kit push" would drop/)],
  });
});
