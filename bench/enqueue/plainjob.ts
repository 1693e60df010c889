/** plainjob: `add`, and `addMany` for many. `add` is synchronous and commits each job, also within one tick. */
import { join } from "node:path";
import { JobStatus, type Queue } from "plainjob";
import { openPlainjob } from "../peers/plainjob.ts";
import type { Timed } from "../warm-up.ts";
import { checkEnqueued, type Enqueuer, type EnqueueVariant, enqueueAll } from "./variants.ts";

function enqueuerOf(queue: Queue): Enqueuer {
  return {
    one: (entry) => queue.add("work", entry),
    tick: (batch) => batch.map((entry) => queue.add("work", entry)),
    many: (batch) => queue.addMany("work", [...batch]),
  };
}

export function enqueuePlainjob(): Timed<EnqueueVariant> {
  return async (run) => {
    const queue = openPlainjob(join(run.directory, "plainjob.db"), run.synchronous);
    const milliseconds = await enqueueAll(run, enqueuerOf(queue));
    checkEnqueued(queue.countJobs({ status: JobStatus.Pending }), run.tasks);
    queue.close();
    return milliseconds;
  };
}
