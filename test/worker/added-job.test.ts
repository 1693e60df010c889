/** The seam through which a feature adds periodic work to the workers of a queue. */
import { expect, onTestFinished, test } from "vitest";
import { Worker } from "../../src/index.ts";
import { addFeature } from "../../src/worker/feature.ts";
import { temporaryQueue } from "../support/queue.ts";

test("each worker of a queue runs the jobs that were added to the queue, and workers of other queues do not", async () => {
  const [queue, other] = [await temporaryQueue(), await temporaryQueue()];
  const ran: string[] = [];
  let bothRan = () => {};
  const done = new Promise<void>((resolve) => {
    bothRan = resolve;
  });
  const noting = (workerId: string) => ({
    name: "noting the worker",
    run: async () => {
      ran.push(workerId);
      if (new Set(ran).size === 2) bothRan();
      return 1_000;
    },
  });
  addFeature(queue, { jobs: ({ workerId }) => [noting(workerId)] });
  const workers = [new Worker(other), new Worker(queue), new Worker(queue)];
  for (const worker of workers) {
    await worker.start();
    onTestFinished(() => worker.stop({ grace: 0 }));
  }
  await done;
  expect(new Set(ran)).toEqual(new Set([workers[1]?.id, workers[2]?.id]));
});
