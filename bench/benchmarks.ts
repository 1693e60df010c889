/** All benchmarks, in the order in which they are run. */
import type { Benchmark } from "./benchmark.ts";
import { dashboardBenchmarks } from "./dashboard/index.ts";
import { drain } from "./drain/index.ts";
import { enqueue } from "./enqueue/index.ts";
import { flowBenchmarks } from "./flow/index.ts";
import { operateBenchmarks } from "./operate/index.ts";
import { processBenchmarks } from "./processes/index.ts";
import { scheduleBenchmarks } from "./schedules/index.ts";
import { serverBenchmarks } from "./server/index.ts";
import { stagedBenchmarks } from "./staged/index.ts";
import { workflowBenchmarks } from "./workflows/index.ts";

export const benchmarks: readonly Benchmark[] = [
  drain,
  ...enqueue,
  ...processBenchmarks,
  ...serverBenchmarks,
  ...stagedBenchmarks,
  ...dashboardBenchmarks,
  ...operateBenchmarks,
  ...flowBenchmarks,
  ...scheduleBenchmarks,
  ...workflowBenchmarks,
];
