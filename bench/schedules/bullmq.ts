/** BullMQ: job schedulers. The id of a scheduler's job ends with its slot. */
import { Worker } from "bullmq";
import type { Figures, Settings } from "../benchmark.ts";
import { redis, withBullmq } from "../peers/bullmq.ts";
import { concurrency, measureSchedules, type ScheduleVariant } from "./variants.ts";

export function measureBullmq(settings: Settings<ScheduleVariant>): Promise<Figures> {
  const { schedules, cron } = settings.variant;
  return withBullmq((queue) =>
    measureSchedules(settings, async (starts) => {
      const worker = new Worker(
        queue.name,
        async ({ id = "" }) => starts(Number(id.slice(id.lastIndexOf(":") + 1))),
        { connection: redis, concurrency },
      );
      await worker.waitUntilReady();
      for (let n = 0; n < schedules; n += 1)
        await queue.upsertJobScheduler(`schedule-${n}`, { pattern: cron, tz: "UTC" }, { name: "work" });
      return {
        async [Symbol.asyncDispose]() {
          for (let n = 0; n < schedules; n += 1) await queue.removeJobScheduler(`schedule-${n}`);
          await worker.close();
        },
      };
    }),
  );
}
