/**
 * Invariants, with four workers and an enqueuer that are killed (and now and then stopped) at random moments:
 *
 * 1. Each acknowledged task ends.
 * 2. A task has at most one accepted outcome; what it did in the transaction of its completion was done once.
 * 3. No generation of a task is started twice.
 * 4. Each claim ends as a completion, a crashed attempt that was recorded and charged, or a hand-back: none vanishes.
 * 5. The database is whole.
 */
import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { type Task, Worker } from "../../src/index.ts";
import type { Entry } from "../fixtures/ledger.ts";
import { type Child, type Stage, stage, start } from "../fixtures/processes.ts";
import { onLinux } from "./linux.ts";

/** Numbers from 0 up to 1, the same for the same seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const rounds = 8;
/** In this round the enqueuer is killed too. */
const enqueuerDies = 3;

/** Kills and replaces, and waits until all that was enqueued has ended. @returns how often which signal was sent. */
async function havoc({ database, ledger, queue }: Stage, random: () => number) {
  const startWorker = () =>
    start("worker.ts", database, ledger.path, JSON.stringify({ concurrency: 2, lease: 2_000 }));
  const startEnqueuer = (count: number) => start("enqueuer.ts", database, ledger.path, String(count));
  const workers: Child[] = [1, 2, 3, 4].map(startWorker);
  let enqueuer = startEnqueuer(100_000);
  const sent = { SIGKILL: 0, SIGTERM: 0 };
  await ledger.count("start", 20);
  for (let round = 1; round <= rounds; round += 1) {
    await sleep(100 + 500 * random());
    const [victim] = workers.splice(Math.floor(workers.length * random()), 1) as [Child];
    const signal = random() < 0.25 ? "SIGTERM" : "SIGKILL";
    sent[signal] += 1;
    victim.signal(signal);
    workers.push(startWorker());
    if (round !== enqueuerDies) continue;
    await enqueuer.kill();
    enqueuer = startEnqueuer(80);
  }
  expect(await enqueuer.ended).toBe(0);
  await new Worker(queue).idle();
  return sent;
}

const byTask = (entries: readonly Entry[], what: string, id: number) =>
  entries.filter((entry) => entry.what === what && entry.task === id);

/** Invariants 2 to 4 for one task. */
async function check({ queue }: Stage, entries: readonly Entry[], task: Task): Promise<void> {
  const [, within] = task.args;
  expect(task).toMatchObject({ status: "completed", result: within ? "within" : "returned" });
  expect(byTask(entries, "completed", task.id).length).toBeLessThanOrEqual(1);
  const started = byTask(entries, "start", task.id).map(({ generation }) => generation as number);
  expect(new Set(started).size).toBe(started.length);
  // An event tells the generation after the outcome; the attempt ran under the one before.
  const handedBack = byTask(entries, "interrupted", task.id).map(
    ({ generation }) => (generation as number) - 1,
  );
  const crashed = (await queue.listAttempts(task.id)).map(({ generationId }) => generationId);
  const claims = [...crashed, ...handedBack, task.generationId - 1].sort((a, b) => a - b);
  // 1 → claimed 2 → released 3 → claimed 4 → …: each even generation is one claim, and is accounted for once.
  expect(claims).toEqual(Array.from({ length: (task.generationId - 1) / 2 }, (_, n) => 2 * n + 2));
  expect(task.retryCount).toBe(crashed.length);
  expect(started.filter((generation) => !claims.includes(generation))).toEqual([]);
  expect(started).toContain(task.generationId - 1);
}

async function allTasks({ queue }: Stage): Promise<Task[]> {
  const tasks: Task[] = [];
  for (;;) {
    const after = tasks.at(-1)?.id;
    const page = await queue.listTasks({ limit: 1_000, ...(after === undefined ? {} : { after }) });
    if (page.length === 0) return tasks;
    tasks.push(...page);
  }
}

onLinux("four workers and an enqueuer", () => {
  test("killed at random moments, lose nothing and do nothing twice", { timeout: 90_000 }, async () => {
    const seed = Number(process.env.DBQ_SEED ?? Date.now() % 2 ** 32);
    console.log(`seed ${seed}: DBQ_SEED=${seed} makes the same choices again`);
    const all = await stage();
    const raw = new Database(all.database, { timeout: 5_000 });
    onTestFinished(() => {
      raw.close();
    });
    raw.exec("create table effects (task integer not null)");
    const sent = await havoc(all, randomFrom(seed));

    const entries = all.ledger.entries();
    const tasks = await allTasks(all);
    const ids = new Set(tasks.map(({ id }) => id));
    const acknowledged = entries.filter(({ what }) => what === "acknowledged");
    expect(acknowledged.filter(({ task }) => !ids.has(task as number))).toEqual([]);
    for (const task of tasks) await check(all, entries, task);
    const within = tasks.filter(({ result }) => result === "within").map(({ id }) => id);
    const effects = raw.prepare<[], number>("select task from effects order by task").pluck().all();
    expect(effects).toEqual(within.sort((a, b) => a - b));
    expect(entries.filter(({ what }) => what === "error")).toEqual([]);
    expect(raw.pragma("integrity_check", { simple: true })).toBe("ok");
    const crashes = raw.prepare("select count(*) from dbq_attempts").pluck().get();
    console.log(
      `${tasks.length} tasks, ${acknowledged.length} acknowledged, ${crashes} crashed attempts, ${JSON.stringify(sent)}`,
    );
    expect(crashes).toBeGreaterThan(0);
  });
});
