/** The queues under test, as processes use them: some enqueue, others work. */
import type { Synchronous } from "../benchmark.ts";

export interface Peer {
  /** Resolves when the peer reports the task as written. */
  enqueue(n: number): Promise<Enqueued>;
  /** Resolves when this process receives results; called before the first await. */
  listen?(): Promise<void>;
  /** Resolves when a worker runs in this process, which calls `run` with each payload. */
  work(run: Run, onError: (error: unknown) => void): Promise<void>;
  close(): Promise<void>;
}

export interface Enqueued {
  /** Resolves when the result is known in this process. Absent where the peer has no such feature. */
  completed?: () => Promise<unknown>;
}

export type Run = (n: number) => void | Promise<void>;

/** The location of a queue: its peer, and the file, name or URL. */
export interface QueueLocation {
  peer: keyof typeof peers;
  location: string;
  synchronous: Synchronous;
}

const peers = {
  dbq: async () => (await import("./dbq-peer.ts")).openDbq,
  floor: async () => (await import("./floor-peer.ts")).openFloor,
  plainjob: async () => (await import("./plainjob-peer.ts")).openPlainjobPeer,
  bullmq: async () => (await import("./bullmq-peer.ts")).openBullmq,
  graphile: async () => (await import("../server/graphile-peer.ts")).openGraphile,
  pgBoss: async () => (await import("../server/pg-boss-peer.ts")).openPgBoss,
  postgresFloor: async () => (await import("../server/floor-peer.ts")).openFloor,
  spin: async () => (await import("./spin-peer.ts")).openSpin,
};

/** A process loads only the peer that it uses. */
export async function openPeer(target: QueueLocation): Promise<Peer> {
  const open = await peers[target.peer]();
  return await open(target);
}
