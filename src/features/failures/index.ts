/** Kinds of failures: each worker counts its failed attempts by kind, and `queue.listFailures()` tells which there are. */
import { systemClock } from "../../base/runtime/clock.ts";
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { listFailures } from "./list.ts";
import { FailureRecorder } from "./recorder.ts";

/** Milliseconds between two looks whether there is something to fold: hours are. */
const foldEvery = 20 * 60_000;
/** A role that may not change the table keeps its rows: that is reported once in so many milliseconds. */
const afterFailure = 3_600_000;

export function failures(queue: Queue): Feature {
  const { store, options } = internalsOf(queue);
  const now = () => (options.clock ?? systemClock).now();
  const folding = {
    name: "folding counts of failures",
    afterFailure,
    run: async () => ((await store.failures.fold()) ? 0 : foldEvery),
  };
  return {
    methods: { listFailures: (asking) => listFailures(store.requests ?? store, asking, now()) },
    jobs: () => [folding],
    meter: (host) => new FailureRecorder(store.failures, host, now),
  };
}
