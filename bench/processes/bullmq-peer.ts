/** BullMQ with its default options, except for dbq's concurrency. `synchronous` is up to the Redis server. */
import { Queue, QueueEvents, Worker } from "bullmq";
import { redis } from "../peers/bullmq.ts";
import { sleep } from "./clock.ts";
import type { Peer, QueueLocation } from "./peer.ts";

/** Milliseconds until events are read; and until a missing result is an error. */
const settling = 500;
const patience = 10_000;

const connection = { ...redis, maxRetriesPerRequest: null };

export async function openBullmq({ location }: QueueLocation): Promise<Peer> {
  const queue = new Queue(location, { connection });
  await queue.waitUntilReady();
  let events: QueueEvents | undefined;
  return {
    async enqueue(n) {
      const job = await queue.add("step", n);
      return { completed: () => job.waitUntilFinished(events as QueueEvents, patience) };
    },
    async listen() {
      events = new QueueEvents(location, { connection });
      await events.waitUntilReady();
      // It reports ready before it reads events, and would miss results until then.
      await sleep(settling);
    },
    async work(run, onError) {
      const worker = new Worker<number>(location, async ({ data }) => await run(data), {
        connection,
        concurrency: 10,
      });
      worker.on("error", onError);
      await worker.waitUntilReady();
    },
    async close() {
      await events?.close();
      await queue.close();
    },
  };
}

/** Deletes all that the queue has left in Redis. */
export async function obliterate(location: string): Promise<void> {
  const queue = new Queue(location, { connection });
  await queue.obliterate({ force: true });
  await queue.close();
}
