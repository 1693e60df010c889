/** What stands behind a queue: the workers of this process share it, users do not see it. */

import { show } from "../base/options/durations.ts";
import type { ReadQueueOptions } from "../base/options/options.ts";
import { processGlobal } from "../base/runtime/process-globals.ts";
import type { Store } from "../store.ts";
import type { Prepared } from "./enqueue.ts";
import type { Queue } from "./queue.ts";
import type { Wakeups } from "./wakeups.ts";

/** What the workers of this process need of a queue. */
export interface QueueInternals {
  readonly store: Store;
  readonly wakeups: Wakeups;
  readonly options: ReadQueueOptions;
  /** Called when the queue closes, before its database does. */
  readonly beforeClose: Set<() => Promise<void>>;
  /** @throws QueueClosedError */
  checkOpen(): void;
  /** Writes a task that was encoded before the queue was known. @throws as `Queue.enqueueTask` */
  enqueue(prepared: Prepared): Promise<number>;
}

const internalsByQueue = processGlobal("engines", () => new WeakMap<Queue, QueueInternals>());

export function setInternals(queue: Queue, engine: QueueInternals): void {
  internalsByQueue.set(queue, engine);
}

/** @throws TypeError when it is not a queue */
export function internalsOf(queue: Queue): QueueInternals {
  // Whatever a caller without types may have given.
  const engine = typeof queue === "object" && queue !== null ? internalsByQueue.get(queue) : undefined;
  if (engine === undefined)
    throw new TypeError(`expected a Queue, as openQueue() gives it, got ${show(queue)}`);
  return engine;
}
