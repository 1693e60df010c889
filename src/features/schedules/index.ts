/** Schedules: what a queue needs for `queue.schedule`, and its workers for firing. */
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { Actions } from "./actions.ts";
import { loadCroner } from "./croner.ts";
import { Firing } from "./fire.ts";

export function schedules(queue: Queue): Feature {
  const { store } = internalsOf(queue);
  return {
    methods: { schedules: { load: loadCroner, over: (writes, options) => new Actions(writes, options) } },
    jobs: (host) => [new Firing(store.schedules, host)],
  };
}
