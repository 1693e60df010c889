/** A queue whose tables are in a schema of their own, which each statement names: `openQueue(url, { schema })`. */

import { drizzle } from "drizzle-orm/postgres-js";
import { Client } from "pg";
import postgres from "postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { dueLooks } from "../../../src/features/sql.ts";
import { moveQueue, openQueue, type Queue, type QueueOptions, task } from "../../../src/index.ts";
import { skipLockedDialect } from "../../../src/stores/postgres/dialect.ts";
import { migrations } from "../../../src/stores/postgres/embedded.ts";
import { channelOf } from "../../../src/stores/postgres/listener.ts";
import { cycleStatements } from "../../../src/stores/postgres/settle-and-claim.ts";
import { workersOwn } from "../../../src/stores/sql/claim-features.ts";
import { Compiler } from "../../../src/stores/sql/compile.ts";
import { dueTextsOf } from "../../../src/stores/sql/due-looks.ts";
import { textsOf } from "../../../src/stores/sql/texts.ts";
import { postgresServer } from "../../support/postgres.ts";
import { deferred, startedWorker, temporaryQueue } from "../../support/queue.ts";
import { isMissing, newName } from "../../support/server.ts";

const add = task("addInSchema", async (a: number, b: number) => a + b);

describe("the text of a statement", () => {
  const texts = textsOf(skipLockedDialect);
  const all = {
    ...texts.statements,
    probes: texts.candidates(2),
    cycle: cycleStatements(texts).of(workersOwn).all(2),
    due: dueTextsOf(dueLooks)(skipLockedDialect).all,
  };
  const style = { quote: '"', parameter: (i: number) => `$${i + 1}`, items: skipLockedDialect.items };

  it.each(Object.entries(all))(
    "%s names the schema before each table, and nothing else changes",
    (_, statement) => {
      const [plain, named] = [new Compiler(style), new Compiler({ ...style, schema: "jobs" })].map(
        (compiler) => compiler.compile(statement).text,
      );
      expect(plain).not.toContain("jobs");
      expect(named).toMatch(/"jobs"\.dbq_/);
      expect(named).not.toMatch(/(?<!"jobs"\.)\bdbq_(tasks|attempts|workers)\b/);
      expect(named?.replaceAll('"jobs".', "")).toBe(plain);
    },
  );
});

it("generated migrations name no schema, so that they run in any", () => {
  const texts = migrations.flatMap(({ sql }) => sql);
  expect(texts.length).toBeGreaterThan(3);
  for (const text of texts) expect(text).not.toMatch(/"\."|"public"/);
});

it("the queue without a schema, and that in public, notify on the channel of older workers", () => {
  expect([channelOf(undefined), channelOf("public"), channelOf("jobs")]).toEqual(["dbq", "dbq", "dbq:jobs"]);
  expect(channelOf("s".repeat(63))).toHaveLength(63);
});

describe("openQueue refuses", () => {
  const url = "postgres://ada@127.0.0.1:1/app";
  const expected = "expected 1 to 63 of the characters A-Z a-z 0-9 _ -, not beginning with pg_";

  it.each(["", 'a"b', "a'b", "a.b", "a b", "größe", "a".repeat(64), "pg_jobs", "information_schema", 7])(
    "%j as the name of a schema",
    async (schema) => {
      const opening = openQueue(url, { schema } as QueueOptions);
      await expect(opening).rejects.toThrow(TypeError);
      await expect(opening).rejects.toThrow(`openQueue: schema: ${expected}`);
    },
  );

  it("a wrong name in a URL, without its password", async () => {
    const opening = openQueue("postgres://ada:secret@127.0.0.1:1/app?schema=a.b");
    await expect(opening).rejects.toThrow(
      new TypeError(
        `openQueue: the parameter schema of postgres://ada:***@127.0.0.1:1/app?schema=a.b: ${expected}, got "a.b"`,
      ),
    );
  });

  it("an option and a URL that name different schemas", async () => {
    await expect(openQueue(`${url}?schema=one`, { schema: "two" })).rejects.toThrow(
      new TypeError('openQueue: the option schema is "two", and the URL says "one": name one schema'),
    );
  });

  it.each([
    ["a file", ":memory:", { schema: "jobs" }, /on SQLite a file has one queue/],
    [
      "MySQL",
      "mysql://ada@127.0.0.1:1/app",
      { schema: "jobs" },
      /on MySQL and MariaDB a schema is a database/,
    ],
    ["a URL of MySQL that names one", "mysql://ada@127.0.0.1:1/app?schema=jobs", {}, /"jobs"/],
  ])("a schema on %s", async (_, target, options, message) => {
    await expect(openQueue(target, options)).rejects.toThrow(TypeError);
    await expect(openQueue(target, options)).rejects.toThrow(message);
  });
});

