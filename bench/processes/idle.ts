/** What a worker costs that has nothing to do. */
import { type Benchmark, type Figures, programBeside, type Settings } from "../benchmark.ts";
import { withChildren } from "./children.ts";
import { sleep } from "./clock.ts";
import type { Place } from "./peer.ts";
import { contenderOf } from "./place.ts";
import type { WorkerCommands, WorkerConfig } from "./worker-process.ts";

/** Milliseconds after its start that do not count. */
const settling = 2_000;

function measureIdle(place: Place, { quick }: Settings): Promise<Figures> {
  return withChildren(async (start) => {
    const config: WorkerConfig = { place, tasks: 0 };
    const worker = await start<WorkerCommands>(programBeside(import.meta.url, "worker-process"), config);
    await sleep(settling);
    const before = await worker.ask("usage");
    await sleep(quick ? 5_000 : 30_000);
    const after = await worker.ask("usage");
    const elapsed = after.at - before.at;
    return {
      cpu: (100 * (after.cpu - before.cpu)) / elapsed,
      "wake-ups": (1_000 * (after.sleeps - before.sleeps)) / elapsed,
    };
  });
}

export const idle: Benchmark = {
  name: "idle",
  title: "An idle worker",
  about:
    "A worker process with the peer's own defaults (dbq: concurrency 10, one queue) and no task, from 2 s after its start on, for 30 s. " +
    "CPU of all its threads, and how often one of them was woken. What BullMQ's Redis does meanwhile is not counted.",
  once: true,
  figures: [
    { name: "cpu", unit: "% of a core", better: "lower", goals: [{ must: 0.5, aim: 0.05 }] },
    { name: "wake-ups", unit: "/s", better: "lower" },
  ],
  contenders: (["dbq", "floor", "plainjob", "bullmq"] as const).map((peer) => contenderOf(peer, measureIdle)),
};
