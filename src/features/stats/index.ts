/** Statistics: each worker counts its attempts, all workers fold what was written, and `queue.stats()` reads it. */
import { systemClock } from "../../base/runtime/clock.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { internalsOf } from "../queue.ts";
import type { StatsMethods } from "./methods.ts";
import * as points from "./points.ts";
import { Recorder } from "./recorder.ts";

/** Milliseconds between two looks whether there is something to fold. */
const foldEvery = 60_000;

/** Pending tasks that are counted each minute, of all queues together: an index alone tells how many there are. */
const mostCounted = 100_000;

/** Milliseconds until a little after the next minute begins. */
const untilNextMinute = (time: number): number => foldEvery - (time % foldEvery) + 500;

/** Makes what runs the tasks of a queue count them, and gives it `stats` and `functionStats`. */
export function stats(queue: CoreQueue): Feature {
  const { store, options } = internalsOf(queue);
  const now = () => (options.clock ?? systemClock).now();
  const asked = (store.requests ?? store).stats;
  const folding = {
    name: "folding statistics",
    run: async () => ((await store.stats.fold()) ? 0 : foldEvery),
  };
  const depths = {
    name: "recording how many tasks are pending",
    afterFailure: foldEvery,
    run: async () => {
      const minute = await store.stats.takeMinute();
      if (minute !== undefined) await store.stats.writeDepths(minute, await store.health.depths(mostCounted));
      return untilNextMinute(now());
    },
  };
  const methods: StatsMethods = {
    stats: (asking) => points.stats(asked, asking, now()),
    functionStats: (filter) => points.functionStats(asked, filter, now()),
  };
  return {
    methods,
    jobs: () => [folding, depths],
    meter: (host) => new Recorder(store.stats, host, now),
  };
}
