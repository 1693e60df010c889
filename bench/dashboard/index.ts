/** The benchmarks of the dashboard. */
import type { Benchmark } from "../benchmark.ts";
import { dashboardBeside } from "./beside.ts";
import { firstLoad } from "./first-load.ts";
import { dashboardPages, mariadbDashboardPages, postgresDashboardPages } from "./pages.ts";

export const dashboardBenchmarks: readonly Benchmark[] = [
  dashboardPages,
  postgresDashboardPages,
  mariadbDashboardPages,
  dashboardBeside,
  firstLoad,
];
