/** The background work on finished tasks: deletes old ones, and frees unique keys whose time has passed. */
import type { LimitStore, LookStore, Retention, Store, WorkerStore } from "../store.ts";
import type { Job } from "./periodic-job.ts";

const pruneEvery = 30_000;
/** Tasks that one transaction prunes: other transactions wait that long at most. */
const pruneBatch = 500;

/** Tasks that one transaction moves to partitions. */
const moveBatch = 200;
/** Milliseconds that a finished task stays where awaits look first. */
const moveAfter = 60_000;
const moveEvery = 10_000;
const dropEvery = 600_000;

/** Milliseconds that the actions of people in the dashboard are kept: 90 days. */
export const auditAge = 90 * 86_400_000;
const auditEvery = 3_600_000;

/** Milliseconds: a late start counts as if it had come up to 1.83 days earlier, for the longest `per` of a rate (`rate.ts`). */
export const limitAge = 2 * 86_400_000;
const limitsEvery = 3_600_000;

interface PruningHost {
  readonly store: Pick<WorkerStore, "prune" | "freeKeys">;
  readonly retention: Retention;
}

/**
 * Each run also looks at some unique keys. That they are freed in time does not depend on it: an enqueue frees the key that
 * it wants. It keeps the column right for programs that insert tasks by SQL.
 */
export const pruning = ({ store, retention }: PruningHost): Job => {
  let key = "";
  return {
    name: "pruning finished tasks",
    async run() {
      const removed = await store.prune(retention, pruneBatch);
      key = (await store.freeKeys(key, pruneBatch)).last ?? "";
      return removed < pruneBatch ? pruneEvery : 0;
    },
  };
};

/** A role that may not delete them keeps them: that is reported, and stops nothing else. */
export const auditPruning = (look: Pick<LookStore, "pruneAudits">): Job => ({
  name: "deleting old rows of dbq_audit",
  run: async () => ((await look.pruneAudits(auditAge, pruneBatch)) < pruneBatch ? auditEvery : 0),
});

/** A rate or a throttle of groups leaves a row for each: of tenants that are gone, too. */
export const limitPruning = (limits: Pick<LimitStore, "prune">): Job => ({
  name: "deleting rows of dbq_limits that have no effect",
  run: async () => ((await limits.prune(limitAge, pruneBatch)) < pruneBatch ? limitsEvery : 0),
});

/**
 * The jobs for tables of finished tasks by day. Old tables are dropped also where tasks do not move any more, since `prune` deletes
 * nothing in them.
 */
export function partitionJobs(
  { partitions }: Pick<Store, "partitions">,
  { retention, partitionFinished = false }: { retention: Retention; partitionFinished?: boolean },
): Job[] {
  if (!partitions) return [];
  const moving: Job = {
    name: "moving finished tasks to partitions",
    run: async () => ((await partitions.move(retention, moveBatch, moveAfter)) < moveBatch ? moveEvery : 0),
  };
  const dropping: Job = {
    name: "dropping old partitions of finished tasks",
    async run() {
      await partitions.drop(retention);
      return dropEvery;
    },
  };
  return partitionFinished ? [moving, dropping] : [dropping];
}
