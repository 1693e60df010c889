/** Looks at tasks, and what people do about them: workers delete old rows of `dbq_audit`. */
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { deletingJob } from "../../worker/pruning.ts";

/** Milliseconds that the actions of people in the dashboard are kept: 90 days. */
const auditAge = 90 * 86_400_000;
const auditEvery = 3_600_000;

export function look(queue: Queue): Feature {
  const { store } = internalsOf(queue);
  // A role that may not delete them keeps them: that is reported, and stops nothing else.
  const pruning = deletingJob("deleting old rows of dbq_audit", auditEvery, (most) =>
    store.look.pruneAudits(auditAge, most),
  );
  return { jobs: () => [pruning] };
}
