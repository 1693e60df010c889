/** The variants of the enqueue benchmarks, and what their contenders share. */

import { batches, type Entry } from "../batches.ts";
import type { Variant } from "../benchmark.ts";
import type { PayloadKind } from "../payloads.ts";
import type { Run } from "../warm-up.ts";

/** `one`: each awaited before the next. `tick`: a thousand calls, awaited together. `many`: a thousand in one call. */
export type Way = "one" | "tick" | "many";

export interface EnqueueVariant extends Variant {
  readonly way: Way;
  readonly payload: PayloadKind;
}

export type EnqueueRun = Run<EnqueueVariant>;

/** How each contender enqueues one task, and a batch in each of the batch variants. */
export interface Enqueuer {
  one(entry: Entry): unknown;
  tick(batch: readonly Entry[]): unknown;
  many(batch: readonly Entry[]): unknown;
}

/** The milliseconds in which all tasks of a run were enqueued. A promise is awaited, any other value is not. */
export async function enqueueAll(
  { variant: { way, payload }, tasks }: EnqueueRun,
  enqueuer: Enqueuer,
): Promise<number> {
  const all = batches(payload, tasks);
  const start = performance.now();
  for (const batch of all) {
    if (way === "one") await oneByOne(batch, enqueuer);
    else await (way === "tick" ? enqueuer.tick(batch) : enqueuer.many(batch));
  }
  return performance.now() - start;
}

async function oneByOne(batch: readonly Entry[], enqueuer: Enqueuer): Promise<void> {
  for (const entry of batch) {
    const enqueued = enqueuer.one(entry);
    if (enqueued instanceof Promise) await enqueued;
  }
}

/** @throws Error when some tasks are missing: the time would mean nothing */
export function checkEnqueued(there: number, tasks: number): void {
  if (there !== tasks) throw new Error(`${there} of ${tasks} tasks are in the queue`);
}
