/** BullMQ with the options that it has by default, but for dbq's concurrency. `synchronous` is the Redis server's business. */
import { Queue, QueueEvents, Worker } from "bullmq";
import { redis } from "../peers/bullmq.ts";
import { sleep } from "./clock.ts";
import type { Peer, Place } from "./peer.ts";

/** Milliseconds until events are read, and until a result that has not been told of is an error. */
const settling = 500;
const patience = 10_000;

const connection = { ...redis, maxRetriesPerRequest: null };

export async function openBullmq({ location }: Place): Promise<Peer> {
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
      // It is ready before it reads: what ends until then is never told.
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
