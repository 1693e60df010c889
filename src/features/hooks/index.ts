/** Hooks that crashes owe: what the workers of a queue need to run them. */
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import { addJob } from "../../worker/periodic-job.ts";
import { OwedHooks } from "./owed.ts";

export function openOwedHooks(queue: Queue): void {
  const { store } = internalsOf(queue);
  addJob(queue, (host) => new OwedHooks(store, host));
}
