/** dbq: one worker, which fires the schedules and runs their tasks. */
import { join } from "node:path";
import { currentTask, openQueue, task, Worker } from "dbq-ts";
import type { Figures, Settings } from "../benchmark.ts";
import { withDatabase } from "../server/databases.ts";
import { concurrency, measureSchedules, type ScheduleVariant } from "./variants.ts";

export function measureDbq(on: "sqlite" | "postgres") {
  return (settings: Settings<ScheduleVariant>): Promise<Figures> =>
    on === "sqlite"
      ? measureIn(join(settings.directory, "dbq.db"), settings)
      : withDatabase(on, (url) => measureIn(url, settings));
}

async function measureIn(url: string, settings: Settings<ScheduleVariant>): Promise<Figures> {
  const { variant } = settings;
  await using queue = await openQueue(url);
  return await measureSchedules(settings, async (starts) => {
    const work = task("work", () => {
      const { schedule } = currentTask();
      if (schedule) starts(schedule.slot.getTime());
    });
    const worker = new Worker(queue, { concurrency });
    await worker.start();
    for (let n = 0; n < variant.schedules; n += 1)
      await queue.schedule(`schedule-${n}`, { cron: variant.cron, overlap: "allow" }, work);
    return { [Symbol.asyncDispose]: () => worker.stop() };
  });
}
