/** Makes due tasks pending, and tells other jobs what the same look has found. */
import type { WorkerStore } from "../store.ts";
import { type Job, longestSleep, type PeriodicJob } from "./periodic-job.ts";
import { KeptTasks } from "./pruning.ts";
import { unreadableIdWarning } from "./unreadable-ids.ts";

/** Tasks that one transaction promotes: other transactions wait that long at most. */
export const promoteBatch = 500;

export interface PromotionHost {
  readonly store: Pick<WorkerStore, "promote">;
  /** Tasks became pending. `hasEnded`: or tasks were ended. */
  onWork(hasEnded?: boolean): void;
  report(error: unknown, where: string): void;
}

/** @param others the worker's jobs that wait for something other than tasks: `promote` says when that is due, and each job is told */
export function promotion(host: PromotionHost, others: readonly PeriodicJob[]): Job {
  const name = "promoting due tasks";
  const warnOf = unreadableIdWarning();
  const kept = new KeptTasks((error) => host.report(error, name), "promote");
  return {
    name,
    async run() {
      const {
        promoted,
        expired = 0,
        nextDue,
        unreadableId,
        ...next
      } = await host.store.promote(promoteBatch, kept.add);
      kept.tell();
      for (const each of others) each.hear(next);
      if (promoted + expired > 0) host.onWork(expired > 0);
      warnOf(unreadableId);
      return Math.min(nextDue ?? longestSleep, longestSleep);
    },
  };
}
