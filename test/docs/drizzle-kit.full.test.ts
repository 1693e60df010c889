/**
 * The recipes of `docs/drizzle-and-migrations.md` with the real drizzle-kit, on each database: what its commands do to dbq's
 * tables.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { openQueue, type QueueOptions, task } from "../../src/index.ts";
import type { Project } from "../package/project.ts";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { newSchemaAlone, postgresServer } from "../support/postgres.ts";
import { startedWorker, temporaryFolder, temporaryQueue } from "../support/queue.ts";
import { isMissing, newName, type Server } from "../support/server.ts";
import { readPage, root } from "./pages.ts";
import { installed, type Ran, run } from "./scratch.ts";

const page = readPage("docs/drizzle-and-migrations.md");

function blockOf(file: string): string {
  const block = page.code.find(({ text }) => text.startsWith(`// ${file}\n`));
  if (block === undefined) throw new Error(`${page.path} has no block of ${file}`);
  return block.text;
}

interface Place {
  url: string;
  /** The names of all tables outside of the server's own schemas. */
  tables(): Promise<string[]>;
}

interface Ground {
  name: string;
  dialect: "sqlite" | "postgresql" | "mysql";
  server(): Promise<Server>;
  place(): Promise<Place>;
  /** A table of the app. */
  orders: string;
  /** The page's schema with dbq's tables. */
  exporting: string;
}

const ordersIn = (module: string, table: string, id: string) => `
import { ${table}, text, ${id.split("(")[0]} } from "drizzle-orm/${module}";
export const orders = ${table}("orders", { id: ${id}.primaryKey(), item: text("item").notNull() });
`;

const grounds: readonly Ground[] = [
  {
    name: "SQLite",
    dialect: "sqlite",
    server: async () => ({ url: "" }),
    place: async () => {
      const url = join(temporaryFolder(), "app.db");
      const names =
        "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by 1";
      return {
        url,
        tables: async () => {
          const client = new Database(url);
          const found = client.prepare(names).pluck().all() as string[];
          client.close();
          return found;
        },
      };
    },
    orders: ordersIn("sqlite-core", "sqliteTable", 'integer("id")'),
    exporting: blockOf("schema.ts"),
  },
  {
    name: "Postgres",
    dialect: "postgresql",
    server: postgresServer,
    place: async () => {
      const { url: given, drop } = await newSchemaAlone();
      onTestFinished(drop);
      const url = new URL(given);
      // Push looks at `public`, and may drop all that it has.
      if (url.pathname === new URL((await postgresServer()).url ?? "").pathname)
        throw new Error("these tests need the right to create databases");
      url.search = "";
      const client = new Client({ connectionString: url.href });
      await client.connect();
      onTestFinished(() => client.end());
      const names = `select case schemaname when 'public' then '' else schemaname || '.' end || tablename as name
        from pg_tables where schemaname not in ('pg_catalog', 'information_schema', 'drizzle') `;
      const tables = async () =>
        (await client.query<{ name: string }>(names)).rows.map(({ name }) => name).sort();
      return { url: url.href, tables };
    },
    orders: ordersIn("pg-core", "pgTable", 'serial("id")'),
    exporting: blockOf("schema-postgres.ts"),
  },
  {
    name: "MariaDB",
    dialect: "mysql",
    server: mysqlServer,
    place: async () => {
      const { url, client, drop } = await newDatabase();
      onTestFinished(drop);
      const names = "select table_name from information_schema.tables where table_schema = database()";
      const tables = async () => {
        const [rows] = await client.query({ sql: names, rowsAsArray: true });
        return (rows as string[][]).map(([name]) => String(name)).sort();
      };
      return { url, tables };
    },
    orders: ordersIn("mysql-core", "mysqlTable", 'int("id").autoincrement()'),
    exporting: `export * from "dbq-ts/schema/mysql";${ordersIn("mysql-core", "mysqlTable", 'int("id").autoincrement()')}`,
  },
];

