/** A parent with many children, and the same function enqueued as plain tasks. */
import { join } from "node:path";
import { openQueue, type Queue, task, Worker } from "dbq-ts";
import { all, child } from "dbq-ts/workflow";
import type { Figures, Settings, Variant } from "../benchmark.ts";
import { withDatabase } from "../server/databases.ts";
import { storedSteps } from "./dbq.ts";
import { Countdown } from "./variants.ts";

type Place = "sqlite" | "postgres";

/** What of the work is within the measured time. */
export type Way = "children" | "drain" | "enqueue and drain";

export interface FanOutVariant extends Variant {
  readonly concurrency: number;
}

export const fanOutVariants: readonly FanOutVariant[] = [10, 100].map((concurrency) => ({
  name: `${concurrency} at a time`,
  concurrency,
}));

const ended = new Countdown();

const leaf = task("leaf", (n: number) => n);

/** The plain drain counts its calls, so that its end is known. */
const plainLeaf = task("plain leaf", (n: number) => {
  ended.hit();
  return n;
});

const parent = task("parent", async (children: number) => {
  const values = await all(Array.from({ length: children }, (_, n) => child(leaf, n)));
  ended.hit();
  return values.reduce((sum, value) => sum + value, 0);
});

const together = 1_000;

async function enqueuePlain(queue: Queue, tasks: number): Promise<void> {
  for (let from = 0; from < tasks; from += together)
    await queue.enqueueTasks(
      Array.from({ length: Math.min(together, tasks - from) }, (_, i) => [plainLeaf, from + i] as const),
    );
}

/** Starts the worker. Resolves when `all` has, and the worker has settled the last tasks. */
async function drained(worker: Worker, all: Promise<void>): Promise<void> {
  const failed = new Promise<never>((_, reject) => {
    worker.on("error", reject);
  });
  await worker.start();
  await Promise.race([all, failed]);
  await worker.idle();
}

async function timed(work: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Drains `tasks` plain tasks; returns the milliseconds. */
async function runPlain(queue: Queue, worker: Worker, tasks: number, filled: boolean): Promise<number> {
  if (filled) await enqueuePlain(queue, tasks);
  const milliseconds = await timed(async () => {
    if (!filled) await enqueuePlain(queue, tasks);
    await drained(worker, ended.times(tasks));
  });
  const { completed } = await queue.countTasks();
  if (completed !== tasks) throw new Error(`${completed} of ${tasks} tasks are completed`);
  return milliseconds;
}

/** Runs one parent with so many children; returns the milliseconds. */
async function runParent(queue: Queue, worker: Worker, children: number): Promise<number> {
  const id = await queue.enqueueTask(parent, children);
  const milliseconds = await timed(() => drained(worker, ended.times(1)));
  const { completed } = await queue.countTasks();
  if (completed !== children + 1) throw new Error(`${completed} of ${children + 1} tasks are completed`);
  const result = (await queue.getTask(id))?.result;
  const sum = (children * (children - 1)) / 2;
  if (result !== sum) throw new Error(`the parent's result is ${result}, and should be ${sum}`);
  return milliseconds;
}

export function measureFanOut(on: Place, way: Way) {
  return async (settings: Settings<FanOutVariant>): Promise<Figures> => {
    const { directory, synchronous, variant } = settings;
    const run = async (url: string, tasks: number): Promise<number> => {
      await using queue = await openQueue(url, on === "sqlite" ? { synchronous } : {});
      const worker = new Worker(queue, { concurrency: variant.concurrency });
      const milliseconds = await (way === "children"
        ? runParent(queue, worker, tasks)
        : runPlain(queue, worker, tasks, way === "drain"));
      await worker.stop();
      const steps = await storedSteps(on, url);
      if (steps !== (way === "children" ? tasks : 0)) throw new Error(`${steps} steps are stored`);
      return milliseconds;
    };
    const inNew = (name: string, tasks: number) =>
      on === "sqlite"
        ? run(join(directory, `${name}.db`), tasks)
        : withDatabase(on, (url) => run(url, tasks));
    const tasks = settings.tasks ?? (settings.quick ? 1_000 : 10_000);
    await inNew("warm-up", Math.min(tasks, 5_000));
    return { "tasks/s": (tasks / (await inNew("measured", tasks))) * 1_000 };
  };
}
