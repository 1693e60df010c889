/** Each block of code on each page does what the page says: it compiles under `strict`, and it runs. */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { json } from "node:stream/consumers";
import { Script } from "node:vm";
import Database from "better-sqlite3";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { alertRules, openQueue } from "../../src/index.ts";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { newSchema, newSchemaAlone, postgresServer } from "../support/postgres.ts";
import { temporaryFolder } from "../support/queue.ts";
import { newRedis, redisServer } from "../support/redis.ts";
import { isMissing } from "../support/server.ts";
import { codeIn, columnsNamedIn, type Page, readPages, root, sqlOf } from "./pages.ts";
import { compiledOf, fileOf, programOf, writePrograms } from "./programs.ts";
import { installed, type Ran, run, tsc } from "./scratch.ts";
import { walks } from "./walk.ts";

/** `scripts/check-install.mjs` compiles and runs this page's code, since its frameworks come from the registry. */
const onFrameworks = "docs/frameworks.md";

const pages = readPages();
const elsewhere = [...walks, onFrameworks];
const typescript = codeIn(pages, "ts").filter(({ page }) => !elsewhere.includes(page));
const quickstart = typescript.find((block) => fileOf(block).endsWith("/quickstart.mts"));

let folder = "";
let compiled: Ran;

beforeAll(async () => {
  const installation = installed();
  folder = installation.folder;
  writePrograms(folder, pages, typescript);
  compiled = await tsc(["-p", "."], folder);
  return () => installation.remove();
  // It installs the package and compiles all pages: a busy machine takes more than a minute.
}, 300_000);

/** Runs a compiled program of the scratch folder, in a new folder. */
const runProgram = (path: string, env?: Readonly<Record<string, string>>) =>
  run([join(folder, path)], temporaryFolder(), { PORT: "0", ...env });

/** The page about servers, and the one about migrations: their code needs a Postgres. The drain's needs a Redis. */
const [onServers, onMigrations] = ["docs/databases.md", "docs/drizzle-and-migrations.md"];
const onDrains = "docs/drain.md";
/** Its code sends reports. */
const onAlerts = "docs/alerts.md";

test("every block of TypeScript compiles under strict", () => {
  expect(typescript.length).toBeGreaterThan(20);
  expect(compiled).toEqual({ code: 0, output: "" });
});

test("every block of JavaScript for a browser is well-formed", () => {
  const blocks = codeIn(pages, "js").filter(({ page }) => !elsewhere.includes(page));
  expect(blocks).not.toEqual([]);
  for (const { page, line, text } of blocks) expect(() => new Script(text), `${page}:${line}`).not.toThrow();
});

test("no block is in a language that nothing checks", () => {
  const checked = ["ts", "js", "sh", "sql", "python", "text", "dockerfile", "ini", "yaml", ""];
  // Code for other queues, which is compiled against their packages.
  const others = ["typescript"];
  const languages = pages.flatMap(({ code }) => code.map(({ language }) => language));
  expect([...checked, ...others]).toEqual(expect.arrayContaining([...new Set(languages)]));
});

describe("the TypeScript of a page runs from its first block to its last", () => {
  const withCode = pages.filter(({ path }) => typescript.some((block) => block.page === path));
  const withServers = [onServers, onMigrations, onDrains, onAlerts];
  for (const page of withCode.filter(({ path }) => !withServers.includes(path)))
    test(page.path, async () => await expectToRun(page));
});

/** Starts the alerts of the page where two things are wrong, ends one of them, and stops when the pager has heard of the end. */
const alerting = `
import { openQueue, remoteTask } from "dbq-ts";
import { alert } from "./alert.js";
import { pagerDuty } from "./pagerduty.js";
import { toSentry } from "./sentry.js";
import { slack } from "./slack.js";

const queue = await openQueue("app.db");
await queue.setCauseThresholds({ pausedAfter: 1, endedAfter: 0 });
await queue.pause({ func: "paused" });
await queue.enqueueTask(remoteTask("paused"));
const unserved = await queue.enqueueTask(remoteTask("unserved"));
await queue.transaction((tx) => tx.run("update dbq_tasks set updated_at = updated_at - 120000, created_at = created_at - 120000 where func = 'unserved'"));
const stopping = new AbortController();
const taken = [];
const sentry = { captureMessage: (message, { fingerprint }) => taken.push(fingerprint[1]), flush: async () => true };
const ends = async (change) => {
  await pagerDuty(change);
  if (change.type === "began" && change.cause.func === "unserved") await queue.cancelTask(unserved);
  if (change.type === "ended") stopping.abort();
};
await Promise.all([
  alert(queue, "slack", slack, stopping.signal),
  alert(queue, "pager", ends, stopping.signal),
  alert(queue, "sentry", toSentry(sentry), stopping.signal),
]);
console.log(taken.join(" "));
await queue.close();
`;

