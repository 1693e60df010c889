/** The package-private part of a queue, which its features and the workers of its process share. */

import { show } from "../base/options/durations.ts";
import type { ReadQueueOptions } from "../base/options/options.ts";
import { processGlobal } from "../base/runtime/process-globals.ts";
import type { Store, StoreTransaction } from "../store.ts";
import type { Prepared } from "./enqueue.ts";
import type { Wakeups } from "./wakeups.ts";

/** What the methods of `within(tx)` need beside the transaction. */
export interface WithinSettings {
  readonly maxPayload: number;
  /** Whether the methods return values, not promises. */
  readonly synchronous: boolean;
  /** Called when a task was made, or something may be due sooner than it was. */
  readonly wake: () => void;
}

/** The methods that a feature adds to `within(tx)`. */
export type WithinMethods = (inside: StoreTransaction, settings: WithinSettings) => object;

export interface QueueInternals {
  readonly store: Store;
  readonly wakeups: Wakeups;
  readonly options: ReadQueueOptions;
  /** Called when the queue closes, before its store is closed. */
  readonly beforeClose: Set<() => Promise<void>>;
  /** What features add to `within(tx)`. `addFeature` in `src/worker/feature.ts` adds it. */
  readonly within: WithinMethods[];
  /** What features do for other features. Its type is theirs, whom this layer does not know. */
  readonly shared: object;
  /** The features that have joined. Their type is the workers', whom this layer does not know. */
  readonly features: object[];
  /** @throws QueueClosedError */
  checkOpen(): void;
  /** Writes a task that was encoded before the queue was opened. @throws as `Queue.enqueueTask` */
  enqueue(prepared: Prepared): Promise<number>;
}

const internalsByQueue = processGlobal("engines", () => new WeakMap<object, QueueInternals>());

export function setInternals(queue: object, internals: QueueInternals): void {
  internalsByQueue.set(queue, internals);
}

/** The internals of a queue, whose type is not named here, since `queue.ts` imports this file. @throws TypeError for other values */
export function internalsOf(queue: unknown): QueueInternals {
  // Callers without type checking may pass any value.
  const internals = typeof queue === "object" && queue !== null ? internalsByQueue.get(queue) : undefined;
  const advice = queue instanceof Promise ? ": await it first" : "";
  if (internals === undefined)
    throw new TypeError(`expected a Queue, as openQueue() gives it, got ${show(queue)}${advice}`);
  return internals;
}
