/** The location of a measurement's queue, prepared before its processes start. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Contender, Figures, Settings } from "../benchmark.ts";
import { noRedis } from "../peers/bullmq.ts";
import { openPeer, type Place } from "./peer.ts";

/** A contender that measures the peer on a new, empty queue. */
export function contenderOf(
  peer: Place["peer"],
  measure: (place: Place, settings: Settings) => Promise<Figures>,
): Contender {
  return {
    name: peer,
    ...(peer === "bullmq" && { missing: noRedis }),
    measure: (settings) => withPlace(peer, settings, "queue.db", (place) => measure(place, settings)),
  };
}

/** Calls `use` with a new, empty queue, and deletes afterwards what is not in the measurement's folder. */
export async function withPlace<T>(
  peer: Place["peer"],
  { directory, synchronous }: Pick<Settings, "directory" | "synchronous">,
  name: string,
  use: (place: Place) => Promise<T>,
): Promise<T> {
  const inRedis = peer === "bullmq";
  const location = inRedis ? `dbq-bench-${randomBytes(6).toString("hex")}` : join(directory, name);
  const place: Place = { peer, location, synchronous };
  // Creates the tables once, before several processes open the queue.
  await (await openPeer(place)).close();
  try {
    return await use(place);
  } finally {
    if (inRedis) await (await import("./bullmq-peer.ts")).obliterate(location);
  }
}
