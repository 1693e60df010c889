/** Faults of what is observed: spans, and the context of a trace. */
import type { Mutant } from "./mutant.ts";

const inOtel = (test: string) => ({ file: "test/entries/otel/otel.test.ts", test });

export const observingFaults: readonly Mutant[] = [
  {
    name: "a-retry-goes-on-with-the-trace-of-the-enqueue",
    why: "A retry that runs hours later stretches the trace of a request over those hours.",
    in: "startProcess",
    find: "task.retryCount > 0",
    replace: "task.retryCount > 99",
    caughtBy: inOtel(
      "a retry is a trace of its own with a link to the enqueue, and both attempts say what failed",
    ),
  },
  {
    name: "a-function-runs-outside-of-its-span",
    why: "The spans that a function makes are not found in the trace of its task.",
    in: "activate",
    find: "context.with(active, operation)",
    replace: "operation()",
    caughtBy: inOtel(
      "the first attempt is a child of the enqueue, and the function's own spans are children of its run",
    ),
  },
  {
    name: "an-error-in-a-listener-ends-the-process",
    why: "A broken exporter of spans ends the app's process, since Node throws what a subscriber throws.",
    in: "guarded",
    find: 'diag.error("dbq-ts/otel", error as Error);',
    replace: "throw error;",
    caughtBy: inOtel(
      "an exporter that throws harms neither the enqueue nor the task, and the logger of OpenTelemetry says so",
    ),
  },
];
