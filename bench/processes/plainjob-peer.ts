/** plainjob with its default options, except for `synchronous` and a silent logger. */
import { defineWorker } from "plainjob";
import { silent as logger, openPlainjob } from "../peers/plainjob.ts";
import type { Peer, QueueLocation } from "./peer.ts";

export async function openPlainjobPeer({ location, synchronous }: QueueLocation): Promise<Peer> {
  const queue = openPlainjob(location, synchronous);
  return {
    async enqueue(n) {
      queue.add("step", n);
      return {};
    },
    async work(run, onError) {
      const worker = defineWorker("step", async ({ data }) => await run(Number(data)), { queue, logger });
      worker.start().catch(onError);
    },
    async close() {
      queue.close();
    },
  };
}
