/** The files of the projects that `check-install.mjs` makes: apps as users write them. */
import { readFileSync } from "node:fs";
import { transformSync } from "esbuild";

/** `block` is for a worker inside of the app: it blocks the event loop, and heartbeats go on. */
export const tasks = `
import { task } from "dbq-ts";

export const double = task("double", async (n) => n * 2);
export const block = task("block", async (ms) => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}, { queueName: "own" });
`;

/** Awaits a task of a worker elsewhere. Then counts its own worker's heartbeats while the event loop is blocked. */
const check = `
async function check(url) {
  const queue = await openQueue(url);
  const result = await queue.awaitTaskResult(await queue.enqueueTask(double, 21), { timeout: "120s" });
  const worker = new Worker(queue, { queueName: "own", lease: "1s", tasks: [block] });
  await worker.start();
  const beats = async () => (await queue.listWorkers()).find(({ id }) => id === worker.id)?.beat ?? 0;
  // The event loop sends at most two beside a task. The thread may start late.
  let beatsMeanwhile = 0;
  for (let tries = 0; tries < 20 && beatsMeanwhile < 3; tries += 1) {
    const before = await beats();
    await queue.awaitTaskResult(await queue.enqueueTask(block, 1_300), { timeout: "120s" });
    beatsMeanwhile = (await beats()) - before;
  }
  await worker.stop();
  await queue.close();
  return { result, hasHeartbeatThread: beatsMeanwhile >= 3 };
}
`;

export const app = `
import { openQueue, Worker } from "dbq-ts";
import { block, double } from "./tasks.js";
${check}
console.log(JSON.stringify(await check(process.env.DBQ_URL)));
`;

/** What \`app\` prints, and what the route of \`nextFiles\` answers. */
export const expected = { result: 42, hasHeartbeatThread: true };

/** In CommonJS, since that is what Jest runs without further options. */
export const jestTest = `
const { openQueue, task, Worker } = require("dbq-ts");

test("a task runs", async () => {
  const queue = await openQueue(process.env.DBQ_URL);
  const worker = new Worker(queue);
  const double = task("double", async (n) => n * 2);
  await worker.start();
  expect(await queue.awaitTaskResult(await queue.enqueueTask(double, 21), { timeout: "120s" })).toBe(42);
  await worker.stop();
  await queue.close();
}, 240_000);
`;

/** An example as JavaScript, so that Next needs no TypeScript. @param {string} name */
function example(name) {
  const text = readFileSync(new URL(`../examples/dashboard/${name}.ts`, import.meta.url), "utf8");
  return transformSync(text, { loader: "ts" }).code.replace("./queue.ts", "./queue.js");
}

/** @returns {Record<string, string>} an app with a route handler and the dashboard, and no configuration */
export const nextFiles = () => ({
  "app/ops/dbq/[[...path]]/queue.js": example("queue"),
  "app/ops/dbq/[[...path]]/route.js": example("next-route"),
  "app/layout.js": "export default ({ children }) => <html><body>{children}</body></html>;\n",
  "app/tasks.js": tasks,
  "app/check/route.js": `
import { openQueue, Worker } from "dbq-ts";
import { block, double } from "../tasks.js";
${check}
export const dynamic = "force-dynamic";
export const GET = async () => Response.json(await check(process.env.DBQ_URL));
`,
});

/** Drains one task into BullMQ, and prints what became of it there and here. `REDIS_URL` is the server's. */
export const drainIntoBullmq = `
import { Queue } from "bullmq";
import { openQueue, remoteTask } from "dbq-ts";
import { drain } from "dbq-ts/drain";
import { bullmq } from "dbq-ts/drain/bullmq";

const { hostname: host, port, username, password } = new URL(process.env.REDIS_URL ?? "");
const login = { ...(username ? { username } : {}), ...(password ? { password } : {}) };
const mail = new Queue("dbq-install-" + process.pid, { connection: { host, port: Number(port || 6379), ...login } });
const queue = await openQueue("app.db");
const id = await queue.enqueueTask(remoteTask("send", { queueName: "mail" }), "ada@example.org");
const carrier = drain(queue, { queueName: "mail", to: bullmq(mail) });
const sent = new Promise<string[]>((resolve, reject) => {
  carrier.once("sent", resolve);
  carrier.once("error", reject);
});
await carrier.start();
const [messageId = ""] = await sent;
const job = await mail.getJob(messageId);
await carrier.stop();
console.log(JSON.stringify({ status: (await queue.getTask(id))?.status, name: job?.name, args: job?.data.args }));
await mail.obliterate({ force: true });
await mail.close();
await queue.close();
`;

/** What `drainIntoBullmq` prints. */
export const drained = { status: "completed", name: "send", args: ["ada@example.org"] };

