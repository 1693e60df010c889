/** BullMQ: `add`, and `addBulk` for many. */
import type { Queue } from "bullmq";
import { type Data, withBullmq } from "../peers/bullmq.ts";
import type { Timed } from "../warm-up.ts";
import { checkEnqueued, type Enqueuer, type EnqueueVariant, enqueueAll } from "./variants.ts";

function enqueuerOf(queue: Queue<Data>): Enqueuer {
  return {
    one: (data) => queue.add("work", data),
    tick: (batch) => Promise.all(batch.map((data) => queue.add("work", data))),
    many: (batch) => queue.addBulk(batch.map((data) => ({ name: "work", data }))),
  };
}

export function enqueueBullmq(): Timed<EnqueueVariant> {
  return async (run) =>
    await withBullmq(async (queue) => {
      const milliseconds = await enqueueAll(run, enqueuerOf(queue));
      checkEnqueued(await queue.getWaitingCount(), run.tasks);
      return milliseconds;
    });
}
