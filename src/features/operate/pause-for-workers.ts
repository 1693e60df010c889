/** Pauses between the transactions of an action on many rows, so that workers have most of the time beside it. */
import { performance, sleep } from "../../base/runtime/timers.ts";
import type { WorkerStore } from "../../store.ts";

/** A pause is this many times as long as the transaction before it. */
const times = 9;
/** Milliseconds. A transaction that takes longer has mostly waited for others, or for a core. */
const longest = 75;

/**
 * Waits until workers had nine tenths of the time since `began`. Without live workers there is nothing to wait for.
 * @param began when the transaction began, by `performance.now()`
 */
export async function pauseForWorkers(store: Pick<WorkerStore, "workers">, began: number): Promise<void> {
  const took = performance.now() - began;
  if ((await store.workers()).length > 0) await sleep(Math.min(took * times, longest));
}
