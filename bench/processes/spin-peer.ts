/**
 * No queue at all: its "worker" burns CPU in pieces of a tenth of a millisecond and lets the event loop turn after each.
 * What such processes see of blocked event loops is the machine's scheduler, and no queue's doing.
 */
import type { Peer, Run } from "./peer.ts";

/** Milliseconds. */
const piece = 0.1;

export async function openSpin(): Promise<Peer> {
  return {
    enqueue: async () => ({}),
    async work(run) {
      setImmediate(() => void spin(run));
    },
    close: async () => undefined,
  };
}

async function spin(run: Run): Promise<void> {
  for (let n = 0; ; n += 1) {
    const end = performance.now() + piece;
    while (performance.now() < end);
    await run(n);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
