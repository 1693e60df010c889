/** Dead workers are found by their rows: by their process where it can be observed, else by their heartbeat. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Database } from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { thisProcess } from "../../src/base/runtime/process-identity.ts";
import { task } from "../../src/index.ts";
import { startedWorker, uniqueName } from "../support/queue.ts";
import { ended, queueOnFile, read, until } from "./setup.ts";

const here = thisProcess();

/** A worker of this host that has been silent for an hour, by default of a lease of a second. */
interface Row {
  id: string;
  lease?: number;
  host?: string;
  bootId?: string | null;
  pidNamespace?: string | null;
  pid?: number;
  processStart?: string | null;
  silentFor?: number;
}

function insertWorker(raw: Database, row: Row): void {
  const silentFor = row.silentFor ?? 3_600_000;
  const { bootId, pidNamespace, host } = here;
  raw
    .prepare(`insert into dbq_workers (id, queue_names, concurrency, lease, host, boot_id, pid_namespace, pid,
      process_start, heartbeat_at) values (@id, '["default"]', 1, @lease, @host, @bootId, @pidNamespace, @pid,
      @processStart, unixepoch('subsec') * 1000 - ${silentFor})`)
    .run({ lease: 1_000, host, bootId, pidNamespace, pid: process.pid, processStart: "1", ...row });
}

/** A task that the worker `workerId` is running. @returns its id */
function insertRunning(raw: Database, func: string, workerId: string, maxRetries = 3): number {
  return Number(
    raw
      .prepare(`insert into dbq_tasks (func, status, generation_id, worker_id, started_at, max_retries)
        values (?, 'running', 2, ?, unixepoch('subsec') * 1000, ?)`)
      .run(func, workerId, maxRetries).lastInsertRowid,
  );
}

/** The id of a process that has ended. */
async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ["-e", ""]);
  await once(child, "exit");
  return child.pid ?? 0;
}

test("the tasks of a dead process on this host run again at once with a retry charged, or fail without retries left", async () => {
  const { queue, raw } = await queueOnFile();
  const quick = task(uniqueName(), async () => "again");
  insertWorker(raw, { id: "dead", pid: await deadPid(), lease: 3_600_000, silentFor: 0 });
  const again = insertRunning(raw, quick.taskName, "dead");
  const last = insertRunning(raw, quick.taskName, "dead", 0);
  const worker = await startedWorker(queue);
  const rescued = once(worker, "rescued");
  expect(await rescued).toEqual([{ workerId: "dead", tasks: 2 }]);
  expect(await ended(queue, again)).toMatchObject({
    status: "completed",
    result: "again",
    retryCount: 1,
    // Claimed, freed, claimed, completed, without a backoff in between.
    generationId: 5,
    waitUntil: null,
  });
  expect(await ended(queue, last)).toMatchObject({
    status: "failed",
    retryCount: 0,
    generationId: 3,
    error: { name: "WorkerCrashed", message: expect.stringContaining("dead") },
  });
  for (const id of [again, last])
    expect(await queue.listAttempts(id)).toMatchObject([
      { outcome: "crashed", workerId: "dead", generationId: 2, error: { name: "WorkerCrashed" } },
    ]);
  expect((await queue.listWorkers()).map(({ id }) => id)).toEqual([worker.id]);
});

const elsewhere = { host: "another host", silentFor: 3_600_000 };

const silent: [string, () => Omit<Row, "id">][] = [
  ["another host", () => elsewhere],
  ["another pid namespace", () => ({ pidNamespace: "pid:[1]" })],
  ["this host before it was booted", () => ({ bootId: "0" })],
  [
    "an unknown host, of which nothing is known",
    () => ({ host: "x", bootId: null, pidNamespace: null, processStart: null }),
  ],
  // The parent of this process lives, and has another start time than the row.
  ["a process whose id has a new owner", () => ({ pid: process.ppid, silentFor: 0, lease: 3_600_000 })],
];

