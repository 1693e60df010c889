/** Graphile Worker: `addJob`, and `addJobs` for many. */
import type { WorkerUtils } from "graphile-worker";
import { checkEnqueued, type Enqueuer, type EnqueueVariant, enqueueAll } from "../enqueue/variants.ts";
import { countJobs, withUtils } from "../peers/graphile.ts";
import type { Timed } from "../warm-up.ts";
import { onServer } from "./databases.ts";

function enqueuerOf({ addJob, addJobs }: WorkerUtils): Enqueuer {
  return {
    one: (payload) => addJob("work", payload),
    tick: (batch) => Promise.all(batch.map((payload) => addJob("work", payload))),
    many: (batch) => addJobs(batch.map((payload) => ({ identifier: "work", payload }))),
  };
}

export function enqueueGraphile(): Timed<EnqueueVariant> {
  return onServer("postgres", async (run) => {
    const milliseconds = await withUtils(run.url, (utils) => enqueueAll(run, enqueuerOf(utils)));
    checkEnqueued(await countJobs(run.url), run.tasks);
    return milliseconds;
  });
}
