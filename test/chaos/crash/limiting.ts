/** The operations on limits and pauses, and claims under a limit or a rate. */
import { deepStrictEqual } from "node:assert/strict";
import { openQueue } from "../../../src/index.ts";
import { EventLog } from "../../fixtures/event-log.ts";
import { historyOf } from "../history.ts";
import { mostRows } from "../places.ts";
import { outcome } from "./manual-worker.ts";
import { type Files, type Operation, onQueue } from "./operation.ts";

const target = { func: "chore" };

/** Two more than the tasks that dead workers hold. */
const most = 6;

/** @throws Error when more tasks ran than the limit allows, or a place is in use although nothing runs */
async function keptLimit(files: Files): Promise<void> {
  const history = await historyOf({ ...files, eventLog: new EventLog(files.eventLog) });
  if (mostRows(history) > most) throw new Error(`${mostRows(history)} tasks ran under a limit of ${most}`);
  await using queue = await openQueue(files.database, { migrate: false, poolSize: 1 });
  const inUse = (await queue.listLimits()).map(({ running }) => running);
  deepStrictEqual(inUse, [0], "no place of the limit is in use");
}

export const limiting: readonly Operation[] = [
  onQueue("set a limit", 1, async (queue, actor) => {
    actor.arm();
    await queue.setLimit(target, { concurrency: most });
  }),

  onQueue("remove a rate that has put tasks off", 1, async (queue, actor) => {
    await queue.setLimit(target, { rate: { limit: 100, per: "1s" } });
    const worker = await actor.worker(queue);
    await worker.claim(5);
    actor.arm();
    await queue.setLimit(target, null);
  }),

  onQueue("pause a queue", 1, async (queue, actor) => {
    actor.arm();
    await queue.pause({ queueName: "other" });
  }),

  onQueue("resume a queue", 1, async (queue, actor) => {
    await queue.pause({ queueName: "other" });
    actor.arm();
    await queue.resume({ queueName: "other" });
  }),

  {
    ...onQueue("claim under a limit", 1, async (queue, actor) => {
      await queue.setLimit(target, { concurrency: most });
      const worker = await actor.worker(queue);
      actor.arm();
      await worker.claim(5);
    }),
    healed: keptLimit,
  },

  {
    ...onQueue("settle and claim under a limit", 1, async (queue, actor) => {
      await queue.setLimit(target, { concurrency: most });
      const worker = await actor.worker(queue);
      const held = await worker.hold(2);
      actor.arm();
      await worker.turn(
        held.map((record) => outcome(record, "completed")),
        5,
      );
    }),
    healed: keptLimit,
  },

  onQueue("claim under a rate", 1, async (queue, actor) => {
    await queue.setLimit(target, { rate: { limit: 100, per: "1s" } });
    const worker = await actor.worker(queue);
    actor.arm();
    await worker.claim(5);
  }),
];
