/** BullMQ: `limiter` for a rate, `setGlobalConcurrency` for a limit over all machines. Its groups are not in the free edition. */
import { Worker } from "bullmq";
import type { Figures, Settings } from "../benchmark.ts";
import { redis, withBullmq } from "../peers/bullmq.ts";
import { type FlowVariant, measureDrain } from "./variants.ts";

const together = 1_000;

export function measureBullmq(settings: Settings<FlowVariant>): Promise<Figures> {
  return withBullmq(async (first) =>
    withBullmq(async (second) =>
      measureDrain(settings, async ({ name, tasks, variant }) => {
        const queue = name === "warm-up" ? first : second;
        const { slots, rate, concurrency } = variant;
        if (concurrency !== undefined) await queue.setGlobalConcurrency(concurrency);
        for (let from = 0; from < tasks; from += together)
          await queue.addBulk(
            Array.from({ length: Math.min(together, tasks - from) }, (_, i) => ({
              name: "work",
              data: { n: from + i, payload: null },
            })),
          );
        const worker = new Worker(queue.name, async ({ data }) => data.n, {
          connection: redis,
          concurrency: slots,
          autorun: false,
          ...(rate !== undefined && { limiter: { max: rate, duration: 1_000 } }),
        });
        await worker.waitUntilReady();
        return {
          async drain() {
            const all = new Promise<void>((resolve) => {
              let left = tasks;
              worker.on("completed", () => {
                left -= 1;
                if (left === 0) resolve();
              });
            });
            void worker.run();
            await all;
          },
          completed: () => queue.getCompletedCount(),
          [Symbol.asyncDispose]: () => worker.close(),
        };
      }),
    ),
  );
}
