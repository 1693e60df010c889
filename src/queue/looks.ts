/** When those who await, watch or follow tasks look at them: soon after a hint that something has changed, else twice a second. */
import type { Store } from "../store.ts";
import type { Wakeups } from "./wakeups.ts";

/** Milliseconds between two looks without a hint. */
export const fallbackPollMs = 500;

/** On a slow database looks take a tenth of the time at most. */
export const pausePerLook = 10;

const leastPauseMs = 20;

/**
 * Milliseconds until the next look that a hint may cause, after one that has taken so many: a look that has waited for the end of an
 * outage is no reason for a long pause.
 */
export const pauseAfter = (took: number): number =>
  Math.min(Math.max(leastPauseMs, pausePerLook * took), fallbackPollMs);

/** Calls `hint` when any task may have changed, in this process or in another. Returns what ends that. */
export function onTaskChanges(store: Pick<Store, "watch">, wakeups: Wakeups, hint: () => void): () => void {
  const subscriptions = [
    store.watch(hint),
    wakeups.onWorkAdded(hint),
    wakeups.onTaskEnded(hint),
    wakeups.onTaskNoted(hint),
  ];
  return () => {
    for (const end of subscriptions) end();
  };
}
