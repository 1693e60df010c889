/** BullMQ's addBulk alone, with the jobs that a drain of the same tasks adds. */
import { batches } from "../batches.ts";
import { withBullmq } from "../peers/bullmq.ts";
import type { Timed } from "../warm-up.ts";
import { type StagedVariant, together } from "./variants.ts";

/** As drained: dbq's default priority, and three retries. */
const options = { priority: 1_048_571, attempts: 4 };

export function addBulk(): Timed<StagedVariant> {
  return async ({ variant, tasks }) =>
    await withBullmq(async (queue) => {
      const jobs = batches(variant.payload, tasks)
        .flat()
        .map(({ n, payload }) => ({
          name: "work",
          data: { args: [n, payload], kwargs: {}, meta: {}, requestId: null } as never,
          opts: { ...options, jobId: `dbq-00000000-0000-4000-8000-000000000000-${n}` },
        }));
      const start = performance.now();
      for (let i = 0; i < jobs.length; i += together) await queue.addBulk(jobs.slice(i, i + together));
      return performance.now() - start;
    });
}
