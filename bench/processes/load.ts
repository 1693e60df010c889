/** Several workers and enqueuers on one queue for a while, and what each of them measured. */
import { programBeside } from "../benchmark.ts";
import { type Child, type Start, withChildren } from "./children.ts";
import { sharedNow } from "./clock.ts";
import type { LoadCommands, LoadConfig, LoadReport } from "./load-process.ts";
import type { QueueLocation } from "./peer.ts";

export interface Load {
  target: QueueLocation;
  workers: number;
  enqueuers: number;
  /** Milliseconds that a handler waits; 0: none. */
  wait: number;
  /** Milliseconds that do not count, and those that do. */
  settling: number;
  duration: number;
}

export interface LoadReports {
  workers: LoadReport[];
  enqueuers: LoadReport[];
  /** A process without work at the same time: it measures the scheduler. */
  bystander: LoadReport;
  /** Tasks per second of all workers together. */
  perSecond: number;
}

export function runLoad(load: Load): Promise<LoadReports> {
  return withChildren(async (start) => {
    const workers = await startAll(start, load.workers, { ...load, role: "worker" });
    const enqueuers = await startAll(start, load.enqueuers, { ...load, role: "enqueuer" });
    const bystanders = await startAll(start, 1, { wait: 0, role: "bystander" });
    const from = sharedNow() + load.settling;
    const window = { from, until: from + load.duration };
    const join = (children: Child<LoadCommands>[]) =>
      Promise.all(children.map((child) => child.ask("join", window)));
    const reports = await Promise.all([join(workers), join(enqueuers), join(bystanders)]);
    const [ofWorkers, ofEnqueuers, [bystander]] = reports;
    const done = ofWorkers.reduce((sum, report) => sum + report.done, 0);
    return {
      workers: ofWorkers,
      enqueuers: ofEnqueuers,
      bystander: bystander as LoadReport,
      perSecond: (1_000 * done) / load.duration,
    };
  });
}

function startAll(
  start: Start,
  count: number,
  { target, role, wait }: LoadConfig,
): Promise<Child<LoadCommands>[]> {
  const config: LoadConfig = { role, wait, ...(target && { target }) };
  const program = programBeside(import.meta.url, "load-process");
  return Promise.all(Array.from({ length: count }, () => start<LoadCommands>(program, config)));
}
