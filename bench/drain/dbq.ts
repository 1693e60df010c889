/** dbq: one process, one worker. */
import { join } from "node:path";
import { openQueue, type Queue, type TaskFunction, task, Worker } from "dbq-ts";
import { batches } from "../batches.ts";
import type { Timed } from "../warm-up.ts";
import { checkCompleted, type DrainRun, type DrainVariant, type Handler, Handlers } from "./variants.ts";

type Work = TaskFunction<Parameters<Handler>, ReturnType<Handler>>;

async function fill(queue: Queue, work: Work, { variant, tasks }: DrainRun): Promise<void> {
  for (const batch of batches(variant.payload, tasks)) {
    await queue.enqueueTasks(batch.map(({ n, payload }) => [work, n, payload] as const));
  }
  await queue.close();
}

async function drain(queue: Queue, concurrency: number, allRun: Promise<void>): Promise<number> {
  const worker = new Worker(queue, { concurrency });
  const failed = new Promise<never>((_, reject) => {
    worker.on("error", reject);
  });
  const start = performance.now();
  await worker.start();
  await Promise.race([allRun, failed]);
  // The last handlers have returned; now their tasks are settled too.
  await worker.idle();
  const milliseconds = performance.now() - start;
  await worker.stop();
  return milliseconds;
}

/** `open`: opens the queue, once to fill it and once to drain it. */
export function drainIn<R extends DrainRun>(
  { wait, concurrency }: DrainVariant,
  open: (run: R) => Promise<Queue>,
  filled: (run: R) => Promise<void> = async () => undefined,
): (run: R) => Promise<number> {
  const handlers = new Handlers(wait);
  const work = task("work", handlers.handler);
  return async (run) => {
    await fill(await open(run), work, run);
    await filled(run);
    await using queue = await open(run);
    const milliseconds = await drain(queue, concurrency, handlers.times(run.tasks));
    checkCompleted((await queue.countTasks()).completed, run.tasks);
    return milliseconds;
  };
}

export function drainDbq(variant: DrainVariant): Timed<DrainVariant> {
  return drainIn(variant, ({ directory, synchronous }) =>
    openQueue(join(directory, "dbq.db"), { synchronous }),
  );
}
