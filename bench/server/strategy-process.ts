/** A worker in a separate process that takes part in a drain, and records which tasks it ran. */
import { setTimeout } from "node:timers/promises";
import { openQueue, task, Worker } from "dbq-ts";
import { configOf, serve } from "../processes/served.ts";

export interface StrategyConfig {
  url: string;
  strategy: "skip-locked" | "optimistic";
  poolSize: number;
  /** Milliseconds that each function waits. @default it returns at once */
  waits?: number;
  /** @default the worker's own */
  concurrency?: number;
}

const { url, strategy, poolSize, waits, concurrency } = configOf<StrategyConfig>();
const queue = await openQueue(url, { strategy, poolSize });
const ran: number[] = [];
const errors: string[] = [];
const step = task("step", (n: number) => {
  ran.push(n);
  return waits === undefined ? undefined : setTimeout(waits);
});
const worker = new Worker(queue, { tasks: [step], ...(concurrency ? { concurrency } : {}) });
worker.on("error", (error) =>
  errors.push(error instanceof Error ? `${error.name}: ${error.message}` : String(error)),
);

const commands = {
  start: () => worker.start(),
  /** After the drain. */
  async stop(): Promise<{ ran: number[]; errors: string[] }> {
    await worker.stop();
    await queue.close();
    return { ran, errors };
  },
};

export type StrategyCommands = typeof commands;

serve(commands);
