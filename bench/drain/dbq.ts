/** dbq: one process, one worker. */
import { join } from "node:path";
import { openQueue, type Queue, type TaskFunction, task, Worker } from "dbq-ts";
import { batches } from "../batches.ts";
import type { Timed } from "../warm-up.ts";
import { checkCompleted, type DrainRun, type DrainVariant, type Handler, Handlers } from "./variants.ts";

type Work = TaskFunction<Parameters<Handler>, ReturnType<Handler>>;

async function fill(path: string, work: Work, { synchronous, variant, tasks }: DrainRun): Promise<void> {
  await using queue = await openQueue(path, { synchronous });
  for (const batch of batches(variant.payload, tasks)) {
    await queue.enqueueTasks(batch.map(({ n, payload }) => [work, n, payload] as const));
  }
}

async function drain(queue: Queue, concurrency: number, allRun: Promise<void>): Promise<number> {
  const worker = new Worker(queue, { concurrency });
  const start = performance.now();
  await worker.start();
  await allRun;
  // The last ones have run; now they are settled too.
  await worker.idle();
  const milliseconds = performance.now() - start;
  await worker.stop();
  return milliseconds;
}

export function drainDbq({ wait, concurrency }: DrainVariant): Timed<DrainVariant> {
  const handlers = new Handlers(wait);
  const work = task("work", handlers.handler);
  return async (run) => {
    const path = join(run.directory, "dbq.db");
    await fill(path, work, run);
    await using queue = await openQueue(path, { synchronous: run.synchronous });
    const milliseconds = await drain(queue, concurrency, handlers.times(run.tasks));
    checkCompleted((await queue.countTasks()).completed, run.tasks);
    return milliseconds;
  };
}
