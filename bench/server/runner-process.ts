/** Agents, or a worker, in a separate process: what runs the tasks. */
import { openQueue, task, Worker } from "dbq-ts";
import { Agent } from "dbq-ts/agent";
import { sharedNow } from "../processes/clock.ts";
import { configOf, serve } from "../processes/served.ts";
import { usage } from "./usage.ts";

export interface RunnerConfig {
  kind: "agent" | "worker";
  /** Of the Manager, or the database. */
  url: string;
  token: string;
  /** How many agents. */
  count: number;
  /** Of each. */
  slots: number;
}

const { kind, url, token, count, slots } = configOf<RunnerConfig>();

let starts: [n: number, at: number][] = [];
const work = task("work", (n: number) => {
  if (n >= 0) starts.push([n, sharedNow()]);
  return n;
});

const runners =
  kind === "agent"
    ? Array.from(
        { length: count },
        () => new Agent({ managers: url, token, concurrency: slots, tasks: [work] }),
      )
    : [new Worker(await openQueue(url), { concurrency: slots, tasks: [work] })];
for (const runner of runners)
  runner.on("error", (error) => {
    throw error;
  });

const commands = {
  start: async () => void (await Promise.all(runners.map((runner) => runner.start()))),
  stop: async () => void (await Promise.all(runners.map((runner) => runner.stop()))),
  /** When which task started since this was asked last, on the shared clock. */
  starts: () => {
    const known = starts;
    starts = [];
    return known;
  },
  usage,
};

export type RunnerCommands = typeof commands;

serve(commands);
