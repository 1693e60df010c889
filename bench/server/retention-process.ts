/** A worker in a separate process, which prunes by its queue's retention. Its claims are timed. */
import { openQueue, task, Worker } from "dbq-ts";
import { percentile } from "../processes/percentile.ts";
import { configOf, serve } from "../processes/served.ts";
import { clockTurns } from "./turn-clock.ts";

export interface RetentionConfig {
  url: string;
  /** Milliseconds that finished tasks are kept. */
  keep: number;
}

/** What the worker has done since the last sample. */
export interface WorkerSample {
  ran: number;
  claims: number;
  /** Milliseconds. */
  p50: number;
  p99: number;
}

const { url, keep } = configOf<RetentionConfig>();
const times = clockTurns();
const queue = await openQueue(url, { retention: { completed: keep } });
let ran = 0;
const urgent = task("urgent", (n: number) => {
  ran += 1;
  return n;
});
const worker = new Worker(queue, { tasks: [urgent] });
const errors: string[] = [];
worker.on("error", (error) => errors.push(error instanceof Error ? error.message : String(error)));

const commands = {
  async start(): Promise<void> {
    await worker.start();
  },

  sample(): WorkerSample {
    const claims = times.claims.splice(0);
    times.turns.length = 0;
    const sample = {
      ran,
      claims: claims.length,
      p50: percentile(claims, 0.5),
      p99: percentile(claims, 0.99),
    };
    ran = 0;
    return sample;
  },

  async stop(): Promise<void> {
    await worker.stop();
    await queue.close();
    if (errors.length > 0) throw new Error(`the worker reported ${errors.length} errors: ${errors[0]}`);
  },
};

export type RetentionCommands = typeof commands;

serve(commands);
