/** Graphile Worker with its default options, except for dbq's concurrency. It has no results to await. */
import { openUtils, startRunner } from "../peers/graphile.ts";
import type { Peer, QueueLocation } from "../processes/peer.ts";

export async function openGraphile({ location }: QueueLocation): Promise<Peer> {
  const utils = await openUtils(location);
  return {
    async enqueue(n) {
      await utils.addJob("step", { n });
      return {};
    },
    async work(run, onError) {
      const step = async (payload: unknown) => await run((payload as { n: number }).n);
      const runner = await startRunner(location, { concurrency: 10, batched: false }, { step });
      runner.promise.catch(onError);
      for (const event of ["worker:getJob:error", "worker:fatalError", "job:error"] as const)
        runner.events.on(event, ({ error }) => onError(error));
    },
    close: async () => await utils.release(),
  };
}
