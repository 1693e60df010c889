/** The location of a queue on a server during a measurement with several processes. */
import type { Contender, Figures, Server, Settings, Variant } from "../benchmark.ts";
import { openPeer, type QueueLocation } from "../processes/peer.ts";
import { noServer, withDatabase } from "./databases.ts";
import { peerOn } from "./peer.ts";

/** A contender that measures in a new database. */
export function contenderOn<V extends Variant>(
  server: Server,
  name: string,
  peer: QueueLocation["peer"],
  measure: (target: QueueLocation, settings: Settings<V>) => Promise<Figures>,
): Contender<V> {
  const isPeer = peer === "graphile" || peer === "pgBoss";
  return {
    name,
    ...(isPeer ? peerOn : { missing: noServer(server) }),
    measure: (settings) =>
      withDatabase(server, async (location) => {
        const target: QueueLocation = { peer, location, synchronous: settings.synchronous };
        // Creates the tables once, before several processes open the queue.
        await (await openPeer(target)).close();
        return await measure(target, settings);
      }),
  };
}
