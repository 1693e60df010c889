/** dbq under a limit, and the same tasks without one. */
import { join } from "node:path";
import { openQueue, type Queue, type TaskOptions, task, Worker } from "dbq-ts";
import type { Figures, Settings } from "../benchmark.ts";
import { withDatabase } from "../server/databases.ts";
import { burstOf, type Filled, type Filling, type FlowVariant, groupOf, measureDrain } from "./variants.ts";

type Place = "sqlite" | "postgres";

const together = 1_000;

let left = 0;
let done: () => void = () => undefined;

function handler(n: number): number {
  left -= 1;
  if (left === 0) done();
  return n;
}

function optionsOf({ rate, concurrency, groups }: FlowVariant): TaskOptions<number, [n: number]> {
  const limit = {
    ...(concurrency !== undefined && { concurrency }),
    ...(rate !== undefined && { rate: { limit: rate, per: "1s", burst: burstOf(rate) } }),
  };
  return { limit, ...(groups !== undefined && { group: (n: number) => groupOf(n, groups) }) };
}

export function measureDbq(on: Place, limited: boolean) {
  return (settings: Settings<FlowVariant>): Promise<Figures> => {
    const work = limited
      ? task("limited", handler, optionsOf(settings.variant))
      : task("plain", (n: number) => handler(n));
    const fillIn = (url: (name: string) => string) => (filling: Filling) =>
      fill(url(filling.name), work, filling);
    if (on === "sqlite")
      return measureDrain(
        settings,
        fillIn((name) => join(settings.directory, `${name}.db`)),
      );
    return withDatabase(on, (first) =>
      withDatabase(on, (second) =>
        measureDrain(
          settings,
          fillIn((name) => (name === "warm-up" ? first : second)),
        ),
      ),
    );
  };
}

async function fill(
  url: string,
  work: ReturnType<typeof task<[n: number], number>>,
  { tasks, variant, settings }: Filling,
): Promise<Filled> {
  const { synchronous } = settings;
  const queue: Queue = await openQueue(url, url.includes("://") ? {} : { synchronous });
  for (let from = 0; from < tasks; from += together)
    await queue.enqueueTasks(
      Array.from({ length: Math.min(together, tasks - from) }, (_, i) => [work, from + i] as const),
    );
  left = tasks;
  return {
    async drain() {
      const worker = new Worker(queue, { concurrency: variant.slots, tasks: [work] });
      const failed = new Promise<never>((_, reject) => {
        worker.on("error", reject);
      });
      const all = new Promise<void>((resolve) => {
        done = resolve;
      });
      await worker.start();
      await Promise.race([all, failed]);
      await worker.idle();
      await worker.stop();
    },
    completed: async () => (await queue.countTasks()).completed,
    [Symbol.asyncDispose]: () => queue.close(),
  };
}
