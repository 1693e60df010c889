/** dbq: `enqueueTask`, and `enqueueTasks` for many. */
import { join } from "node:path";
import { openQueue, type Queue, task } from "dbq-ts";
import type { Payload } from "../payloads.ts";
import type { Timed } from "../warm-up.ts";
import {
  checkEnqueued,
  type EnqueueRun,
  type Enqueuer,
  type EnqueueVariant,
  enqueueAll,
} from "./variants.ts";

const work = task("work", async (n: number, payload: Payload) => ({ n, ok: payload !== undefined }));

function enqueuerOf({ enqueueTask, enqueueTasks }: Queue): Enqueuer {
  return {
    one: ({ n, payload }) => enqueueTask(work, n, payload),
    tick: (batch) => Promise.all(batch.map(({ n, payload }) => enqueueTask(work, n, payload))),
    many: (batch) => enqueueTasks(batch.map(({ n, payload }) => [work, n, payload] as const)),
  };
}

export async function enqueueIn(queue: Queue, run: EnqueueRun): Promise<number> {
  const milliseconds = await enqueueAll(run, enqueuerOf(queue));
  checkEnqueued((await queue.countTasks()).pending, run.tasks);
  return milliseconds;
}

export function enqueueDbq(): Timed<EnqueueVariant> {
  return async (run) => {
    await using queue = await openQueue(join(run.directory, "dbq.db"), { synchronous: run.synchronous });
    return await enqueueIn(queue, run);
  };
}
