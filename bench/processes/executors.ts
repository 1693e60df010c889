/** What a call costs in a thread or a process, compared with one in the worker's event loop. */
import { tracingChannel } from "node:diagnostics_channel";
import { join } from "node:path";
import type { Benchmark, Contender, Figures, Settings } from "../benchmark.ts";
import { percentile } from "./percentile.ts";

type Place = "main" | "thread" | "process";

/** Calls before the measured ones: the start of the thread or process, and the compiler. */
const warmUp = 500;

async function measureCalls(
  runIn: Place,
  { directory, synchronous, tasks, quick }: Settings,
): Promise<Figures> {
  const { openQueue, Worker } = await import("dbq-ts");
  const { adds } = await import("./executor-tasks.ts");
  const queue = await openQueue(join(directory, "dbq.db"), { synchronous });
  const worker = new Worker(queue, { concurrency: 1 });
  await worker.start();
  const durations = measureRuns();
  const count = warmUp + (tasks ?? (quick ? 1_000 : 10_000));
  for (let left = count; left > 0; left -= 1_000) {
    const batch = Array.from({ length: Math.min(left, 1_000) }, (_, n) => [adds[runIn], n, 1] as const);
    const ids = await queue.enqueueTasks(batch);
    await Promise.all(ids.map((id) => queue.awaitTaskResult(id, { timeout: "5m" })));
  }
  await worker.stop();
  await queue.close();
  const measured = durations.slice(warmUp);
  return { p50: percentile(measured, 0.5), p99: percentile(measured, 0.99) };
}

/** The milliseconds of each call of a function, from the worker's call to its result. */
function measureRuns(): number[] {
  const durations: number[] = [];
  const starts = new WeakMap<object, number>();
  tracingChannel<object, object>("dbq:run").subscribe({
    start: (message) => void starts.set(message, performance.now()),
    end: () => undefined,
    asyncStart: () => undefined,
    asyncEnd: (message) => void durations.push(performance.now() - (starts.get(message) ?? Number.NaN)),
    error: () => undefined,
  });
  return durations;
}

const contender = (name: string, runIn: Place): Contender => ({
  name,
  measure: (settings) => measureCalls(runIn, settings),
});

const callsIn = (runIn: Place, name: string, title: string, must: number, aim: number): Benchmark => ({
  name,
  title,
  about:
    "One process with one slot runs 10,000 tasks of one addition, after 500 that do not count. " +
    "Milliseconds from the worker's call of the function to its result, by the trace `dbq:run`; beside it the same function in the event loop.",
  once: true,
  figures: [
    { name: "p50", unit: "ms", better: "lower", goals: [{ must, aim }] },
    { name: "p99", unit: "ms", better: "lower" },
  ],
  contenders: [contender("dbq", runIn), contender("event loop", "main")],
});

export const threads = callsIn("thread", "threads", "A call in a thread", 0.5, 0.1);
export const processes = callsIn("process", "processes", "A call in a process", 1, 0.2);
