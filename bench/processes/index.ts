/** The benchmarks of several processes. */
import type { Benchmark } from "../benchmark.ts";
import { backlog } from "./backlog.ts";
import { completion } from "./completion.ts";
import { processes, threads } from "./executors.ts";
import { fair } from "./fair.ts";
import { idle } from "./idle.ts";
import { start } from "./start.ts";
import { wake } from "./wake.ts";

export const processBenchmarks: readonly Benchmark[] = [
  wake,
  completion,
  idle,
  fair,
  backlog,
  start,
  threads,
  processes,
];
