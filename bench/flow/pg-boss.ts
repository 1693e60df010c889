/** pg-boss: `groupConcurrency`, over all machines. A limit without groups is that of one group. It has no rates for starts. */
import type { Figures, Settings } from "../benchmark.ts";
import { allCompleted, countJobs, openBoss, queue } from "../peers/pg-boss.ts";
import { withConnection } from "../server/connection.ts";
import { withDatabase } from "../server/databases.ts";
import { type Filled, type Filling, type FlowVariant, groupOf, measureDrain } from "./variants.ts";

const together = 1_000;

export function measurePgBoss(settings: Settings<FlowVariant>): Promise<Figures> {
  return withDatabase("postgres", (first) =>
    withDatabase("postgres", (second) =>
      measureDrain(settings, (filling) => fill(filling.name === "warm-up" ? first : second, filling)),
    ),
  );
}

async function fill(url: string, { tasks, variant }: Filling): Promise<Filled> {
  const { slots, concurrency = slots, groups = 1 } = variant;
  const boss = await openBoss(url);
  for (let from = 0; from < tasks; from += together)
    await boss.insert(
      queue,
      Array.from({ length: Math.min(together, tasks - from) }, (_, i) => ({
        data: { n: from + i },
        group: { id: groupOf(from + i, groups) },
      })),
    );
  // Batches that are as large as the limit allows are full, and the next one is fetched at once.
  const batchSize = Math.min(slots, concurrency * groups);
  const how = {
    batchSize,
    groupConcurrency: concurrency,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
  };
  return {
    async drain() {
      await boss.work<{ n: number }>(queue, how, async (jobs) => jobs.length);
      await withConnection(url, allCompleted);
    },
    completed: () => countJobs(url, "completed"),
    [Symbol.asyncDispose]: () => boss.stop({ graceful: false, close: true }),
  };
}
