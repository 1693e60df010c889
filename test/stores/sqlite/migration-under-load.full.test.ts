/**
 * A deploy: processes of the version before the migration `features` write while a new version opens the file and migrates it, and
 * after that. Their statements are here as that version sent them, and stay prepared. No statement fails, no task is lost, and
 * a unique key stays unique. `server/migration-under-load.full.test.ts` shows the same on servers.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import Database from "better-sqlite3";
import { readMigrationFiles } from "drizzle-orm/migrator";
import { expect, onTestFinished, test } from "vitest";
import { openQueue, remoteTask } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";

const start = `
import Database from "better-sqlite3";
const db = new Database(process.argv[1], { timeout: 20_000 });
let over = false;
process.stdin.on("end", () => (over = true)).resume();
const rest = () => new Promise((resolve) => setImmediate(resolve));
const now = () => Date.now();
`;

/** Enqueues plain tasks, and tasks of ten keys, each key twice. Says so after ten rounds, and at its end how many plain tasks it wrote. */
const enqueuer = `${start}
const columns = "func, args, kwargs, meta, priority, queue_name, max_retries, timeout, request_id, unique_key, fill_defaults, trace_context, status";
const values = "'old', '[]', '{}', '{}', 5, 'default', 3, null, null, ?, 0, null, 'pending'";
const plain = db.prepare("insert into dbq_tasks (" + columns + ") values (" + values + ")");
const keyed = db.prepare("insert into dbq_tasks (" + columns + ") values (" + values + ") on conflict do nothing");
const held = db.prepare("select count(*) from dbq_tasks where unique_key = ? and status in ('pending', 'scheduled', 'running')").pluck();
let enqueued = 0;
for (; !over; enqueued += 1, await rest()) {
  plain.run(null);
  const key = "key " + (enqueued % 10);
  for (let twice = 0; twice < 2; twice += 1) keyed.run(key);
  if (held.get(key) > 1) throw new Error("two tasks hold " + key);
  if (enqueued === 10) console.log("working");
}
console.log(enqueued);
`;

/** Claims and completes. Says so after ten tasks, and at its end how many tasks it completed. */
const worker = `${start}
const candidates = db.prepare("select id, generation_id from dbq_tasks where queue_name = 'default' and func = 'old' and status = 'pending' and (wait_until is null or wait_until <= ?) order by priority desc, id limit 5");
const claim = db.prepare("update dbq_tasks set generation_id = generation_id + 1, status = 'running', worker_id = 'old', started_at = ?, updated_at = ?, progress = null where id = ? and generation_id = ? and status = 'pending'");
const complete = db.prepare("update dbq_tasks set generation_id = generation_id + 1, status = 'completed', result = '1', finished_at = ? where id = ? and generation_id = ?");
let completed = 0;
const cycle = db.transaction(() => {
  for (const { id, generation_id } of candidates.all(now())) {
    if (claim.run(now(), now(), id, generation_id).changes !== 1) throw new Error("the claim of " + id + " was refused");
    completed += complete.run(now(), id, generation_id + 1).changes;
  }
});
let told = false;
for (; !over; await rest()) {
  cycle.immediate();
  if (completed >= 10 && !told) told = Boolean(console.log("working")) || true;
}
console.log(completed);
`;

interface Process {
  child: ChildProcess;
  /** The next line that it prints. @throws Error when it ends without one */
  line(): Promise<string>;
}

function begin(program: string, path: string): Process {
  const child = spawn(process.execPath, ["--input-type=module", "-e", program, path]);
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  child.stderr.on("data", (data) => {
    said += data;
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const line = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`it ended with ${child.exitCode ?? child.signalCode}: ${said}`);
    return value as string;
  };
  return { child, line };
}

/** Lets it end, and gives its last line. */
async function endOf({ child, line }: Process): Promise<number> {
  const exit = once(child, "exit");
  child.stdin?.end();
  const tally = Number(await line());
  expect(await exit).toEqual([0, null]);
  return tally;
}

/** A file with the migrations before `features`, as the version before applied them, and 50,000 finished tasks. */
function fileOfVersionBefore(path: string): Database.Database {
  const db = new Database(path, { timeout: 20_000 });
  onTestFinished(() => void db.close());
  db.pragma("journal_mode = wal");
  db.exec(
    "create table dbq_migrations (id integer primary key, hash text not null, created_at integer not null)",
  );
  const known = readMigrationFiles({ migrationsFolder: "migrations/sqlite" }).slice(0, 5);
  const note = db.prepare("insert into dbq_migrations (id, hash, created_at) values (?, ?, ?)");
  for (const [i, { sql, hash, folderMillis }] of known.entries()) {
    for (const statement of sql) db.exec(statement);
    note.run(i + 1, hash, folderMillis);
  }
  db.exec(`insert into dbq_tasks (func, status)
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000) select 'filling', 'completed' from n`);
  return db;
}

const old = remoteTask("old");

test("processes of the version before go on during the migration of a file and after it, and nothing is lost", async () => {
  const path = join(temporaryFolder(), "app.db");
  const db = fileOfVersionBefore(path);
  const hasNewTables = db.prepare("select count(*) from sqlite_master where name = 'dbq_drains'").pluck();
  const before = [begin(enqueuer, path), begin(worker, path)] as const;
  expect(await Promise.all(before.map(({ line }) => line()))).toEqual(["working", "working"]);
  expect(hasNewTables.get()).toBe(0);
  const queue = await openQueue(path);
  onTestFinished(() => queue.close());
  expect(hasNewTables.get()).toBe(1);
  // Tasks of the new version, which the worker of the old one runs.
  const theirs = await queue.enqueueTasks(
    Array.from({ length: 50 }, () => [old.with({ maxRetries: 3 })] as const),
  );
  const ended = await Promise.all(theirs.map((id) => queue.awaitTaskCompletion(id, { timeout: "60s" })));
  expect(new Set(ended.map(({ status, workerId }) => `${status} by ${workerId}`))).toEqual(
    new Set(["completed by old"]),
  );
  const enqueued = await endOf(before[0]);
  const completed = await endOf(before[1]);
  const count = (where: string) => db.prepare(`select count(*) from dbq_tasks where ${where}`).pluck().get();
  expect(count("func = 'old' and unique_key is null")).toBe(enqueued + theirs.length);
  expect(count(`func = 'old' and id > ${theirs.at(-1)}`)).toBeGreaterThan(0);
  expect(count("func = 'old' and status = 'completed'")).toBe(completed);
  expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
}, 120_000);
