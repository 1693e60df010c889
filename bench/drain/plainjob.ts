/**
 * plainjob: where the handler waits, as many workers in one process as the concurrency; else one worker. It stores no
 * results.
 */
import { join } from "node:path";
import { defineWorker, JobStatus } from "plainjob";
import { batches, type Entry } from "../batches.ts";
import { openPlainjob, silent } from "../peers/plainjob.ts";
import type { Timed } from "../warm-up.ts";
import { checkCompleted, type DrainVariant, Handlers } from "./variants.ts";

export function drainPlainjob({ wait }: DrainVariant): Timed<DrainVariant> {
  const { handler } = new Handlers(wait);
  return async ({ directory, synchronous, variant, tasks }) => {
    const path = join(directory, "plainjob.db");
    const filling = openPlainjob(path, synchronous);
    for (const batch of batches(variant.payload, tasks)) filling.addMany("work", batch);
    filling.close();

    const queue = openPlainjob(path, synchronous);
    const { all, onCompleted } = completions(tasks);
    const work = async (job: { data: string }) => {
      const { n, payload } = JSON.parse(job.data) as Entry;
      await handler(n, payload);
    };
    const workers = Array.from({ length: variant.wait === 0 ? 1 : variant.concurrency }, () =>
      defineWorker("work", work, { queue, logger: silent, onCompleted }),
    );
    const start = performance.now();
    const running = workers.map((worker) => worker.start());
    await all;
    const milliseconds = performance.now() - start;
    await Promise.all(workers.map((worker) => worker.stop()));
    await Promise.all(running);
    checkCompleted(queue.countJobs({ status: JobStatus.Done }), tasks);
    queue.close();
    return milliseconds;
  };
}

function completions(tasks: number): { all: Promise<void>; onCompleted: () => void } {
  let left = tasks;
  let done: () => void = () => undefined;
  const all = new Promise<void>((resolve) => {
    done = resolve;
  });
  const onCompleted = () => {
    left -= 1;
    if (left === 0) done();
  };
  return { all, onCompleted };
}