test.each(silent)("a silent worker of %s is declared dead", async (_, row) => {
  const { queue, raw } = await queueOnFile();
  const quick = task(uniqueName(), async () => "again");
  insertWorker(raw, { id: "silent", ...row() });
  const id = insertRunning(raw, quick.taskName, "silent");
  await startedWorker(queue);
  expect(await ended(queue, id)).toMatchObject({ status: "completed", retryCount: 1 });
});

test("a worker whose process cannot be observed is declared dead a lease after its last heartbeat", async () => {
  const { queue, raw } = await queueOnFile();
  const quick = task(uniqueName(), async () => "again");
  insertWorker(raw, { id: "beating", pidNamespace: "pid:[1]", silentFor: 0 });
  insertWorker(raw, { id: "silent", pidNamespace: "pid:[1]", silentFor: 0 });
  const own = insertRunning(raw, quick.taskName, "beating");
  const freed = insertRunning(raw, quick.taskName, "silent");
  const beat = raw.prepare(`update dbq_workers set beat = beat + 1, heartbeat_at = unixepoch('subsec') * 1000
    where id = 'beating'`);
  const heart = setInterval(() => beat.run(), 100);
  onTestFinished(() => clearInterval(heart));
  await startedWorker(queue);
  // A worker that finds the silent one has checked the other one as often.
  expect(await ended(queue, freed)).toMatchObject({ status: "completed", retryCount: 1 });
  expect(await read(queue, own)).toMatchObject({ status: "running", generationId: 2 });
  clearInterval(heart);
  expect(await ended(queue, own)).toMatchObject({ status: "completed", retryCount: 1 });
});

test("a clock that jumps makes no worker look dead while heartbeats go on", async () => {
  const { queue, raw } = await queueOnFile();
  const quick = task(uniqueName(), async () => "again");
  insertWorker(raw, { id: "late", ...elsewhere });
  insertWorker(raw, { id: "silent", ...elsewhere });
  const own = insertRunning(raw, quick.taskName, "late");
  const freed = insertRunning(raw, quick.taskName, "silent");
  // Its host's clock is an hour slow.
  const beat = raw.prepare(
    "update dbq_workers set beat = beat + 1, heartbeat_at = heartbeat_at + 100 where id = 'late'",
  );
  const heart = setInterval(() => beat.run(), 100);
  onTestFinished(() => clearInterval(heart));
  await startedWorker(queue);
  expect(await ended(queue, freed)).toMatchObject({ status: "completed" });
  expect(await read(queue, own)).toMatchObject({ status: "running", generationId: 2 });
});

test("running tasks of an unknown worker are freed after a lease", async () => {
  const { queue, raw } = await queueOnFile();
  const quick = task(uniqueName(), async () => "again");
  const old = insertRunning(raw, quick.taskName, "nobody");
  const none = insertRunning(raw, quick.taskName, "nobody");
  const young = insertRunning(raw, quick.taskName, "nobody");
  raw.prepare("update dbq_tasks set started_at = started_at - 3600000 where id = ?").run(old);
  raw
    .prepare("update dbq_tasks set started_at = null, worker_id = null, updated_at = 1 where id = ?")
    .run(none);
  await startedWorker(queue);
  for (const id of [old, none])
    expect(await ended(queue, id)).toMatchObject({ status: "completed", retryCount: 1 });
  expect(await read(queue, young)).toMatchObject({ status: "running", generationId: 2 });
});

test("several workers that find a dead one free its tasks once", async () => {
  const { queue, raw, elsewhere: other } = await queueOnFile();
  const quick = task(uniqueName(), async () => "again");
  insertWorker(raw, { id: "dead", pid: await deadPid() });
  const ids = Array.from({ length: 20 }, () => insertRunning(raw, quick.taskName, "dead"));
  let tasks = 0;
  for (const q of [queue, await other(), await other()]) {
    const worker = await startedWorker(q, { concurrency: 2 });
    worker.on("rescued", (dead) => {
      tasks += dead.tasks;
    });
  }
  for (const id of ids) expect(await ended(queue, id)).toMatchObject({ retryCount: 1, generationId: 5 });
  await until(() => tasks > 0);
  expect(tasks).toBe(20);
});
