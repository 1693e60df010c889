/** A process with a queue, which drains tasks, serves a dashboard, or does both. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { openQueue, task, Worker } from "dbq-ts";
import { dashboard, toNodeHandler } from "dbq-ts/dashboard";
import type { Synchronous } from "../benchmark.ts";
import { configOf, serve } from "../processes/served.ts";
import { usage } from "../server/usage.ts";

export interface BesideConfig {
  path: string;
  synchronous: Synchronous;
}

/** Milliseconds of a drain, and of the process's CPU in it. */
export interface BesideDrain {
  took: number;
  cpu: number;
}

const { path, synchronous } = configOf<BesideConfig>();
const queue = await openQueue(path, { synchronous });
const queueName = "drained";
let left = 0;
let onLast: () => void = () => undefined;

const work = task("work", (n: number) => {
  left -= 1;
  if (left === 0) onLast();
  return n;
});

const commands = {
  /** Serves the dashboard; its port. */
  async listen(): Promise<number> {
    const server = createServer(toNodeHandler(dashboard(queue, { authorize: () => "all" })));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  },

  async fill(count: number): Promise<void> {
    const call = work.with({ queueName });
    for (let n = 0; n < count; n += 1_000)
      await queue.enqueueTasks(Array.from({ length: 1_000 }, (_, i) => [call, n + i] as const));
    left = count;
  },

  async drain(): Promise<BesideDrain> {
    const last = new Promise<void>((resolve) => {
      onLast = resolve;
    });
    const worker = new Worker(queue, { queueName, concurrency: 100 });
    const before = usage();
    await worker.start();
    await last;
    await worker.idle();
    const after = usage();
    await worker.stop();
    return { took: after.at - before.at, cpu: after.cpu - before.cpu };
  },

  usage,
};

export type BesideCommands = typeof commands;

serve(commands);
