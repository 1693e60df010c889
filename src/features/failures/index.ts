/** Kinds of failures: each worker counts its failed attempts by kind, and `queue.listFailures()` tells which there are. */
import { systemClock } from "../../base/runtime/clock.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { internalsOf } from "../queue.ts";
import { listFailures } from "./list.ts";
import type { FailureMethods } from "./methods.ts";
import { FailureRecorder } from "./recorder.ts";

/** Milliseconds between two looks whether there is something to fold: hours are. */
const foldEvery = 20 * 60_000;
/** A role that may not change the table keeps its rows: that is reported once in so many milliseconds. */
const afterFailure = 3_600_000;

export function failures(queue: CoreQueue): Feature {
  const { store, options } = internalsOf(queue);
  const now = () => (options.clock ?? systemClock).now();
  const folding = {
    name: "folding counts of failures",
    afterFailure,
    run: async () => ((await store.failures.fold()) ? 0 : foldEvery),
  };
  const methods: FailureMethods = {
    listFailures: (asking) => listFailures(store.requests ?? store, asking, now()),
  };
  return {
    methods,
    jobs: () => [folding],
    meter: (host) => new FailureRecorder(store.failures, host, now),
  };
}
