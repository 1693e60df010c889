/** An app in a separate process: it enqueues this many tasks per second, and runs them. */
import { openQueue, task, Worker } from "dbq-ts";
import { sharedNow, sleep } from "../processes/clock.ts";
import { configOf, serve } from "../processes/served.ts";

export interface SteadyConfig {
  url: string;
  /** Tasks per second. */
  rate: number;
}

/** Milliseconds between two enqueue calls. */
const every = 20;

const { url, rate } = configOf<SteadyConfig>();
const queue = await openQueue(url);
let ran = 0;
/** The function of the later measurement, which has to skip the rows that these tasks leave in the table. */
const urgent = task("urgent", (n: number) => {
  ran += 1;
  return n;
});
const worker = new Worker(queue, { tasks: [urgent] });
const errors: string[] = [];
worker.on("error", (error) => errors.push(error instanceof Error ? error.message : String(error)));
await worker.start();

const commands = {
  /** Returns how many of the tasks have run by the end: all but a few, when the worker keeps up. */
  async live(milliseconds: number): Promise<{ enqueued: number; ran: number }> {
    const start = sharedNow();
    let enqueued = 0;
    for (let now = start; now - start < milliseconds; now = sharedNow()) {
      const due = Math.floor(((now - start) * rate) / 1_000) - enqueued;
      const first = enqueued;
      if (due > 0)
        await queue.enqueueTasks(Array.from({ length: due }, (_, i) => [urgent, first + i] as const));
      enqueued += due;
      await sleep(every);
    }
    const ranByThen = ran;
    await worker.stop();
    await queue.close();
    if (errors.length > 0) throw new Error(`the worker reported ${errors.length} errors: ${errors[0]}`);
    return { enqueued, ran: ranByThen };
  },
};

export type SteadyCommands = typeof commands;

serve(commands);
