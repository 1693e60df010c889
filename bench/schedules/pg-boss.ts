/** pg-boss: cron schedules, which are due once a minute at most. It looks for those that are due every second here. */
import { PgBoss } from "pg-boss";
import type { Figures, Settings } from "../benchmark.ts";
import { queue } from "../peers/pg-boss.ts";
import { withDatabase } from "../server/databases.ts";
import { concurrency, measureSchedules, type ScheduleVariant } from "./variants.ts";

/** The shortest times that its options allow. */
const how = { cronMonitorIntervalSeconds: 1, cronWorkerIntervalSeconds: 1 };

export function measurePgBoss(settings: Settings<ScheduleVariant>): Promise<Figures> {
  const { schedules, cron, every } = settings.variant;
  return withDatabase("postgres", (url) =>
    measureSchedules(settings, async (starts) => {
      const boss = new PgBoss({ connectionString: url, ...how });
      boss.on("error", (error) => process.stderr.write(`pg-boss: ${error.message}\n`));
      await boss.start();
      await boss.createQueue(queue);
      for (let n = 0; n < schedules; n += 1)
        await boss.schedule(queue, cron, null, { tz: "UTC", key: `schedule-${n}` });
      const batches = { batchSize: concurrency, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
      await boss.work(queue, batches, async (jobs) => {
        for (const _ of jobs) starts(Math.floor(Date.now() / every) * every);
      });
      return { [Symbol.asyncDispose]: () => boss.stop({ graceful: false, close: true }) };
    }),
  );
}
