/** A worker in a process of its own, that notes when each task starts, and what it costs. */
import { sharedNow } from "./clock.ts";
import { openPeer, type Place } from "./peer.ts";
import { configOf, serve } from "./served.ts";

export interface WorkerConfig {
  place: Place;
  /** Tasks carry numbers below this. */
  tasks: number;
}

/** What the process has used since its start, all threads together. */
export interface Usage {
  /** On the clock of all processes, in milliseconds. */
  at: number;
  /** Milliseconds of CPU. */
  cpu: number;
  /** How often a thread went to sleep, and so was woken. */
  sleeps: number;
}

const { place, tasks } = configOf<WorkerConfig>();
const starts = new Float64Array(tasks);

const commands = {
  /** By the tasks' numbers, on the clock of all processes; 0: not started. */
  starts: () => starts,
  usage: (): Usage => {
    const { userCPUTime, systemCPUTime, voluntaryContextSwitches } = process.resourceUsage();
    return { at: sharedNow(), cpu: (userCPUTime + systemCPUTime) / 1_000, sleeps: voluntaryContextSwitches };
  },
};

export type WorkerCommands = typeof commands;

const peer = await openPeer(place);
await peer.work(
  (n) => {
    starts[n] = sharedNow();
  },
  (error) => {
    throw error;
  },
);
serve(commands);
