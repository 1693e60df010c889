/** Each block of code on each page does what the page says: it compiles under `strict`, and it runs. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { beforeAll, describe, expect, test } from "vitest";
import { openQueue } from "../../src/index.ts";
import { temporaryFolder } from "../support/queue.ts";
import { codeIn, readPages, root } from "./pages.ts";
import { fileOf, programOf, writePrograms } from "./programs.ts";
import { installed, run, tsc } from "./scratch.ts";

const pages = readPages();
const typescript = codeIn(pages, "ts");
const quickstart = typescript.find((block) => fileOf(block).endsWith("/quickstart.mts"));

let folder = "";

beforeAll(() => {
  const installation = installed();
  folder = installation.folder;
  writePrograms(folder, pages, typescript);
  return () => installation.remove();
});

/** Runs a program of the scratch folder, in a folder of its own. */
const runProgram = (path: string) =>
  run(["--import", import.meta.resolve("tsx"), join(folder, path)], temporaryFolder());

test("every block of TypeScript compiles under strict", async () => {
  expect(typescript.length).toBeGreaterThan(20);
  expect(await tsc(["-p", "."], folder)).toEqual({ code: 0, output: "" });
});

describe("the TypeScript of a page runs, from its first block to its last", () => {
  for (const page of pages.filter(({ path }) => typescript.some((block) => block.page === path))) {
    test(page.path, async () => {
      const { code, output } = await runProgram(programOf(page));
      expect({ code, output }).toMatchObject({ code: 0, output: expect.stringMatching(/^done$/m) });
      for (const line of promisedOutput(page.path)) expect(output.split("\n")).toContain(line);
    });
  }
});

/** `console.log(…); // => 3`: what the page says that its code prints. */
function promisedOutput(page: string): string[] {
  const promised = /^\s*console\.log\(.*\); \/\/ => (.+)$/gm;
  const code = typescript.filter((block) => block.page === page);
  return code.flatMap(({ text }) => Array.from(text.matchAll(promised), ([, line]) => line as string));
}

describe("the quickstart", () => {
  test("has at most 25 lines, and comes first", () => {
    expect(quickstart).toBe(typescript[0]);
    expect(quickstart?.text.trimEnd().split("\n").length).toBeLessThanOrEqual(25);
  });

  test("prints what the README says, and ends", async () => {
    const promised = /It prints `([^`]+)`/.exec(readFileSync(join(root, "README.md"), "utf8"))?.[1];
    expect(await runProgram("pages/README.md/quickstart.mts")).toEqual({ code: 0, output: `${promised}\n` });
  });
});

describe("SQL", () => {
  test("every block runs on the tables that dbq makes", async () => {
    const client = await migrated();
    const sql = codeIn(pages, "sql");
    expect(sql.length).toBeGreaterThan(3);
    for (const { page, line, text } of sql) {
      expect(() => client.exec(text), `${page}:${line}`).not.toThrow();
    }
    // What the page says of them: two plain tasks, one for later, one of two with the same key; the first cancelled.
    const rows = client.prepare("select func, status, generation_id as g from dbq_tasks order by id").all();
    expect(rows).toEqual([
      { func: "resize", status: "cancelled", g: 2 },
      { func: "resize", status: "pending", g: 1 },
      { func: "report", status: "scheduled", g: 1 },
      { func: "sync", status: "pending", g: 1 },
    ]);
    client.close();
  });

  test("the tables of the page have the columns and indices that are there", async () => {
    const client = await migrated();
    const page = readFileSync(join(root, "docs/schema-and-raw-sql.md"), "utf8");
    const named = (section: string) => firstCells(page.split(`## ${section}\n`)[1]?.split("\n## ")[0] ?? "");
    const there = client
      .prepare(
        "select name from pragma_table_info('dbq_tasks') union all select name from sqlite_master where type = 'index' and tbl_name = 'dbq_tasks'",
      )
      .pluck();
    expect(named("dbq_tasks").sort()).toEqual((there.all() as string[]).sort());
    client.close();
  });
});

/** The names in the first column of the tables of a section. */
function firstCells(section: string): string[] {
  const cells = Array.from(section.matchAll(/^\| (`[^|]+) \|/gm), ([, cell]) => cell as string);
  return cells.flatMap((cell) => Array.from(cell.matchAll(/`([^`]+)`/g), ([, name]) => name as string));
}

async function migrated(): Promise<Database.Database> {
  const path = join(temporaryFolder(), "dbq.db");
  await (await openQueue(path)).close();
  return new Database(path);
}

test("an app's own drizzle-kit generates tables on which a queue opens and changes nothing", async () => {
  const drizzleKit = join(root, "node_modules/drizzle-kit/bin.cjs");
  const schema = "pages/docs-schema-and-raw-sql.md/schema.ts";
  const generated = await run(
    [drizzleKit, "generate", "--dialect", "sqlite", "--schema", schema, "--out", "generated"],
    folder,
  );
  expect(generated).toMatchObject({ code: 0 });
  const path = join(temporaryFolder(), "app.db");
  const client = new Database(path);
  const migrations = readdirSync(join(folder, "generated")).filter((name) => name.endsWith(".sql"));
  for (const name of migrations) client.exec(readFileSync(join(folder, "generated", name), "utf8"));
  const tables = client.prepare(
    "select name, sql from sqlite_master where name not like 'sqlite_%' order by name",
  );
  const made = tables.all();
  expect(made).toContainEqual(expect.objectContaining({ name: "invoices" }));
  await (await openQueue(path)).close();
  expect(tables.all()).toEqual(made);
  // The same as dbq would have made them.
  const own = (await migrated())
    .prepare(
      "select name, sql from sqlite_master where name like 'dbq_%' and name not like 'dbq_migrations%' order by name",
    )
    .all();
  expect(made).toEqual(expect.arrayContaining(own));
  client.close();
});

describe("shell", () => {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const { page, line, text } of codeIn(pages, "sh").filter((block) => block.page !== "docs/cli.md")) {
    test(`${page}:${line} names scripts and files that there are`, () => {
      const scripts = Array.from(text.matchAll(/npm (?:run )?(\w+)/g), ([, name]) => name);
      for (const name of scripts)
        if (name !== "install" && name !== "ci") expect(manifest.scripts).toHaveProperty(String(name));
      const files = Array.from(
        text.matchAll(/\b((?:examples|test|scripts)\/\S+)/g),
        ([, path]) => path as string,
      );
      for (const path of files) expect(existsSync(join(root, path)), path).toBe(true);
    });
  }
});
