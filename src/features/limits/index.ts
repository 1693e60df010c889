/** Limits: workers delete rows of `dbq_limits` that have no effect. */
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { deletingJob } from "../../worker/pruning.ts";

/** Milliseconds: a late start counts as if it had come up to 1.83 days earlier, for the longest `per` of a rate (`rate.ts`). */
const limitAge = 2 * 86_400_000;
const limitsEvery = 3_600_000;

export function limits(queue: Queue): Feature {
  const { store } = internalsOf(queue);
  // A rate or a throttle of groups leaves a row for each: of tenants that are gone, too.
  const pruning = deletingJob("deleting rows of dbq_limits that have no effect", limitsEvery, (most) =>
    store.limits.prune(limitAge, most),
  );
  return { jobs: () => [pruning] };
}
