/** The operations of maintenance (rescue, promote, prune), and a worker's start and stop. */
import { Worker } from "../../../src/index.ts";
import { type Context, chore } from "../../fixtures/tasks.ts";
import { logOutcomes } from "./heal.ts";
import { storeOf } from "./manual-worker.ts";
import { type Operation, onQueue } from "./operation.ts";

export const upkeeping: readonly Operation[] = [
  onQueue("register", 1, async (queue, actor) => {
    actor.arm();
    await actor.worker(queue);
  }),

  onQueue("unregister", 1, async (queue, actor) => {
    const worker = await actor.worker(queue);
    await worker.hold(3);
    actor.arm();
    await worker.store.unregister(worker.id);
  }),

  onQueue("rescue", 1, async (queue, actor) => {
    const store = storeOf(queue);
    const dead = (await store.workers()).find(({ id }) => id.endsWith(":dead"));
    actor.arm();
    await store.rescue(dead?.id ?? "nobody", dead?.beat ?? -1);
  }),

  onQueue("rescue orphans", 1, async (queue, actor) => {
    actor.arm();
    await storeOf(queue).rescueOrphans(60_000);
  }),

  onQueue("promote", 1, async (queue, actor) => {
    actor.arm();
    await storeOf(queue).promote(500);
  }),

  onQueue("prune", 1, async (queue, actor) => {
    actor.arm();
    await storeOf(queue).prune({ completed: 0, cancelled: 0, failed: 0 }, 500);
  }),

  {
    name: "a worker's life",
    // Its timers and notifications decide what one cycle does.
    commits: undefined,
    async act(actor) {
      const queue = await actor.open();
      const left = await queue.listTasks({ status: ["pending", "scheduled", "running"] });
      actor.arm();
      const context: Context = { eventLog: actor.eventLog, queue };
      const worker = new Worker(queue, { context, tasks: [chore], concurrency: 16 });
      logOutcomes(worker, actor.eventLog);
      await worker.start();
      await Promise.all(left.map(({ id }) => queue.awaitTaskCompletion(id, { timeout: "1m" })));
      await worker.stop();
      await queue.close();
    },
  },
];
