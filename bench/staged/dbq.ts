/** dbq: one drain, into BullMQ or into nothing. */
import { join } from "node:path";
import { openQueue, type Queue, remoteTask } from "dbq-ts";
import { type DrainTarget, drain } from "dbq-ts/drain";
import { bullmq } from "dbq-ts/drain/bullmq";
import { batches } from "../batches.ts";
import { checkCompleted } from "../drain/variants.ts";
import { withBullmq } from "../peers/bullmq.ts";
import { withDatabase } from "../server/databases.ts";
import type { Run, Timed } from "../warm-up.ts";
import { type StagedVariant, together } from "./variants.ts";

const work = remoteTask("work", { maxRetries: 3 });

const nothing: DrainTarget = {
  limits: { count: together, bytes: 2 ** 30 },
  send: async (messages) => messages.map(() => "sent"),
  close: async () => undefined,
};

/** How to carry the tasks of a full queue. */
export function carryInto(
  target: "bullmq" | "nothing",
  on: "sqlite" | "postgres",
): () => Timed<StagedVariant> {
  return () => async (run) => {
    const measure = async (to: DrainTarget) =>
      on === "sqlite"
        ? await carry(run, join(run.directory, "dbq.db"), to)
        : await withDatabase(on, async (url) => await carry(run, url, to));
    if (target === "nothing") return await measure(nothing);
    return await withBullmq(async (queue) => await measure(bullmq(queue)));
  };
}

async function carry(
  { variant, tasks, synchronous }: Run<StagedVariant>,
  database: string,
  to: DrainTarget,
): Promise<number> {
  await using queue: Queue = await openQueue(database, { synchronous });
  for (const batch of batches(variant.payload, tasks))
    await queue.enqueueTasks(batch.map(({ n, payload }) => [work, n, payload] as const));
  const carrier = drain(queue, { to, batch: together });
  const all = new Promise<void>((resolve, reject) => {
    let left = tasks;
    carrier.on("error", reject);
    carrier.on("sent", (ids) => {
      left -= ids.length;
      if (left === 0) resolve();
    });
  });
  const start = performance.now();
  await carrier.start();
  await all;
  const milliseconds = performance.now() - start;
  await carrier.stop();
  checkCompleted((await queue.countTasks()).completed, tasks);
  return milliseconds;
}
