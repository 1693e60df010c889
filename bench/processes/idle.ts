/** The cost of an idle worker. */
import { type Benchmark, type Figures, programBeside, type Settings } from "../benchmark.ts";
import { withChildren } from "./children.ts";
import { sleep } from "./clock.ts";
import { contenderOf } from "./location.ts";
import type { QueueLocation } from "./peer.ts";
import type { Usage, WorkerCommands, WorkerConfig } from "./worker-process.ts";

/** Milliseconds after the start that do not count. */
const settling = 2_000;

/** Milliseconds until V8 has collected the garbage of the start, once, after about 8 s. */
const collected = 12_000;

function measureIdle(target: QueueLocation, { quick }: Settings): Promise<Figures> {
  return withChildren(async (start) => {
    const config: WorkerConfig = { target, tasks: 0 };
    const worker = await start<WorkerCommands>(programBeside(import.meta.url, "worker-process"), config);
    const usageAfter = async (milliseconds: number) => {
      await sleep(milliseconds);
      return await worker.ask("usage");
    };
    const begin = await usageAfter(settling);
    if (quick) return costs("", begin, await usageAfter(5_000));
    const later = await usageAfter(collected - settling);
    const end = await usageAfter(settling + 30_000 - collected);
    return { ...costs("", begin, end), ...costs(" from 12 s on", later, end) };
  });
}

function costs(when: string, from: Usage, to: Usage): Figures {
  const elapsed = to.at - from.at;
  return {
    [`cpu${when}`]: (100 * (to.cpu - from.cpu)) / elapsed,
    [`wake-ups${when}`]: (1_000 * (to.sleeps - from.sleeps)) / elapsed,
  };
}

export const idle: Benchmark = {
  name: "idle",
  title: "An idle worker",
  about:
    "A worker process with the peer's own defaults (dbq: concurrency 10, one queue) and no task, for 30 s from 2 s after its start. " +
    "CPU of all its threads, and how often one of them was woken. About 8 s after the start, V8 collects the garbage of the start once, " +
    "on all threads: the figures from 12 s on do not include that. The work of BullMQ's Redis is not counted.",
  once: true,
  figures: [
    { name: "cpu", unit: "% of a core", better: "lower", goals: [{ must: 0.5, aim: 0.05 }] },
    { name: "cpu from 12 s on", unit: "% of a core", better: "lower" },
    { name: "wake-ups", unit: "/s", better: "lower" },
    { name: "wake-ups from 12 s on", unit: "/s", better: "lower" },
  ],
  contenders: (["dbq", "floor", "plainjob", "bullmq"] as const).map((peer) => contenderOf(peer, measureIdle)),
};