/** An app that has dbq's tables in its own schema on SQLite, and a queue of each kind of target on two databases. */
export const drizzleFiles = {
  "drizzle.config.ts": `
export default { dialect: "sqlite", schema: "./schema.ts", out: "./drizzle" };
`,
  "schema.ts": `
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
export * from "dbq-ts/schema/sqlite";
export const notes = sqliteTable("notes", { id: integer("id").primaryKey(), text: text("text").notNull() });
`,
  "own.ts": `
import Database from "better-sqlite3";
import { openQueue, type Queue, task, type TaskId, Worker } from "dbq-ts";
import { sql } from "drizzle-orm";
import { drizzle as overSqlite } from "drizzle-orm/better-sqlite3";
import { migrate } from "drizzle-orm/better-sqlite3/migrator";
import { drizzle as overPostgres } from "drizzle-orm/node-postgres";
import { pgTable, serial, text } from "drizzle-orm/pg-core";
import { Pool } from "pg";
import { notes } from "./schema.js";

const echo = task("echo", async (text: string) => text);
const pgNotes = pgTable("notes", { id: serial("id").primaryKey(), text: text("text").notNull() });

async function run(queue: Queue, ids: readonly TaskId<string>[]): Promise<string> {
  const worker = new Worker(queue);
  await worker.start();
  const results = await Promise.all(ids.map((id) => queue.awaitTaskResult(id, { timeout: "120s" })));
  await worker.stop();
  return results.join("");
}

async function onSqlite() {
  const db = overSqlite({ client: new Database("app.db") });
  migrate(db, { migrationsFolder: "drizzle" });
  const [own, byUrl] = [await openQueue(db, { migrate: false }), await openQueue("sqlite:app.db", { migrate: false })];
  const ids: TaskId<string>[] = [
    db.transaction((tx) => {
      tx.insert(notes).values({ text: "a" }).run();
      return own.within(tx).enqueueTask(echo, "a");
    }, { behavior: "immediate" }),
    ...(await Promise.all([
      own.transaction((tx, q) => {
        tx.insert(notes).values({ text: "b" }).run();
        return q.enqueueTask(echo, "b");
      }),
      byUrl.transaction((tx, q) => {
        tx.insert(notes).values({ text: "c" }).run();
        return q.enqueueTask(echo, "c");
      }),
    ])),
  ];
  const results = await run(byUrl, ids);
  await Promise.all([own.close(), byUrl.close()]);
  return { results, notes: db.select().from(notes).all().length };
}

async function onPostgres(url: \`postgres://\${string}\`) {
  const pool = new Pool({ connectionString: url });
  const db = overPostgres({ client: pool });
  await db.execute(sql\`create table notes (id serial primary key, text text not null)\`);
  const [own, byUrl] = [await openQueue(db), await openQueue(url)];
  const ids: TaskId<string>[] = [
    await db.transaction(async (tx) => {
      await tx.insert(pgNotes).values({ text: "a" });
      return await own.within(tx).enqueueTask(echo, "a");
    }),
    await own.transaction(async (tx, q) => {
      await tx.insert(pgNotes).values({ text: "b" });
      return await tx.transaction(async (inner) => await own.within(inner).enqueueTask(echo, "b"));
    }),
    await byUrl.transaction(async (tx, q) => {
      const { rows } = await tx.execute<{ n: number }>(sql\`select 1 as n\`);
      await tx.insert(pgNotes).values({ text: "c".repeat(rows[0]?.n ?? 0) });
      return await q.enqueueTask(echo, "c");
    }),
  ];
  const results = await run(own, ids);
  await Promise.all([own.close(), byUrl.close()]);
  const found = await db.select().from(pgNotes);
  await pool.end();
  return { results, notes: found.length };
}

const url = process.env.DBQ_URL as \`postgres://\${string}\`;
console.log(JSON.stringify([await onSqlite(), await onPostgres(url)]));
`,
};

const schemas = ["sqlite", "postgres", "mysql"];
const tables = "Agents Attempts Audit Drains Limits Schedules Settings Stats TaskLogs Tasks Workers".split(
  " ",
);

/** The schemas' sources, and a file that compiles if the package declares the same rows as they do. @returns {Record<string, string>} */
export const schemaFiles = () => ({
  ...Object.fromEntries(
    schemas.map((name) => [
      `${name}.ts`,
      readFileSync(new URL(`../drizzle/${name}.ts`, import.meta.url), "utf8"),
    ]),
  ),
  "rows.ts": `
${schemas.map((name) => `import * as declared_${name} from "dbq-ts/schema/${name}";\nimport * as source_${name} from "./${name}.js";`).join("\n")}
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Rows<T extends { $inferSelect: unknown; $inferInsert: unknown }> = { [K in "$inferSelect" | "$inferInsert"]: { [C in keyof T[K]]: T[K][C] } };
const same = <A, B>(_: Same<A, B>) => undefined;
${schemas.flatMap((name) => tables.map((table) => `same<Rows<typeof declared_${name}.dbq${table}>, Rows<typeof source_${name}.dbq${table}>>(true);`)).join("\n")}
const [declared, source] = [declared_postgres.dbqTables("jobs"), source_postgres.dbqTables("jobs")];
${tables.map((table) => `same<Rows<typeof declared.dbq${table}>, Rows<typeof source.dbq${table}>>(true);`).join("\n")}
same<typeof declared.dbqSchema, typeof source.dbqSchema>(true);
same<keyof typeof declared, keyof typeof source>(true);
`,
});

/** What `own.ts` of `drizzleFiles` prints. */
export const drizzlePrints = [
  { results: "abc", notes: 3 },
  { results: "abc", notes: 3 },
];
