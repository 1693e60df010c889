/** The location of a measurement's queue, prepared before its processes start. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Contender, Figures, Settings } from "../benchmark.ts";
import { noRedis } from "../peers/bullmq.ts";
import { openPeer, type QueueLocation } from "./peer.ts";

/** A contender that measures the peer on a new, empty queue. */
export function contenderOf(
  peer: QueueLocation["peer"],
  measure: (target: QueueLocation, settings: Settings) => Promise<Figures>,
): Contender {
  return {
    name: peer,
    ...(peer === "bullmq" && { missing: noRedis }),
    measure: (settings) =>
      withQueueLocation(peer, settings, "queue.db", (target) => measure(target, settings)),
  };
}

/** Calls `use` with a new, empty queue, and deletes afterwards what is not in the measurement's folder. */
export async function withQueueLocation<T>(
  peer: QueueLocation["peer"],
  { directory, synchronous }: Pick<Settings, "directory" | "synchronous">,
  name: string,
  use: (target: QueueLocation) => Promise<T>,
): Promise<T> {
  const inRedis = peer === "bullmq";
  const location = inRedis ? `dbq-bench-${randomBytes(6).toString("hex")}` : join(directory, name);
  const target: QueueLocation = { peer, location, synchronous };
  // Creates the tables once, before several processes open the queue.
  await (await openPeer(target)).close();
  try {
    return await use(target);
  } finally {
    if (inRedis) await (await import("./bullmq-peer.ts")).obliterate(location);
  }
}
