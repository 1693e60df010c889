/** Statistics: each worker counts its attempts, all workers fold what was written, and `queue.stats()` reads it. */
import { systemClock } from "../../base/runtime/clock.ts";
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import { setMeter } from "../../worker/meter.ts";
import { addJob } from "../../worker/periodic-job.ts";
import { functionStats, stats } from "./points.ts";
import { Recorder } from "./recorder.ts";

/** Milliseconds between two looks whether there is something to fold. */
const foldEvery = 60_000;

/** Makes what runs the tasks of this queue count them, and adds `queue.stats()` and `queue.functionStats()`. */
export function addStats(queue: Queue): void {
  const { store, features, options } = internalsOf(queue);
  const now = () => (options.clock ?? systemClock).now();
  setMeter(queue, (host) => new Recorder(store.stats, host, now));
  addJob(queue, () => ({
    name: "folding statistics",
    run: async () => ((await store.stats.fold()) ? 0 : foldEvery),
  }));
  const asked = (store.requests ?? store).stats;
  features.stats = (options) => stats(asked, options, now());
  features.functionStats = (filter) => functionStats(asked, filter, now());
}
