/** The tasks of a run, a thousand at a time. */
import { type Payload, type PayloadKind, payloads } from "./payloads.ts";

/** The number of tasks written together in batches. */
export const batchSize = 1_000;

export interface Entry {
  n: number;
  payload: Payload;
}

/** `tasks` entries, numbered from 0, in batches. */
export function batches(kind: PayloadKind, tasks: number): Entry[][] {
  const cycle = payloads(kind);
  const entry = (n: number): Entry => ({ n, payload: cycle[n % cycle.length] as Payload });
  return Array.from({ length: Math.ceil(tasks / batchSize) }, (_, i) =>
    Array.from({ length: Math.min(batchSize, tasks - i * batchSize) }, (_, k) => entry(i * batchSize + k)),
  );
}
