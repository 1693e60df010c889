/** BullMQ: one worker, the same concurrency, results stored; jobs are kept when they are done, which is its default. */
import { Worker } from "bullmq";
import { batches } from "../batches.ts";
import type { Payload } from "../payloads.ts";
import { type BullmqJob, redis, withBullmq } from "../peers/bullmq.ts";
import type { Timed } from "../warm-up.ts";
import { checkCompleted, type DrainVariant, Handlers } from "./variants.ts";

export function drainBullmq({ wait }: DrainVariant): Timed<DrainVariant> {
  const { handler } = new Handlers(wait);
  const process = async (job: BullmqJob) => await handler(job.data.n, job.data.payload as Payload);
  return async ({ variant, tasks }) =>
    await withBullmq(async (queue) => {
      for (const batch of batches(variant.payload, tasks)) {
        await queue.addBulk(batch.map((data) => ({ name: "work", data })));
      }
      const { concurrency } = variant;
      const worker = new Worker(queue.name, process, { connection: redis, concurrency, autorun: false });
      await worker.waitUntilReady();
      const all = new Promise<void>((resolve) => {
        let left = tasks;
        worker.on("completed", () => {
          left -= 1;
          if (left === 0) resolve();
        });
      });
      const start = performance.now();
      const running = worker.run();
      await all;
      const milliseconds = performance.now() - start;
      await worker.close();
      await running;
      checkCompleted(await queue.getCompletedCount(), tasks);
      return milliseconds;
    });
}
