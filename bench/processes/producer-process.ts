/**
 * Enqueues in a separate process, one task after the other at irregular intervals, so that the worker is idle each
 * time.
 */
import { sharedNow, sleep } from "./clock.ts";
import { openPeer, type QueueLocation } from "./peer.ts";
import { configOf, serve } from "./served.ts";

export interface ProducerConfig {
  target: QueueLocation;
}

/** Indexed by the tasks' numbers, on the shared clock, in milliseconds. */
export interface Stamps {
  called: Float64Array;
  /** When the enqueue resolved. */
  written: Float64Array;
  /** When the result was known; empty when it was not awaited. */
  completed: Float64Array;
}

/** The interval between two tasks in milliseconds is random between these. */
const gap = { shortest: 5, longest: 30 };

const { target } = configOf<ProducerConfig>();
const peer = await openPeer(target);

const commands = {
  async produce(tasks: number, awaited: boolean): Promise<Stamps> {
    const called = new Float64Array(tasks);
    const written = new Float64Array(tasks);
    const completed = new Float64Array(awaited ? tasks : 0);
    if (awaited) await peer.listen?.();
    for (let n = 0; n < tasks; n += 1) {
      await sleep(gap.shortest + Math.random() * (gap.longest - gap.shortest));
      called[n] = sharedNow();
      const enqueued = await peer.enqueue(n);
      written[n] = sharedNow();
      if (!awaited) continue;
      await enqueued.completed?.();
      completed[n] = sharedNow();
    }
    return { called, written, completed };
  },
};

export type ProducerCommands = typeof commands;

serve(commands);