const add = task(newName(), async (a: number, b: number) => a + b);
const isOfDbq = (name: string) => /\bdbq_/.test(name);
const noTty = /Interactive prompts require a TTY/;

let installation: ReturnType<typeof installed>;
beforeAll(() => {
  installation = installed();
});
afterAll(() => installation.remove());

const { version } = JSON.parse(readFileSync(join(root, "node_modules/drizzle-kit/package.json"), "utf8"));

/** Since 1.0 `push` asks before it drops rows also with `--force`, and compares all schemas of Postgres. */
const isKit1 = !String(version).startsWith("0.");

/** A project with the page's configuration, changed to this database, and runs of drizzle-kit in it. */
function projectFor({ dialect }: Ground, url: string, schema: string) {
  const config = blockOf("drizzle.config.ts")
    .replace('"sqlite"', `"${dialect}"`)
    .replace('"app.db"', `"${url}"`);
  const plain = config.replace(/\n.*tablesFilter.*/, "");
  const filter = dialect === "postgresql" ? 'schemaFilter: ["public"],' : "";
  expect([config, plain].map((text) => text.includes("tablesFilter"))).toEqual([true, false]);
  const project: Project = installation.project(
    newName(),
    { type: "module" },
    {
      "schema.ts": schema,
      "drizzle.config.ts": plain,
      "filter.config.ts": config,
      "schema.config.ts": plain.replace("dbCredentials", `${filter} dbCredentials`),
    },
  );
  const kit = (...args: string[]): Promise<Ran> =>
    run([join(root, "node_modules/drizzle-kit/bin.cjs"), ...args], project.folder);
  /** What `generate` has written: one file a migration, since 1.0 in a folder of its own. */
  const generated = () => {
    const files = readdirSync(join(project.folder, "drizzle"), { recursive: true, encoding: "utf8" });
    const texts = files.filter((file) => file.endsWith(".sql"));
    return texts.map((file) => readFileSync(join(project.folder, "drizzle", file), "utf8")).join();
  };
  return { kit, generated };
}

/** A task in the queue at `url`, and a function that expects it to be there still. */
async function enqueued(url: string, options?: QueueOptions) {
  const queue = await openQueue(url, options);
  const id = await queue.enqueueTask(add, 1, 2);
  await queue.close();
  return async () => {
    const again = await temporaryQueue({ migrate: false, ...options }, url);
    expect(await again.getTask(id)).toMatchObject({ args: [1, 2] });
  };
}

/** Expects that a worker runs a task there. */
async function expectToWork(url: string, options: QueueOptions): Promise<void> {
  const queue = await temporaryQueue(options, url);
  await startedWorker(queue, { tasks: [add] });
  expect(await queue.awaitTaskResult(await queue.enqueueTask(add, 1, 2), { timeout: "20s" })).toBe(3);
}

