/** An app in a separate process: it enqueues this many tasks per second, and runs them. */
import { openQueue } from "dbq-ts";
import { configOf, serve } from "../processes/served.ts";
import { addUrgentAt, UrgentWorker } from "./urgent.ts";

export interface SteadyConfig {
  url: string;
  /** Tasks per second. */
  rate: number;
}

const { url, rate } = configOf<SteadyConfig>();
const queue = await openQueue(url);
const worker = new UrgentWorker(queue);
await worker.start();

const commands = {
  /** Returns how many of the tasks have run by the end: all but a few, when the worker keeps up. */
  async live(milliseconds: number): Promise<{ enqueued: number; ran: number }> {
    const enqueued = await addUrgentAt(rate, queue, milliseconds);
    const { ran } = worker;
    await worker.stop();
    return { enqueued, ran };
  },
};

export type SteadyCommands = typeof commands;

serve(commands);
