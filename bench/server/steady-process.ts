/** An app in a process of its own: it enqueues so many tasks a second, and runs them. */
import { openQueue, task, Worker } from "dbq-ts";
import { sharedNow, sleep } from "../processes/clock.ts";
import { configOf, serve } from "../processes/served.ts";

export interface SteadyConfig {
  url: string;
  /** Tasks a second. */
  rate: number;
}

/** Milliseconds between two calls that enqueue. */
const every = 20;

const { url, rate } = configOf<SteadyConfig>();
const queue = await openQueue(url);
const steady = task("steady", (n: number) => n);
const worker = new Worker(queue, { tasks: [steady] });
const errors: string[] = [];
worker.on("error", (error) => errors.push(error instanceof Error ? error.message : String(error)));
await worker.start();

const commands = {
  /** How many it has run, when all are done. */
  async live(milliseconds: number): Promise<number> {
    const start = sharedNow();
    let enqueued = 0;
    for (let now = start; now - start < milliseconds; now = sharedNow()) {
      const due = Math.floor(((now - start) * rate) / 1_000) - enqueued;
      const first = enqueued;
      if (due > 0)
        await queue.enqueueTasks(Array.from({ length: due }, (_, i) => [steady, first + i] as const));
      enqueued += due;
      await sleep(every);
    }
    await worker.idle();
    await worker.stop();
    await queue.close();
    if (errors.length > 0) throw new Error(`the worker told of ${errors.length} errors: ${errors[0]}`);
    return enqueued;
  },
};

export type SteadyCommands = typeof commands;

serve(commands);
