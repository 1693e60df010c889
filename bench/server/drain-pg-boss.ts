/**
 * pg-boss: one worker in the process, with batches as large as the concurrency, which fetches the next batch at once
 * while batches are full. Jobs are kept after their run; results of jobs in a batch are not stored.
 */
import { batches, type Entry } from "../batches.ts";
import { checkCompleted, type DrainVariant, Handlers } from "../drain/variants.ts";
import { allCompleted, countJobs, queue, withBoss } from "../peers/pg-boss.ts";
import type { Timed } from "../warm-up.ts";
import { settle, withConnection } from "./connection.ts";
import { onServer, type ServerRun } from "./databases.ts";

export function drainPgBoss({ wait, concurrency }: DrainVariant): Timed<DrainVariant> {
  const handlers = new Handlers(wait);
  const how = { batchSize: concurrency, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
  return onServer("postgres", async (run) => {
    const { url, tasks } = run;
    await fill(run);
    await settle(url);
    return await withConnection(url, (connection) =>
      withBoss(url, async (boss) => {
        const allRun = handlers.times(tasks);
        const start = performance.now();
        await boss.work<Entry>(queue, how, async (jobs) => {
          await Promise.all(jobs.map(({ data }) => handlers.handler(data.n, data.payload)));
        });
        await allRun;
        await allCompleted(connection);
        const milliseconds = performance.now() - start;
        checkCompleted(await countJobs(url, "completed"), tasks);
        return milliseconds;
      }),
    );
  });
}

async function fill({ url, variant, tasks }: ServerRun<DrainVariant>): Promise<void> {
  await withBoss(url, async (boss) => {
    for (const batch of batches(variant.payload, tasks)) {
      await boss.insert(
        queue,
        batch.map((data) => ({ data })),
      );
    }
  });
}
