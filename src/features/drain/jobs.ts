/** The periodic work of the drain that carries a queue. */

import type { Job } from "../../worker/periodic-job.ts";
import { KeptTasks } from "../../worker/pruning.ts";
import type { DrainStore } from "./contract.ts";
import type { ReadDrainOptions } from "./options.ts";

/** Tasks that one transaction looks at. The limit keeps the wait of other transactions short. */
const atOnce = 500;

/** Milliseconds between two runs, and between two parts of one. */
const pause = { longest: 30_000, shortest: 100, part: 5, standby: 1_000 };

/** Deletes sent tasks after `keep`. Each run continues where the last one ended, so that each finished task is read once. */
export function deletesOld(
  drains: Pick<DrainStore, "forget">,
  { queueName, keep }: Pick<ReadDrainOptions, "queueName" | "keep">,
  isActive: () => boolean,
  report: (error: unknown, where: string) => void,
): Job | undefined {
  if (keep === undefined || keep === Number.POSITIVE_INFINITY) return undefined;
  const name = "deleting sent tasks";
  const kept = new KeptTasks((error) => report(error, name));
  let from = 0;
  return {
    name,
    async run() {
      if (!isActive()) return pause.standby;
      const { next } = await drains.forget(queueName, keep, from, atOnce, kept.add);
      kept.tell();
      if (next === undefined) return Math.max(pause.shortest, Math.min(pause.longest, keep / 2));
      from = next;
      return pause.part;
    },
  };
}

/** With `results`: fails the tasks whose results did not come in time. */
export function failsOverdue(
  drains: Pick<DrainStore, "expire">,
  { queueName, results, resultsWithin }: Pick<ReadDrainOptions, "queueName" | "results" | "resultsWithin">,
  isActive: () => boolean,
  onEnded: () => void,
): Job | undefined {
  if (!results) return undefined;
  return {
    name: "failing sent tasks without a result",
    async run() {
      if (!isActive()) return pause.standby;
      const failed = await drains.expire(queueName, resultsWithin, atOnce);
      if (failed > 0) onEnded();
      if (failed === atOnce) return pause.part;
      return Math.max(pause.shortest, Math.min(pause.longest, resultsWithin / 4));
    },
  };
}
