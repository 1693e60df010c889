/** Several workers and enqueuers on one queue for a while, and what each of them measured. */
import { programBeside } from "../benchmark.ts";
import { type Child, type Start, withChildren } from "./children.ts";
import { sharedNow } from "./clock.ts";
import type { CrowdCommands, CrowdConfig, CrowdReport } from "./crowd-process.ts";
import type { Place } from "./peer.ts";

export interface Crowd {
  place: Place;
  workers: number;
  enqueuers: number;
  /** Milliseconds that a handler waits; 0: none. */
  wait: number;
  /** Milliseconds that do not count, and those that do. */
  settling: number;
  duration: number;
}

export interface CrowdReports {
  workers: CrowdReport[];
  enqueuers: CrowdReport[];
  /** A process without work at the same time: it measures the scheduler. */
  bystander: CrowdReport;
  /** Tasks per second of all workers together. */
  perSecond: number;
}

export function runCrowd(crowd: Crowd): Promise<CrowdReports> {
  return withChildren(async (start) => {
    const workers = await startAll(start, crowd.workers, { ...crowd, role: "worker" });
    const enqueuers = await startAll(start, crowd.enqueuers, { ...crowd, role: "enqueuer" });
    const bystanders = await startAll(start, 1, { wait: 0, role: "bystander" });
    const from = sharedNow() + crowd.settling;
    const window = { from, until: from + crowd.duration };
    const join = (children: Child<CrowdCommands>[]) =>
      Promise.all(children.map((child) => child.ask("join", window)));
    const reports = await Promise.all([join(workers), join(enqueuers), join(bystanders)]);
    const [ofWorkers, ofEnqueuers, [bystander]] = reports;
    const done = ofWorkers.reduce((sum, report) => sum + report.done, 0);
    return {
      workers: ofWorkers,
      enqueuers: ofEnqueuers,
      bystander: bystander as CrowdReport,
      perSecond: (1_000 * done) / crowd.duration,
    };
  });
}

function startAll(
  start: Start,
  count: number,
  { place, role, wait }: CrowdConfig,
): Promise<Child<CrowdCommands>[]> {
  const config: CrowdConfig = { role, wait, ...(place && { place }) };
  const program = programBeside(import.meta.url, "crowd-process");
  return Promise.all(Array.from({ length: count }, () => start<CrowdCommands>(program, config)));
}
