/**
 * Measures the time from an enqueue to the start of the task in another process, on your own database and network.
 *
 *     npx tsx --tsconfig examples/tsconfig.json examples/wake-up.ts postgres://postgres:postgres@127.0.0.1/postgres
 *
 * WAKE_UPS=500 sets the number of tasks. Without a URL it uses the database of DBQ_URL, or dbq.db. Both processes run on one
 * machine, so they share a clock.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openQueue, task, Worker } from "dbq-ts";

const target = process.argv[2] ?? process.env.DBQ_URL ?? "dbq.db";
const count = Number(process.env.WAKE_UPS ?? 60);
/** Milliseconds. As long as a worker's poll interval, so that enqueues fall on every moment of it equally often. */
const longestPause = 1_000;
const now = () => performance.timeOrigin + performance.now();

const note = task("note-the-time", async () => now(), { queueName: "wake-up" });

async function work(): Promise<void> {
  const queue = await openQueue();
  await new Worker(queue, { queueName: "wake-up", tasks: [note] }).start();
  process.on("disconnect", async () => {
    await queue.close();
    process.exit();
  });
  process.send?.("ready");
}

async function measure(): Promise<void> {
  await using queue = await openQueue(target);
  const worker = fork(fileURLToPath(import.meta.url), ["work"], { env: { ...process.env, DBQ_URL: target } });
  await once(worker, "message");
  const waits: number[] = [];
  for (let i = 0; i < count; i += 1) {
    await sleep(Math.random() * longestPause);
    const id = await queue.enqueueTask(note);
    const acknowledged = now();
    waits.push((await queue.awaitTaskResult(id, { timeout: "1m" })) - acknowledged);
  }
  waits.sort((a, b) => a - b);
  const at = (part: number) => `${waits[Math.floor((waits.length - 1) * part)]?.toFixed(1)} ms`;
  console.log(`from enqueued to begun, ${waits.length} tasks: p50 ${at(0.5)}, p99 ${at(0.99)}`);
  await queue.purgeTasks({ queueName: "wake-up" });
  worker.disconnect();
  await once(worker, "exit");
}

await (target === "work" ? work() : measure());