const server = await postgresServer();

/** The server's URL with settings of the session. */
function urlWith(settings: string): string {
  const url = new URL(server.url ?? "");
  url.search = `?options=${encodeURIComponent(settings)}`;
  return url.href;
}

/** The search path leads nowhere: a name without a schema is neither found nor created. */
const nowhere = "-c search_path=nowhere";

async function connected(): Promise<Client> {
  const client = new Client({ connectionString: server.url });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** A name of a schema that does not exist, and a URL. */
async function missingSchema(name = newName()) {
  const client = await connected();
  onTestFinished(async () => void (await client.query(`drop schema if exists "${name}" cascade`)));
  return { schema: name, url: urlWith(nowhere), client };
}

/** A role without rights, and a URL by which a session has it. */
async function role(client: Client) {
  const name = newName();
  await client.query(`create role ${name}`);
  onTestFinished(async () => void (await client.query(`drop owned by ${name}; drop role ${name}`)));
  return { name, url: urlWith(`${nowhere} -c role=${name}`) };
}

const tablesIn = async (client: Client, schema: string) => {
  const text = "select tablename as name from pg_tables where schemaname = $1 order by 1";
  return (await client.query<{ name: string }>(text, [schema])).rows.map(({ name }) => name);
};

describe.skipIf(isMissing(server))("a queue in a schema of Postgres", () => {
  it("makes the schema, with a name of any case, and all of its tables in it", async () => {
    const { schema, url, client } = await missingSchema(`${newName()}-My-Schema`);
    const queue = await temporaryQueue({ schema }, url);
    await startedWorker(queue, { tasks: [add] });
    expect(await queue.awaitTaskResult(await queue.enqueueTask(add, 2, 3))).toBe(5);
    expect(await tablesIn(client, schema)).toEqual(
      expect.arrayContaining(["dbq_attempts", "dbq_migrations", "dbq_tasks", "dbq_workers"]),
    );
    // A second opening finds its history there.
    await temporaryQueue({ schema, migrate: false }, `${url}&schema=${schema}`);
  });

  it("shares no task, worker or wake-up with a queue in another schema of the database", async () => {
    const [one, two] = [await missingSchema(), await missingSchema()];
    const queue = await temporaryQueue({}, `${one.url}&schema=${one.schema}`);
    const other = await temporaryQueue({ schema: two.schema }, two.url);
    const heard: string[] = [];
    const end = deferred<void>();
    one.client.on("notification", ({ channel }) => {
      heard.push(channel);
      if (channel === "end") end.resolve();
    });
    await one.client.query(`listen "dbq:${one.schema}"; listen "end"`);
    await startedWorker(other, { tasks: [add] });
    await other.awaitTaskResult(await other.enqueueTask(add, 1, 1));
    await two.client.query(`notify "end"`);
    await end.promise;
    expect(heard).toEqual(["end"]);
    expect([await queue.listTasks(), await queue.listWorkers()]).toEqual([[], []]);
  });

  it("notifies on the channel of its schema, also in an app's transaction", async () => {
    const { schema, url, client } = await missingSchema();
    const queue = await temporaryQueue({ schema }, url);
    const heard = deferred<string>();
    client.on("notification", ({ channel }) => heard.resolve(channel));
    await client.query(`listen "dbq:${schema}"`);
    await queue.transaction(async (_tx: unknown, q) => await q.enqueueTask(add, 1, 1));
    expect(await heard.promise).toBe(`dbq:${schema}`);
  });

  it("works through an app's database whose search path leads elsewhere", async () => {
    const { schema, url } = await missingSchema();
    const client = postgres(url);
    onTestFinished(() => client.end());
    const db = drizzle({ client });
    const queue = await temporaryQueue({ schema }, db);
    const id = await db.transaction(async (tx) => await queue.within(tx).enqueueTask(add, 1, 2));
    await startedWorker(queue, { tasks: [add], pollInterval: 50 });
    expect(await queue.awaitTaskResult(id)).toBe(3);
  });

  it("is the same queue as that of a connection whose search path begins with the schema", async () => {
    const { schema, url } = await missingSchema();
    const named = await temporaryQueue({ schema }, url);
    const found = await temporaryQueue({}, urlWith(`-c search_path=${schema}`));
    expect(await found.getTask(await named.enqueueTask(add, 1, 2))).toMatchObject({ args: [1, 2] });
  });

  it("says which schema is missing to a user who may not create it, and how to create it", async () => {
    const { schema, client } = await missingSchema();
    const { url } = await role(client);
    const opening = openQueue(url, { schema });
    await expect(opening).rejects.toMatchObject({ name: "DatabaseError", cause: { code: "42501" } });
    await expect(opening).rejects.toThrow(
      `there is no such schema: as a user who may, with the name of this one for ROLE, run: create schema "${schema}" authorization ROLE`,
    );
    await expect(openQueue(url, { schema, migrate: false })).rejects.toThrow(
      `there is no table ${schema}.dbq_tasks`,
    );
  });

  it("says which right is missing to a user who may not look into the schema", async () => {
    const { schema, client } = await missingSchema();
    const { url } = await role(client);
    await client.query(`create schema ${schema}`);
    await expect(openQueue(url, { schema })).rejects.toThrow(
      `permission denied for schema ${schema} (42501): as a user who may, with the name of this one for ROLE, run: grant usage on schema "${schema}" to ROLE`,
    );
  });

  it("needs no right to create schemas where the schema is there", async () => {
    const { schema, client } = await missingSchema();
    const { name, url } = await role(client);
    await client.query(`create schema ${schema} authorization ${name}`);
    const queue = await temporaryQueue({ schema }, url);
    expect(await queue.listTasks()).toEqual([]);
  });

  it("names its schema in doctor's facts", async () => {
    const { schema, url } = await missingSchema();
    const { inspectQueue } = await import("../../../src/index.ts");
    const { database } = await inspectQueue(await temporaryQueue({ schema }, url), {});
    expect(database).toContainEqual({ name: "schema", value: schema });
  });

  it("moves to another schema of the same database, and refuses tasks from then on", async () => {
    const [one, two] = [await missingSchema(), await missingSchema()];
    const open = ({ schema, url }: typeof one): Promise<Queue> => temporaryQueue({ schema }, url);
    const [from, to] = [await open(one), await open(two)];
    const id = await from.enqueueTask(add, 1, 2);
    await moveQueue(from, to, { names: { to: two.schema } });
    expect(await to.getTask(id)).toMatchObject({ args: [1, 2] });
    await expect(from.enqueueTask(add, 3, 4)).rejects.toThrow(
      `this queue moves to ${two.schema}: this database takes no more tasks`,
    );
    expect(await to.enqueueTask(add, 3, 4)).toBe(Number(id) + 1);
  });
});
