/** Schedules: what a queue needs for `queue.schedule`, and its workers for firing. */
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import { setSchedules } from "../../queue/schedules.ts";
import { addJob } from "../../worker/periodic-job.ts";
import { Actions } from "./actions.ts";
import { loadCroner } from "./croner.ts";
import { Firing } from "./fire.ts";

export function openSchedules(queue: Queue): void {
  const { store } = internalsOf(queue);
  setSchedules(queue, {
    load: loadCroner,
    over: (writes, options) => new Actions(writes, options),
  });
  addJob(queue, (host) => new Firing(store.schedules, host));
}
