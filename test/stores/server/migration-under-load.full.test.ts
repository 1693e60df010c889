/**
 * A deploy: programs of the version before the migration `features` go on while the tables are migrated, and after it. Their
 * statements are here as that version sent them. No statement fails, no task is lost, and a unique key stays unique.
 */
import { readMigrationFiles } from "drizzle-orm/migrator";
import { describe, expect, onTestFinished, test } from "vitest";
import { openQueue, remoteTask } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";

type Run = (text: string, values?: readonly unknown[]) => Promise<readonly Record<string, unknown>[]>;

interface Place {
  url: string;
  /** Another connection at each call. Statements have `?` for their parameters. */
  connect(): Promise<Run>;
  migrations: string;
  /** Inserts a task with a key, or nothing when the key is held. */
  keyed: string;
  fill: string;
}

const columns = `func, args, kwargs, meta, priority, queue_name, max_retries, timeout, request_id, unique_key, fill_defaults,
  trace_context, status`;
const values = "'old', '[]', '{}', '{}', 5, 'default', 3, null, null, ?, 0, null, 'pending'";
const filled = "select 'filling', 'completed' from";

async function onPostgres(): Promise<Place> {
  const { Client } = (await import("pg")).default;
  const { url, drop } = await newSchema();
  onTestFinished(drop);
  return {
    url,
    connect: async () => {
      const client = new Client({ connectionString: url });
      await client.connect();
      onTestFinished(() => client.end());
      return async (text, given = []) => {
        let n = 0;
        return (
          await client.query(
            text.replaceAll("?", () => `$${++n}`),
            [...given],
          )
        ).rows;
      };
    },
    migrations: "migrations/postgres",
    keyed: `insert into dbq_tasks (${columns}) values (${values}) on conflict do nothing`,
    fill: `insert into dbq_tasks (func, status) ${filled} generate_series(1, 50000)`,
  };
}

async function onMysql(): Promise<Place> {
  const { createConnection } = await import("mysql2/promise");
  const { url, drop } = await newDatabase();
  onTestFinished(drop);
  return {
    url,
    connect: async () => {
      const client = await createConnection(url);
      onTestFinished(() => client.end());
      await client.query("set session transaction isolation level read committed");
      return async (text, given = []) => {
        const [rows] = await client.execute(text, [...given] as string[]).catch((error) => {
          // The version before answers so when the key is held: see `isDuplicate` of its connection.
          if (error.errno === 1062 && error.message.includes("dbq_tasks_unique")) return [[]];
          throw error;
        });
        return Array.isArray(rows) ? (rows as Record<string, unknown>[]) : [];
      };
    },
    migrations: "migrations/mysql",
    keyed: `insert into dbq_tasks (${columns}) values (${values})`,
    fill: `insert into dbq_tasks (func, status) ${filled}
      json_table(concat('[1', repeat(',1', 49999), ']'), '$[*]' columns (n int path '$')) as numbers`,
  };
}

/** The migrations before `features`, applied as the version before it did. */
async function migrateToVersionBefore({ connect, migrations }: Place): Promise<void> {
  const run = await connect();
  await run(
    "create table dbq_migrations (id integer primary key, hash text not null, created_at bigint not null)",
  );
  const known = readMigrationFiles({ migrationsFolder: migrations });
  for (const [i, { sql, hash, folderMillis }] of known.slice(0, 4).entries()) {
    for (const statement of sql) await run(statement);
    await run("insert into dbq_migrations (id, hash, created_at) values (?, ?, ?)", [
      i + 1,
      hash,
      folderMillis,
    ]);
  }
}

/** Enqueues plain tasks, and tasks of ten keys; claims and completes. Goes on until `over`. */
async function workAsBefore({ connect, keyed }: Place, over: AbortSignal) {
  const [enqueuer, worker, looker] = [await connect(), await connect(), await connect()];
  const done = { enqueued: 0, doubled: 0 };
  const enqueue = async () => {
    for (; !over.aborted; done.enqueued += 1) {
      await enqueuer(`insert into dbq_tasks (${columns}) values (${values})`, [null]);
      await enqueuer(keyed, [`key ${done.enqueued % 10}`]);
    }
  };
  const work = async () => {
    while (!over.aborted) {
      await worker("begin");
      const found =
        await worker(`select id, generation_id from dbq_tasks where func = 'old' and status = 'pending'
        and queue_name = 'default' and (wait_until is null or wait_until <= current_timestamp) limit 5 for update skip locked`);
      for (const { id, generation_id } of found) {
        await worker(
          `update dbq_tasks set generation_id = generation_id + 1, status = 'running', worker_id = 'old', started_at = current_timestamp,
            updated_at = current_timestamp, progress = null where id = ? and generation_id = ? and coalesce(status, '') = 'pending'`,
          [id, generation_id],
        );
        await worker(
          `update dbq_tasks set generation_id = generation_id + 1, status = 'completed', result = '1', finished_at = current_timestamp
            where id = ? and generation_id = ?`,
          [id, Number(generation_id) + 1],
        );
      }
      await worker("commit");
    }
  };
  const look = async () => {
    while (!over.aborted) {
      const doubled = await looker(`select unique_key from dbq_tasks where unique_key is not null
        and status in ('pending', 'scheduled', 'running') group by unique_key having count(*) > 1`);
      done.doubled += doubled.length;
    }
  };
  await Promise.all([enqueue(), work(), look()]);
  return done;
}

async function expectNothingLost(place: Place): Promise<void> {
  const run = await place.connect();
  await migrateToVersionBefore(place);
  await run(place.fill);
  const over = new AbortController();
  const before = workAsBefore(place, over.signal);
  let theirs: number[];
  try {
    const queue = await openQueue(place.url);
    onTestFinished(() => queue.close());
    // Tasks of the new version, which the worker of the old one runs.
    theirs = await queue.enqueueTasks(
      Array.from({ length: 50 }, () => [old.with({ maxRetries: 3 })] as const),
    );
    const ended = await Promise.all(theirs.map((id) => queue.awaitTaskCompletion(id, { timeout: "60s" })));
    expect(new Set(ended.map(({ status, workerId }) => `${status} by ${workerId}`))).toEqual(
      new Set(["completed by old"]),
    );
  } finally {
    over.abort();
  }
  const { enqueued, doubled } = await before;
  expect(doubled).toBe(0);
  expect(enqueued).toBeGreaterThan(10);
  const [all] = await run("select count(*) as n from dbq_tasks where func = 'old' and unique_key is null");
  expect(Number(all?.n)).toBe(enqueued + theirs.length);
}

const old = remoteTask("old");

describe.skipIf(isMissing(await postgresServer()))("on Postgres", () => {
  test("statements of the version before go on during the migration and after it, and nothing is lost", async () => {
    await expectNothingLost(await onPostgres());
  }, 120_000);
});

describe.skipIf(isMissing(await mysqlServer()))("on MySQL and MariaDB", () => {
  test("statements of the version before go on during the migration and after it, and nothing is lost", async () => {
    await expectNothingLost(await onMysql());
  }, 120_000);
});
