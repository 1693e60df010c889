/** A producer and a worker of one queue, each in a separate process. */
import { type Figures, programBeside, type Settings } from "../benchmark.ts";
import { type Child, withChildren } from "./children.ts";
import { sleep } from "./clock.ts";
import type { QueueLocation } from "./peer.ts";
import type { ProducerCommands, ProducerConfig } from "./producer-process.ts";
import type { WorkerCommands, WorkerConfig } from "./worker-process.ts";

/** The first tasks run and are not counted. */
export const warmUp = 20;

/** Milliseconds until a started worker is idle. */
const settling = 300;

export interface Pair {
  worker: Child<WorkerCommands>;
  producer: Child<ProducerCommands>;
  /** The number of tasks to produce, with those of the warm-up. */
  tasks: number;
}

export function measureBetween(
  target: QueueLocation,
  settings: Settings,
  measure: (pair: Pair) => Promise<Figures>,
): Promise<Figures> {
  const tasks = warmUp + (settings.tasks ?? (settings.quick ? 50 : 500));
  return withChildren(async (start) => {
    const beside = (name: string) => programBeside(import.meta.url, name);
    const workerConfig: WorkerConfig = { target, tasks };
    const producerConfig: ProducerConfig = { target };
    const worker = await start<WorkerCommands>(beside("worker-process"), workerConfig);
    const producer = await start<ProducerCommands>(beside("producer-process"), producerConfig);
    await sleep(settling);
    return await measure({ worker, producer, tasks });
  });
}
