/** Eight workers and two enqueuers on one file: how the tasks are shared, and which event loops are blocked. */
import type { Benchmark, Contender, Figures, Settings, Variant } from "../benchmark.ts";
import { type Load, type LoadReports, runLoad } from "./load.ts";
import type { LoadReport } from "./load-process.ts";
import { withQueueLocation } from "./location.ts";
import type { QueueLocation } from "./peer.ts";
import { percentile } from "./percentile.ts";
import { prefill, ranOut } from "./prefill.ts";

interface FairVariant extends Variant {
  /** Milliseconds that a handler waits; 0: none. */
  wait: number;
}

/** Tasks at the beginning, for each second of one worker or of eight: more than they can run. */
const backlog: Partial<Record<QueueLocation["peer"], number>> = { dbq: 130_000, plainjob: 20_000 };

async function measureFair(peer: QueueLocation["peer"], settings: Settings<FairVariant>): Promise<Figures> {
  const { quick } = settings;
  const settling = quick ? 1_000 : 2_000;
  const one = await underLoad(peer, settings, { workers: 1, settling, duration: quick ? 2_000 : 8_000 });
  const eight = await underLoad(peer, settings, { workers: 8, settling, duration: quick ? 4_000 : 20_000 });
  return { ...workOf(eight), "vs one process": eight.perSecond / one.perSecond, ...blocksOfAll(eight) };
}

/** The effect of the machine's scheduler on as many processes that burn CPU. Without tasks, it has no other figures. */
async function measureSpin(settings: Settings<FairVariant>): Promise<Figures> {
  const [settling, duration] = settings.quick ? [1_000, 4_000] : [2_000, 20_000];
  return blocksOfAll(await underLoad("spin", settings, { workers: 8, settling, duration }));
}

async function underLoad(
  peer: QueueLocation["peer"],
  settings: Settings<FairVariant>,
  how: Pick<Load, "workers" | "settling" | "duration">,
): Promise<LoadReports> {
  return await withQueueLocation(peer, settings, `${how.workers}.db`, async (target) => {
    const seconds = Math.ceil((how.settling + how.duration) / 1_000);
    prefill(target, settings.tasks ?? (backlog[peer] ?? 0) * seconds);
    const reports = await runLoad({ target, enqueuers: 2, wait: settings.variant.wait, ...how });
    if (ranOut(target)) throw new Error("the workers ran out of tasks: ask for more with --tasks");
    return reports;
  });
}

function workOf({ workers, enqueuers, perSecond }: LoadReports): Figures {
  const shares = workers.map(({ done }) => done);
  const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length;
  const errors = [...workers, ...enqueuers].flatMap((report) => report.errors);
  for (const error of new Set(errors)) process.stderr.write(`fair: a process reported: ${error}\n`);
  const enqueues = enqueuers.flatMap((report) => [...report.enqueues]);
  return {
    "tasks/s": perSecond,
    "smallest share": Math.min(...shares) / mean,
    errors: errors.length,
    "enqueue p50": percentile(enqueues, 0.5),
    "enqueue p99": percentile(enqueues, 0.99),
  };
}

function blocksOfAll({ workers, enqueuers, bystander }: LoadReports): Figures {
  return {
    ...blocksOf("block", [...workers, ...enqueuers]),
    ...blocksOf("bystander's block", [bystander]),
  };
}

/** The figures of the worst process. */
function blocksOf(name: string, reports: readonly LoadReport[]): Figures {
  return {
    [`${name} p99.9`]: Math.max(...reports.map(({ blocks }) => blocks.p999)),
    [`${name} max`]: Math.max(...reports.map(({ blocks }) => blocks.max)),
  };
}

const contender = (peer: QueueLocation["peer"]): Contender<FairVariant> => ({
  name: peer,
  measure: (settings) => measureFair(peer, settings),
});

export const fair: Benchmark<FairVariant> = {
  name: "fair",
  title: "Eight workers and two enqueuers on one file",
  about:
    "Eight worker processes drain a backlog for 20 s, while two more processes enqueue a task every 5 ms and one only watches its event loop. " +
    "The smallest worker's share of the tasks is compared with the mean. A block is the time between two turns of a timer of 1 ms in the worst process, with nothing subtracted; " +
    "the bystander is a process without work, and `spin` is as many processes that burn CPU without a queue: " +
    "both measure the machine's scheduler. Errors are those that a worker reported or an enqueue rejected with. " +
    "`vs one process` compares with one worker and the same two enqueuers.",
  variants: [
    { name: "no-op", wait: 0 },
    { name: "1 ms of waiting", wait: 1 },
  ],
  figures: [
    { name: "tasks/s", unit: "/s", better: "higher" },
    { name: "vs one process", unit: "", better: "higher", goals: [{ must: 0.5, aim: 0.8 }] },
    { name: "smallest share", unit: "of the mean", better: "higher", goals: [{ must: 0.5, aim: 0.7 }] },
    { name: "errors", unit: "", better: "lower", goals: [{ must: 0, aim: 0 }] },
    { name: "block p99.9", unit: "ms", better: "lower", goals: [{ must: 50, aim: 20 }] },
    { name: "block max", unit: "ms", better: "lower", goals: [{ must: 150, aim: 50 }] },
    { name: "bystander's block p99.9", unit: "ms", better: "lower" },
    { name: "bystander's block max", unit: "ms", better: "lower" },
    { name: "enqueue p50", unit: "ms", better: "lower" },
    { name: "enqueue p99", unit: "ms", better: "lower" },
  ],
  contenders: [contender("dbq"), contender("plainjob"), { name: "spin", measure: measureSpin }],
};
