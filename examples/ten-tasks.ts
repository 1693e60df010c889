/**
 * Runs ten tasks of one second each, five at a time: takes about two seconds.
 *
 *     npx tsx --tsconfig examples/tsconfig.json examples/ten-tasks.ts
 *
 * The queue is in the database of DBQ_URL, or in dbq.db. The worker is in the same process here.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { awaitTaskResult, enqueueTask, openQueue, setDefaultQueue, task, Worker } from "dbq-ts";

const simpleTask = task("simple_task", async (a: number, b: number, text: string) => {
  await sleep(1_000);
  return `${text}: ${a} + ${b} = ${a + b}`;
});

const queue = await openQueue();
setDefaultQueue(queue);
const worker = new Worker(queue, { concurrency: 5 });
await worker.start();

const begin = performance.now();
const numbers = Array.from({ length: 10 }, (_, i) => i);
const ids = await Promise.all(numbers.map((n) => enqueueTask(simpleTask, n, n * n, `task ${n}`)));
const results = await Promise.all(ids.map((id) => awaitTaskResult(id)));
const seconds = (performance.now() - begin) / 1_000;

for (const result of results) console.log(result);
console.log(`${results.length} tasks of 1 s in ${seconds.toFixed(2)} s`);

await worker.stop();
await queue.close();
