/** pg-boss in the setting that starts a job soonest: its workers listen, and also poll every half second. */
import { openBoss, queue } from "../peers/pg-boss.ts";
import type { Peer, QueueLocation } from "../processes/peer.ts";

export async function openPgBoss({ location }: QueueLocation): Promise<Peer> {
  const boss = await openBoss(location, { listen: true });
  return {
    async enqueue(n) {
      await boss.send(queue, { n });
      return {};
    },
    async work(run, onError) {
      boss.on("error", onError);
      const how = { batchSize: 10, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
      await boss.work<{ n: number }>(queue, { ...how, notifyPollingIntervalSeconds: 0.5 }, async (jobs) => {
        await Promise.all(jobs.map(async ({ data }) => await run(data.n)));
      });
    },
    close: async () => await boss.stop({ graceful: false, close: true }),
  };
}
