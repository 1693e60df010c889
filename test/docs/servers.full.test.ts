/** What the pages say about Postgres, MySQL and MariaDB: their SQL runs there, and the grants are enough. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { openQueue, task } from "../../src/index.ts";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { startedWorker, temporaryQueue } from "../support/queue.ts";
import { isMissing, newName } from "../support/server.ts";
import { columnsNamedIn, type Page, readPages, sqlOf } from "./pages.ts";

const pages = readPages();
const schemaPage = pages.find(({ path }) => path === "docs/schema-and-raw-sql.md") as Page;
const password = "s3cret";

/** A database without tables, and what a user of it sees by SQL. */
interface TestDatabase {
  url: string;
  rows(text: string): Promise<unknown[][]>;
  run(text: string): Promise<unknown>;
}

const columnsAndIndices = {
  Postgres: `select column_name from information_schema.columns where table_schema = current_schema() and table_name = 'dbq_tasks'
    union all select indexname from pg_indexes
    where schemaname = current_schema() and tablename = 'dbq_tasks' and indexname not like '%_pkey'`,
  MySQL: `select column_name from information_schema.columns where table_schema = database() and table_name = 'dbq_tasks'
    union all select distinct index_name from information_schema.statistics
    where table_schema = database() and table_name = 'dbq_tasks' and index_name <> 'PRIMARY'`,
};

async function postgresHome(): Promise<TestDatabase> {
  const { client, drop, url } = await newSchema();
  onTestFinished(drop);
  const rows = async (text: string) => (await client.query<unknown[]>({ text, rowMode: "array" })).rows;
  return { url, rows, run: (text) => client.query(text) };
}

async function mysqlHome(): Promise<TestDatabase & { database: string }> {
  const { client, drop, name, url } = await newDatabase();
  onTestFinished(drop);
  const rows = async (sql: string) => (await client.query({ sql, rowsAsArray: true }))[0] as unknown[][];
  return { url, rows, run: (text) => client.query(text), database: name };
}

const servers = [
  { dialect: "Postgres", server: postgresServer, newHome: postgresHome },
  { dialect: "MySQL", server: mysqlServer, newHome: mysqlHome },
] as const;

for (const { dialect, server, newHome } of servers) {
  describe.skipIf(isMissing(await server()))(`docs/schema-and-raw-sql.md on ${dialect}`, () => {
    test("every block runs on the tables that dbq makes, and does what the page says", async () => {
      const { url, run, rows } = await newHome();
      await temporaryQueue({}, url);
      const blocks = sqlOf(pages, schemaPage.path, dialect);
      expect(blocks.length).toBeGreaterThan(5);
      for (const { page, line, text } of blocks)
        await run(text).catch((error: Error) => expect.fail(`${page}:${line}: ${error.message}`));
      const there = await rows("select func, status, generation_id from dbq_tasks order by id");
      expect(there.map(([func, status, generation]) => [func, status, Number(generation)])).toEqual([
        ["resize", "cancelled", 2],
        ["resize", "pending", 1],
        ["report", "scheduled", 1],
        ["sync", "pending", 1],
      ]);
    });

    test("a worker runs the tasks that the page inserts", async () => {
      const { url, run } = await newHome();
      const queue = await temporaryQueue({}, url);
      const sync = task(newName(), async (name: string) => `hello ${name}`);
      const [, insert = ""] = sqlOf(pages, schemaPage.path, dialect)
        .map(({ text }) => text)
        .filter((text) => text.startsWith("insert"))
        .map((text) => text.replaceAll("'resize'", `'${sync.taskName}'`).replace("'images'", "'default'"));
      await run(insert.replace(`'{"width": 320}'`, "'{}'"));
      await startedWorker(queue, { tasks: [sync] });
      const [inserted] = await queue.listTasks();
      expect(await queue.awaitTaskResult(inserted?.id ?? 0, { timeout: "20s" })).toBe("hello b.png");
    });

    test("the tables of the page list all columns and indices", async () => {
      const { url, rows } = await newHome();
      await temporaryQueue({}, url);
      const there = (await rows(columnsAndIndices[dialect])).map(([name]) => String(name));
      expect(columnsNamedIn(schemaPage, dialect).sort()).toEqual(there.sort());
    });
  });
}

