/** Options of the commands that run tasks. */
import { Option } from "commander";
import { duration, whole } from "./parse.ts";

export const graceOption = (): Option =>
  new Option("--grace <duration>", "time for running tasks to finish after a signal")
    .argParser(duration)
    .default(30_000, "30s");

export const maxTasksPerChildOption = (): Option =>
  new Option(
    "--max-tasks-per-child <number>",
    "how many tasks a thread or process for tasks runs before another replaces it (default: 1000)",
  ).argParser(whole(1, 1_000_000_000));
