/** A worker in a separate process, which drains the urgent tasks of a table and reports how long that took. */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { openQueue, task, Worker } from "dbq-ts";
import type { Synchronous } from "../benchmark.ts";
import { configOf, serve } from "./served.ts";
import type { TurnTimes } from "./turn-clock.ts";

export interface BacklogConfig {
  /** A file, or the URL of a database on Postgres. */
  location: string;
  /** For a file. */
  synchronous?: Synchronous;
  /** The number of urgent tasks. */
  urgent: number;
  /** The names of functions with a lower priority. */
  later: readonly string[];
  /** Milliseconds that each task takes. @default none */
  takes?: number;
  /** Whether the calls of settleAndClaim are timed, which itself takes time. */
  clocked: boolean;
}

export interface Drained {
  /** Milliseconds from the start of the first urgent task to the start of the last. */
  took: number;
  times: TurnTimes;
  /** The process's peak resident memory, in MiB. */
  memory: number;
}

const { location, synchronous, urgent, takes, later, clocked } = configOf<BacklogConfig>();
const times = clocked ? await clock() : { turns: [], claims: [] };
const queue = await openQueue(location, synchronous ? { synchronous } : {});
let started = 0;
let first = 0;
let onLast: (took: number) => void = () => undefined;

task("urgent", (n: number) => {
  started += 1;
  if (started === 1) first = performance.now();
  if (started === urgent) onLast(performance.now() - first);
  return takes === undefined ? n : sleep(takes, n);
});
for (const name of later) task(name, (n: number) => n);

const commands = {
  async drain(): Promise<Drained> {
    const worker = new Worker(queue);
    const last = new Promise<number>((resolve) => {
      onLast = resolve;
    });
    await worker.start();
    const took = await last;
    const clockedUntilNow = { turns: [...times.turns], claims: [...times.claims] };
    await worker.stop();
    await queue.close();
    return { took, times: clockedUntilNow, memory: peakMemory() };
  },
};

export type BacklogCommands = typeof commands;

async function clock(): Promise<TurnTimes> {
  const { clockTurns } = await (location.startsWith("postgres:")
    ? import("../server/turn-clock.ts")
    : import("./turn-clock.ts"));
  return clockTurns();
}

function peakMemory(): number {
  if (process.platform !== "linux") return process.resourceUsage().maxRSS / 1_024;
  // maxRSS is no use: on Linux it begins with the parent's memory at the fork.
  const peak = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
  return Number(peak) / 1_024;
}

serve(commands);
