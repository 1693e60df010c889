/** How long from an enqueue to its result, where another process does the work. */
import type { Benchmark, Figures } from "../benchmark.ts";
import { contenderOf } from "./location.ts";
import { measureBetween, type Pair, warmUp } from "./pair.ts";
import { percentile } from "./percentile.ts";

async function measureCompletion({ producer, tasks }: Pair): Promise<Figures> {
  const { called, completed } = await producer.ask("produce", tasks, true);
  const took = completed.map((at, n) => at - (called[n] ?? 0)).subarray(warmUp);
  return { p50: percentile(took, 0.5), p99: percentile(took, 0.99) };
}

export const completion: Benchmark = {
  name: "await",
  title: "Enqueue and await the result from another process",
  about:
    "One process enqueues a task every 5 to 30 ms (at random) and awaits its result; an idle worker in another process runs it. " +
    "Milliseconds from the call of the enqueue to the result: three commits, of the enqueue, the claim and the result.",
  figures: [
    { name: "p50", unit: "ms", better: "lower", goals: [{ must: 1, aim: 0.3 }] },
    { name: "p99", unit: "ms", better: "lower" },
  ],
  contenders: (["dbq", "floor", "bullmq"] as const).map((peer) =>
    contenderOf(peer, (target, settings) => measureBetween(target, settings, measureCompletion)),
  ),
};
