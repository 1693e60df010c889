/** The operations that open an existing queue, and close one. */
import { openQueue } from "../../../src/index.ts";
import { chore } from "../../fixtures/tasks.ts";
import { backendOf } from "../backends/backend.ts";
import { type Actor, type Operation, onQueue } from "./operation.ts";

export async function opens(actor: Actor): Promise<void> {
  actor.arm();
  await actor.open();
}

export const reopening: readonly Operation[] = [
  { name: "open a queue's database", commits: 0, act: opens },

  {
    name: "open beside an app's connection",
    commits: 0,
    async act(actor) {
      const app = await backendOf(actor.database).app(actor.database);
      actor.arm();
      await openQueue(app);
    },
  },

  onQueue("close", 0, async (queue, actor) => {
    actor.acknowledged(await queue.enqueueTask(chore, 0, "return"));
    actor.arm();
    await queue.close();
  }),

  onQueue("close with an enqueue under way", 1, async (queue, actor) => {
    actor.arm();
    const enqueued = queue.enqueueTask(chore, 0, "return");
    const closed = queue.close();
    actor.acknowledged(await enqueued);
    await closed;
  }),
];
