/** Partitions: workers move finished tasks into the tables of their days, and drop old tables. */

import type { Feature } from "../../worker/feature.ts";
import type { Job } from "../../worker/periodic-job.ts";
import { afterFailure } from "../../worker/pruning.ts";
import { internalsOf, type Queue } from "../queue.ts";

/** Tasks that one transaction moves. */
const moveBatch = 200;
/** Milliseconds that a finished task stays where awaits look first. */
const moveAfter = 60_000;
const moveEvery = 10_000;
const dropEvery = 600_000;

/**
 * Old tables are dropped also where tasks do not move any more, since `prune` deletes nothing in them. Only Postgres has
 * partitions.
 */
export function partitions(queue: Queue): Feature {
  const { store, options } = internalsOf(queue);
  const { retention, partitionFinished } = options;
  const { partitions } = store;
  if (!partitions) return {};
  const moving: Job = {
    name: "moving finished tasks to partitions",
    afterFailure,
    run: async () => ((await partitions.move(retention, moveBatch, moveAfter)) < moveBatch ? moveEvery : 0),
  };
  const dropping: Job = {
    name: "dropping old partitions of finished tasks",
    afterFailure,
    async run() {
      await partitions.drop(retention);
      return dropEvery;
    },
  };
  return { jobs: () => (partitionFinished ? [moving, dropping] : [dropping]) };
}
