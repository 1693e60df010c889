/** The benchmarks on servers. */
import type { Benchmark } from "../benchmark.ts";
import { managers } from "./agents.ts";
import { postgresBacklog } from "./backlog.ts";
import { mariadbDrain, postgresDrain } from "./drain.ts";
import { serverEnqueue } from "./enqueue.ts";
import { postgresProcesses } from "./processes.ts";
import { postgresPruning } from "./pruning.ts";
import { postgresRetention } from "./retention.ts";
import { postgresSnapshot } from "./snapshot.ts";
import { strategies } from "./strategies.ts";
import { postgresWake } from "./wake.ts";

export const serverBenchmarks: readonly Benchmark[] = [
  postgresDrain,
  ...serverEnqueue,
  postgresWake,
  managers,
  postgresBacklog,
  postgresSnapshot,
  postgresRetention,
  postgresPruning,
  mariadbDrain,
  ...strategies,
  postgresProcesses,
];
