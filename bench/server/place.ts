/** Where a queue on a server is while a measurement of several processes lasts. */
import type { Contender, Figures, Server, Settings, Variant } from "../benchmark.ts";
import { openPeer, type Place } from "../processes/peer.ts";
import { noServer, withDatabase } from "./databases.ts";
import { peerOn } from "./peer.ts";

/** A contender that measures in a new database of its own. */
export function contenderOn<V extends Variant>(
  server: Server,
  name: string,
  peer: Place["peer"],
  measure: (place: Place, settings: Settings<V>) => Promise<Figures>,
): Contender<V> {
  const isPeer = peer === "graphile" || peer === "pgBoss";
  return {
    name,
    ...(isPeer ? peerOn : { missing: noServer(server) }),
    measure: (settings) =>
      withDatabase(server, async (location) => {
        const place: Place = { peer, location, synchronous: settings.synchronous };
        // Tables are made here, once, and not by several processes at a time.
        await (await openPeer(place)).close();
        return await measure(place, settings);
      }),
  };
}