for (const ground of grounds)
  describe.skipIf(isMissing(await ground.server()))(`drizzle-kit on ${ground.name}`, () => {
    test("push --force drops dbq's tables when nothing hides them", async () => {
      const { url, tables } = await ground.place();
      const { kit } = projectFor(ground, url, ground.orders);
      await kit("push", "--force");
      await enqueued(url);
      const before = await tables();
      expect(before.filter(isOfDbq)).toContain("dbq_tasks");
      const { output } = await kit("push", "--force");
      expect(await tables()).toEqual(isKit1 ? before : ["orders"]);
      if (isKit1) expect(output).toMatch(/Confirm data loss.*\bdbq_tasks\b/);
    });

    test("push with the filter makes the app's tables, and keeps dbq's", async () => {
      const { url, tables } = await ground.place();
      const { kit } = projectFor(ground, url, ground.orders);
      const expectTask = await enqueued(url);
      const before = await tables();
      const { output } = await kit("push", "--force", "--config", "filter.config.ts");
      expect(output).not.toMatch(noTty);
      expect(output.includes("cannot drop sequence dbq_attempts_id_seq")).toBe(
        ground.dialect === "postgresql" && !isKit1,
      );
      expect(await tables()).toEqual([...before, "orders"].sort());
      await expectTask();
    });

    test("generate does not look at dbq's tables, with the filter and without", async () => {
      const { url, tables } = await ground.place();
      const { kit, generated } = projectFor(ground, url, ground.orders);
      const expectTask = await enqueued(url);
      for (const config of ["drizzle.config.ts", "filter.config.ts"]) {
        expect(await kit("generate", "--config", config)).toMatchObject({ code: 0 });
        expect(generated().match(/create table \S+/gi)).toEqual([expect.stringContaining("orders")]);
      }
      await kit("migrate");
      expect(await tables()).toEqual(expect.arrayContaining(["dbq_tasks", "orders"]));
      await expectTask();
    });

    test("generate and migrate make the tables that a schema exports, for a queue that changes nothing", async () => {
      const { url, tables } = await ground.place();
      const { kit } = projectFor(ground, url, ground.exporting);
      await kit("generate");
      expect(await kit("migrate")).toMatchObject({ code: 0 });
      const made = await tables();
      await expectToWork(url, { migrate: false });
      await expectToWork(url, {});
      expect(await tables()).toEqual(made);
      expect(made).not.toContain("dbq_migrations");
      expect((await kit("generate")).output).toContain("No schema changes");
    });
  });

const [sqlite, postgres] = grounds as [Ground, Ground, Ground];

for (const ground of [sqlite, postgres])
  describe.skipIf(isMissing(await ground.server()))(
    `drizzle-kit push of exported tables on ${ground.name}`,
    () => {
      test("keeps their rows", async () => {
        const { url } = await ground.place();
        const { kit } = projectFor(ground, url, ground.exporting);
        await kit("push", "--force");
        const expectTask = await enqueued(url, { migrate: false });
        expect((await kit("push", "--force")).output).toMatch(/Changes applied|No changes detected/);
        await expectTask();
      });
    },
  );

describe.skipIf(isMissing(await postgres.server()))(
  "drizzle-kit beside a schema of its own on Postgres",
  () => {
    test("push leaves the tables in it alone, and finds nothing to change", async () => {
      const { url, tables } = await postgres.place();
      const { kit } = projectFor(postgres, url, postgres.orders);
      const expectTask = await enqueued(url, { schema: "dbq" });
      const before = await tables();
      const push = () => kit("push", "--force", "--config", "schema.config.ts");
      expect((await push()).output).toContain("Changes applied");
      expect((await push()).output).toContain("No changes detected");
      expect(await tables()).toEqual([...before, "orders"].sort());
      await expectTask();
      const { output } = await kit("push", "--force");
      expect(output.includes("Confirm data loss")).toBe(isKit1);
      await expectTask();
    });

    test("generate and migrate make the tables of dbqTables in its schema", async () => {
      const { url, tables } = await postgres.place();
      const { kit } = projectFor(postgres, url, blockOf("schema-of-its-own.ts"));
      await kit("generate");
      expect(await kit("migrate")).toMatchObject({ code: 0 });
      expect(await tables()).toEqual([
        "dbq.dbq_agents",
        "dbq.dbq_attempts",
        "dbq.dbq_audit",
        "dbq.dbq_causes",
        "dbq.dbq_drains",
        "dbq.dbq_events",
        "dbq.dbq_failures",
        "dbq.dbq_limits",
        "dbq.dbq_owed_hooks",
        "dbq.dbq_schedules",
        "dbq.dbq_settings",
        "dbq.dbq_stats",
        "dbq.dbq_steps",
        "dbq.dbq_task_logs",
        "dbq.dbq_tasks",
        "dbq.dbq_waits",
        "dbq.dbq_workers",
      ]);
      await expectToWork(url, { schema: "dbq", migrate: false });
      expect((await kit("generate")).output).toContain("No schema changes");
    });
  },
);
