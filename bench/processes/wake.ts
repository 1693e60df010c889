/** The time from an enqueue in one process to the start of the task in another. */
import type { Benchmark, Figures } from "../benchmark.ts";
import { sleep } from "./clock.ts";
import { contenderOf } from "./location.ts";
import { measureBetween, type Pair, warmUp } from "./pair.ts";
import { percentile } from "./percentile.ts";

/** Milliseconds that the last tasks may take to start: plainjob polls once a second. */
const patience = 30_000;

export async function measureWake({ worker, producer, tasks }: Pair): Promise<Figures> {
  const { called, written } = await producer.ask("produce", tasks, false);
  const starts = await allStarts(worker);
  const since = (stamps: Float64Array) => starts.map((start, n) => start - (stamps[n] ?? 0)).subarray(warmUp);
  const fromCommit = since(written);
  const fromCall = since(called);
  return {
    p50: percentile(fromCommit, 0.5),
    p99: percentile(fromCommit, 0.99),
    "p50 from the call": percentile(fromCall, 0.5),
    "p99 from the call": percentile(fromCall, 0.99),
  };
}

async function allStarts(worker: Pair["worker"]): Promise<Float64Array> {
  for (const start = performance.now(); ; ) {
    const starts = await worker.ask("starts");
    if (!starts.includes(0)) return starts;
    if (performance.now() - start > patience) throw new Error("some tasks never started");
    await sleep(100);
  }
}

export const wake: Benchmark = {
  name: "wake",
  title: "Start of a task in another process",
  about:
    "One process enqueues a task every 5 to 30 ms (at random); an idle worker in another process runs it. " +
    "Milliseconds from the moment the enqueue resolved to the first line of the handler, on the clock that both processes share: " +
    "negative when the worker is faster than the enqueuer's own await. And from the call of the enqueue, which includes its commit.",
  figures: [
    { name: "p50", unit: "ms", better: "lower", goals: [{ must: 0.3, aim: 0.1 }] },
    { name: "p99", unit: "ms", better: "lower", goals: [{ must: 3, aim: 1 }] },
    { name: "p50 from the call", unit: "ms", better: "lower" },
    { name: "p99 from the call", unit: "ms", better: "lower" },
  ],
  contenders: (["dbq", "floor", "plainjob", "bullmq"] as const).map((peer) =>
    contenderOf(peer, (target, settings) => measureBetween(target, settings, measureWake)),
  ),
};
