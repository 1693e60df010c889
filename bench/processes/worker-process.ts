/** A worker in a separate process, which records when each task starts, and what the worker costs. */
import { sharedNow } from "./clock.ts";
import { openPeer, type QueueLocation } from "./peer.ts";
import { configOf, serve } from "./served.ts";

export interface WorkerConfig {
  target: QueueLocation;
  /** All task numbers are below this. */
  tasks: number;
}

/** What the process has used since its start, with all threads. */
export interface Usage {
  /** On the shared clock, in milliseconds. */
  at: number;
  /** Milliseconds of CPU. */
  cpu: number;
  /** How often a thread went to sleep, and so had to be woken. */
  sleeps: number;
}

const { target, tasks } = configOf<WorkerConfig>();
const starts = new Float64Array(tasks);

const commands = {
  /** Indexed by the tasks' numbers, on the shared clock; 0: not started. */
  starts: () => starts,
  usage: (): Usage => {
    const { userCPUTime, systemCPUTime, voluntaryContextSwitches } = process.resourceUsage();
    return { at: sharedNow(), cpu: (userCPUTime + systemCPUTime) / 1_000, sleeps: voluntaryContextSwitches };
  },
};

export type WorkerCommands = typeof commands;

const peer = await openPeer(target);
await peer.work(
  (n) => {
    starts[n] = sharedNow();
  },
  (error) => {
    throw error;
  },
);
serve(commands);
