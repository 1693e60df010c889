/**
 * A peer without a queue: its "worker" burns CPU in pieces of a tenth of a millisecond, and yields to the event loop
 * after each. The blocked event loops of such processes are due to the machine's scheduler, not to a queue.
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