describe(`the TypeScript of ${onAlerts}`, () => {
  const page = pages.find(({ path }) => path === onAlerts) as Page;

  /** A server that takes what is sent to Slack and PagerDuty. */
  async function receiver() {
    const sent: { url: string | undefined; body: Record<string, unknown> }[] = [];
    const server = createServer(async (request, response) => {
      sent.push({ url: request.url, body: (await json(request)) as Record<string, unknown> });
      response.end();
    }).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return { sent, env: { SLACK_WEBHOOK_URL: `${url}/slack`, PAGERDUTY_EVENTS_URL: `${url}/pager` } };
  }

  test("runs from its first block to its last", async () => {
    await expectToRun(page, (await receiver()).env);
  });

  test("sends what begins and what ends", async () => {
    const { sent, env } = await receiver();
    const own = `${dirname(programOf(page))}/alerting.js`;
    writeFileSync(join(folder, own), alerting);
    expect(await runProgram(own, env)).toEqual({
      code: 0,
      output: "unserved:default:unserved paused:func:paused\n",
    });
    const to = (url: string) => sent.filter((one) => one.url === url).map(({ body }) => body);
    // The watch for Slack may or may not have heard of the end when all are stopped.
    expect(
      to("/slack")
        .map(({ text }) => String(text))
        .slice(0, 2),
    ).toEqual([
      expect.stringMatching(/^:rotating_light: 1 task of unserved/),
      expect.stringMatching(/^:warning: the function paused is paused since .*\n`dbq resume --func paused`$/),
    ]);
    expect(to("/pager")).toMatchObject([
      {
        event_action: "trigger",
        dedup_key: "unserved:default:unserved",
        payload: { severity: "critical", source: "default" },
      },
      { event_action: "resolve", dedup_key: "unserved:default:unserved" },
    ]);
  });

  test("the configuration of Prometheus is what its own program reads", ({ skip }) => {
    if (spawnSync("promtool", ["--version"]).status !== 0)
      return skip("the program `promtool`, of Prometheus, is not installed");
    const files = temporaryFolder();
    for (const { text } of page.code.filter(({ language }) => language === "yaml"))
      writeFileSync(join(files, String(/^# ([\w.-]+)\n/.exec(text)?.[1])), text);
    writeFileSync(join(files, "dbq-rules.yml"), alertRules());
    const check = (...args: string[]) => spawnSync("promtool", args, { cwd: files, encoding: "utf8" });
    expect(check("check", "config", "prometheus.yml")).toMatchObject({ status: 0 });
    expect(check("check", "rules", "own-rules.yml")).toMatchObject({ status: 0 });
  });

  test("the configuration of Alertmanager is what its own program reads: critical causes go to the pager, others to the chat", ({
    skip,
  }) => {
    if (spawnSync("amtool", ["--version"]).status !== 0)
      return skip("the program `amtool`, of Prometheus' Alertmanager, is not installed");
    const own = page.code.find(({ text }) => text.startsWith("# alertmanager.yml\n"));
    const file = join(temporaryFolder(), "alertmanager.yml");
    writeFileSync(file, String(own?.text));
    const amtool = (...args: string[]) => spawnSync("amtool", args, { encoding: "utf8" });
    expect(amtool("check-config", file)).toMatchObject({ status: 0 });
    const receiverOf = (...labels: string[]) =>
      amtool("config", "routes", "test", `--config.file=${file}`, ...labels).stdout.trim();
    expect(receiverOf("alertname=DbqUnserved", "severity=critical")).toBe("pager");
    expect(receiverOf("alertname=DbqPiling", "severity=warning")).toBe("chat");
  });
});

describe.skipIf(isMissing(await redisServer()))("with a Redis", () => {
  test(onDrains, async () => {
    const redis = process.env.DBQ_TEST_REDIS_URL === undefined ? await newRedis() : undefined;
    onTestFinished(async () => await redis?.kill());
    const page = pages.find(({ path }) => path === onDrains) as Page;
    await expectToRun(page, { REDIS_URL: redis?.url ?? String(process.env.DBQ_TEST_REDIS_URL) });
  });
});

async function expectToRun(page: Page, env?: Readonly<Record<string, string>>): Promise<void> {
  const { code, output } = await runProgram(programOf(page), env);
  expect({ code, output }).toMatchObject({ code: 0, output: expect.stringMatching(/^done$/m) });
  for (const line of promisedOutput(page.path)) expect(output.split("\n")).toContain(line);
}

/** `console.log(…); // => 3`: the output that the page promises for its code. */
function promisedOutput(page: string): string[] {
  const promised = /^\s*console\.log\(.*\); \/\/ => (.+)$/gm;
  const code = typescript.filter((block) => block.page === page);
  return code.flatMap(({ text }) => Array.from(text.matchAll(promised), ([, line]) => line as string));
}

describe("the quickstart", () => {
  test("has at most 25 lines, and is the first block", () => {
    expect(quickstart).toBe(typescript[0]);
    expect(quickstart?.text.trimEnd().split("\n").length).toBeLessThanOrEqual(25);
  });

  test("prints what the README says, and exits", async () => {
    const promised = /It prints `([^`]+)`/.exec(readFileSync(join(root, "README.md"), "utf8"))?.[1];
    expect(await runProgram(compiledOf("pages/README.md/quickstart.mts"))).toEqual({
      code: 0,
      output: `${promised}\n`,
    });
  });
});

describe("SQL", () => {
  test("every block runs on the tables that dbq makes", async () => {
    const client = await migrated();
    const sql = sqlOf(pages, "docs/schema-and-raw-sql.md", "SQLite");
    expect(sql.length).toBeGreaterThan(3);
    for (const { page, line, text } of sql) {
      expect(() => client.exec(text), `${page}:${line}`).not.toThrow();
    }
    // What the page says about them: two plain tasks, one delayed, one of two with the same key; the first is
    // cancelled.
    const rows = client.prepare("select func, status, generation_id as g from dbq_tasks order by id").all();
    expect(rows).toEqual([
      { func: "resize", status: "cancelled", g: 2 },
      { func: "resize", status: "pending", g: 1 },
      { func: "report", status: "scheduled", g: 1 },
      { func: "sync", status: "pending", g: 1 },
    ]);
    client.close();
  });

  test.each(["docs/recipes.md", "docs/deploying.md"])("every block of %s runs on them, too", async (path) => {
    const client = await migrated();
    const sql = sqlOf(pages, path, "SQLite");
    expect(sql).not.toEqual([]);
    for (const { line, text } of sql) expect(() => client.exec(text), `${path}:${line}`).not.toThrow();
    client.close();
  });

  test("the Python of docs/recipes.md enqueues a task", async ({ skip }) => {
    const path = join(temporaryFolder(), "app.db");
    const queue = await openQueue(path);
    onTestFinished(() => queue.close());
    const [program] = codeIn(pages, "python");
    const { error, status } = spawnSync("python3", ["-c", String(program?.text)], { cwd: dirname(path) });
    if (error !== undefined) return skip("python3 is not installed");
    expect(status).toBe(0);
    expect(await queue.listTasks()).toMatchObject([
      { func: "resize", args: ["a.png", 320], status: "pending" },
    ]);
  });

  test("the tables of the page list all columns and indices", async () => {
    const client = await migrated();
    const page = pages.find(({ path }) => path === "docs/schema-and-raw-sql.md") as Page;
    const named = columnsNamedIn(page, "SQLite");
    const there = client
      .prepare(
        "select name from pragma_table_info('dbq_tasks') union all select name from sqlite_master where type = 'index' and tbl_name = 'dbq_tasks'",
      )
      .pluck();
    expect(named.sort()).toEqual((there.all() as string[]).sort());
    client.close();
  });
});

async function migrated(): Promise<Database.Database> {
  const path = join(temporaryFolder(), "dbq.db");
  await (await openQueue(path)).close();
  return new Database(path);
}

/** What an app's own drizzle-kit generates from a schema in the scratch folder. */
async function generated(dialect: "sqlite" | "postgresql" | "mysql", schema: string): Promise<string[]> {
  const drizzleKit = join(root, "node_modules/drizzle-kit/bin.cjs");
  const out = `generated-${dialect}`;
  const args = ["--dialect", dialect, "--schema", schema, "--out", out];
  expect(await run([drizzleKit, "generate", ...args], folder)).toMatchObject({ code: 0 });
  const files = readdirSync(join(folder, out)).filter((name) => name.endsWith(".sql"));
  expect(files).not.toEqual([]);
  const texts = files.map((name) => readFileSync(join(folder, out, name), "utf8"));
  // The end of a statement, which is a comment to SQLite and Postgres.
  return texts.map((text) => text.replaceAll("--> statement-breakpoint", ""));
}

interface Column {
  table: string;
}

/** Columns, and the definitions of indices: after an ALTER TABLE the text differs from that of a CREATE TABLE. */
function tablesOf(client: Database.Database): Column[] {
  const text = `select m.name as "table", c.name, c.type, c."notnull", c.dflt_value, c.pk, null as definition
      from sqlite_master m join pragma_table_info(m.name) c where m.type = 'table' and m.name not like 'sqlite_%'
    union all
    select tbl_name, name, null, null, null, null, sql from sqlite_master where type = 'index' and sql is not null
    order by 1, 2`;
  return client.prepare<[], Column>(text).all();
}

test("an app's own drizzle-kit generates tables on which a queue opens and changes nothing", async () => {
  const migrations = await generated("sqlite", "pages/docs-drizzle-and-migrations.md/schema.ts");
  const path = join(temporaryFolder(), "app.db");
  const client = new Database(path);
  for (const sql of migrations) client.exec(sql);
  const tables = tablesOf(client);
  expect(tables).toContainEqual(expect.objectContaining({ table: "invoices" }));
  await (await openQueue(path)).close();
  expect(tablesOf(client)).toEqual(tables);
  // The same tables that dbq would create.
  const own = await migrated();
  const isHistory = ({ table }: Column) => table.startsWith("dbq_migrations");
  expect(tables).toEqual(expect.arrayContaining(tablesOf(own).filter((column) => !isHistory(column))));
  own.close();
  client.close();
});

const described = `select table_name, column_name, data_type, column_default, is_nullable from information_schema.columns
  where table_schema = (select SCHEMA) order by 1, 2`;

describe.skipIf(isMissing(await postgresServer()))("on Postgres", () => {
  test("the schema of a page makes the tables that dbq would make, and the code of its pages runs on them", async () => {
    // Its code makes a schema with a name of its own.
    const [theirs, own] = [await newSchemaAlone(), await newSchema()];
    for (const { drop } of [theirs, own]) onTestFinished(drop);
    for (const sql of await generated(
      "postgresql",
      "pages/docs-drizzle-and-migrations.md/schema-postgres.ts",
    ))
      await theirs.client.query(sql);
    await (await openQueue(own.url)).close();
    const tables = async ({ client, name }: typeof own) => {
      const { rows } = await client.query(described.replace("SCHEMA", "current_schema()"));
      const { rows: indices } = await client.query(
        "select indexname, replace(indexdef, current_schema(), '') as def from pg_indexes where schemaname = current_schema() order by indexname",
      );
      return [...rows, ...indices].map((row) => JSON.stringify(row).replaceAll(`${name}.`, ""));
    };
    const made = await tables(theirs);
    expect(made).toEqual(expect.arrayContaining((await tables(own)).filter(isNoHistory)));
    for (const page of pages.filter(({ path }) => path === onServers || path === onMigrations))
      await expectToRun(page, { DATABASE_URL: theirs.url });
    expect(await tables(theirs)).toEqual(made);
  });
});

describe.skipIf(isMissing(await mysqlServer()))("on MySQL", () => {
  test("the schema for MySQL makes the tables that dbq would make", async () => {
    const [theirs, own] = [await newDatabase(), await newDatabase()];
    for (const { drop } of [theirs, own]) onTestFinished(drop);
    const exported = `export { dbqAgents, dbqAttempts, dbqAudit, dbqCauses, dbqDrains, dbqEvents, dbqFailures, dbqLimits, dbqOwedHooks, dbqSchedules, dbqSettings, dbqStats, dbqSteps, dbqTaskLogs, dbqTasks, dbqWaits, dbqWorkers } from "dbq-ts/schema/mysql";`;
    writeFileSync(join(folder, "schema-mysql.ts"), exported);
    for (const sql of await generated("mysql", "schema-mysql.ts")) await theirs.client.query(sql);
    await (await openQueue(own.url)).close();
    const tables = async ({ client }: typeof own) => {
      const [rows] = await client.query(described.replace("SCHEMA", "database()"));
      const [indices] = await client.query(
        `select table_name, index_name, column_name, seq_in_index, non_unique from information_schema.statistics
         where table_schema = database()`,
      );
      return [rows, indices].flat().map((row) => JSON.stringify(row));
    };
    const made = await tables(theirs);
    expect(made).toEqual(expect.arrayContaining((await tables(own)).filter(isNoHistory)));
    await (await openQueue(theirs.url)).close();
    expect(await tables(theirs)).toEqual(made);
  });
});

const isNoHistory = (row: string) => !row.includes("dbq_migrations");

const commandsOfNpm = ["ci", "init", "install", "pkg"];

describe("shell", () => {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const { page, line, text } of codeIn(pages, "sh").filter((block) => block.page !== "docs/cli.md")) {
    test(`${page}:${line} names existing scripts and files`, () => {
      const scripts = Array.from(text.matchAll(/npm (?:run )?(\w+)/g), ([, name]) => String(name));
      for (const name of scripts)
        if (!commandsOfNpm.includes(name)) expect(manifest.scripts).toHaveProperty(name);
      const files = Array.from(
        text.matchAll(/\b((?:examples|test|scripts)\/\S+)/g),
        ([, path]) => path as string,
      );
      for (const path of files) expect(existsSync(join(root, path)), path).toBe(true);
    });
  }
});
