/** The operations of an operator: cancel, retry, purge. */
import type { Queue, TaskStatus } from "../../../src/index.ts";
import { storeOf } from "./manual-worker.ts";
import { type Operation, onQueue } from "./operation.ts";

async function newest(queue: Queue, status: TaskStatus): Promise<number> {
  const [task] = await queue.listTasks({ status, limit: 1 });
  if (!task) throw new Error(`no task is ${status}`);
  return task.id;
}

function cancel(status: TaskStatus): Operation {
  return onQueue(`cancel: ${status}`, 1, async (queue, actor) => {
    const id = await newest(queue, status);
    actor.arm();
    await queue.cancelTask(id);
  });
}

function retry(status: TaskStatus): Operation {
  return onQueue(`retry: ${status}`, 1, async (queue, actor) => {
    const id = await newest(queue, status);
    actor.arm();
    await queue.retryTask(id);
  });
}

export const operating: readonly Operation[] = [
  cancel("pending"),
  cancel("scheduled"),
  cancel("running"),
  retry("failed"),
  retry("completed"),
  retry("cancelled"),

  onQueue("purge", 1, async (queue, actor) => {
    actor.arm();
    await queue.purgeTasks();
  }),

  // Each batch is one transaction, for twelve tasks.
  onQueue("purge in steps", 3, async (queue, actor) => {
    const store = storeOf(queue);
    const filter = { includeRunning: true };
    actor.arm();
    for (let after: number | undefined = 0; after !== undefined; )
      after = (await store.purge(filter, 5, after)).last;
  }),
];