/** The grants of the page with this test's names: those before the tables exist, and those after. */
function grants(dialect: "Postgres" | "MySQL", names: Readonly<Record<string, string>>): [string, string] {
  const [text = ""] = sqlOf(pages, "docs/databases.md", dialect).map(({ text }) => text);
  const renamed = Object.entries(names).reduce((sql, [name, own]) => sql.replaceAll(name, own), text);
  const [before = "", after = ""] = renamed.split(/^-- after: dbq migrate .*\n/m);
  expect(after).toContain("grant select");
  return [before, after];
}

/** Everything that an app and its worker do. */
async function workOut(url: string): Promise<void> {
  for (const migrate of [true, false]) {
    const queue = await temporaryQueue({ migrate }, url);
    const fine = task(newName(), async (n: number) => n * 2);
    const failing = task(newName(), () => Promise.reject(new Error("no")), { maxRetries: 0 });
    await startedWorker(queue, { tasks: [fine, failing] });
    const wait = { timeout: "20s" } as const;
    expect(await queue.awaitTaskResult(await queue.enqueueTask(fine, 21), wait)).toBe(42);
    const failed = await queue.awaitTaskCompletion(await queue.enqueueTask(failing), wait);
    expect(await queue.listAttempts(failed.id)).toMatchObject([{ outcome: "failed" }]);
    const later = await queue.enqueueTask(fine.with({ delay: "1h", uniqueKey: newName() }), 1);
    expect(await queue.cancelTask(later)).toMatchObject({ status: "cancelled" });
    await queue.transaction(async (_tx: unknown, q) => await q.enqueueTask(fine.with({ delay: "1h" }), 2));
    expect(await queue.purgeTasks()).toMatchObject({ purged: 4 });
    await vi.waitFor(async () => expect(await queue.listWorkers()).toMatchObject([{ sessionLives: true }]), {
      timeout: 20_000,
    });
    await queue.close();
  }
}

describe.skipIf(isMissing(await postgresServer()))("the grants of docs/databases.md on Postgres", () => {
  test("are enough for the owner to migrate, and for the app to work", async () => {
    const { url, run } = await postgresHome();
    const [owner, app, queue] = [newName(), newName(), newName()];
    const [before, after] = grants("Postgres", {
      dbq_owner: owner,
      dbq_app: app,
      "schema queue": `schema ${queue}`,
      "queue.": `${queue}.`,
    });
    await run(before);
    onTestFinished(async () => {
      await run(`drop schema ${queue} cascade; drop role ${owner}, ${app}`);
    });
    await run(`alter role ${owner} password '${password}'; alter role ${app} password '${password}'`);
    const urlOf = (user: string) => {
      const own = new URL(url);
      [own.username, own.password] = [user, password];
      own.search = `schema=${queue}`;
      return own.href;
    };
    await (await openQueue(urlOf(owner))).close();
    await expect(openQueue(urlOf(app))).rejects.toThrow(/permission denied/);
    await run(after);
    await workOut(urlOf(app));
  });
});

describe.skipIf(isMissing(await mysqlServer()))("the grants of docs/databases.md on MySQL", () => {
  test("are enough for the owner to migrate, and for the app to work", async () => {
    const { url, run, database } = await mysqlHome();
    const [owner, app] = [`${database}_o`, `${database}_a`];
    const [before, after] = grants("MySQL", { dbq_owner: owner, dbq_app: app, "app.": `${database}.` });
    await run(before);
    onTestFinished(async () => void (await run(`drop user ${owner}, ${app}`)));
    await run(
      `alter user ${owner} identified by '${password}'; alter user ${app} identified by '${password}'`,
    );
    const urlOf = (user: string) => {
      const own = new URL(url);
      [own.username, own.password] = [user, password];
      return own.href;
    };
    await (await openQueue(urlOf(owner))).close();
    await expect(openQueue(urlOf(app))).rejects.toThrow(/[Dd]enied/);
    await run(after);
    await workOut(urlOf(app));
  });
});

test("the page has as many blocks of SQL for each database", () => {
  const counts = (["SQLite", "Postgres", "MySQL"] as const).map(
    (dialect) => sqlOf(pages, schemaPage.path, dialect).length,
  );
  expect(new Set(counts).size).toBe(1);
});
