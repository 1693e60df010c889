/** A worker's operations on its tasks: claim, heartbeat, progress, settle. */
import { sql } from "drizzle-orm";
import type { OutcomeKind } from "../../../src/store.ts";
import { type AppTransaction, after, runIn } from "../../fixtures/app-rows.ts";
import { outcome } from "./manual-worker.ts";
import { type Operation, onQueue } from "./operation.ts";

const kinds = ["completed", "failed", "retry", "snoozed", "cancelled", "interrupted"] as const;

function settle(kind: OutcomeKind): Operation {
  return onQueue(`settle: ${kind}`, 1, async (queue, actor) => {
    const worker = await actor.worker(queue);
    const held = await worker.hold(1);
    actor.arm();
    await worker.turn(
      held.map((record) => outcome(record, kind)),
      0,
    );
  });
}

export const running: readonly Operation[] = [
  onQueue("claim", 1, async (queue, actor) => {
    const worker = await actor.worker(queue);
    actor.arm();
    await worker.claim(3);
  }),

  onQueue("heartbeat", 1, async (queue, actor) => {
    const worker = await actor.worker(queue);
    await worker.hold(1);
    actor.arm();
    await worker.store.heartbeat(worker.id);
  }),

  onQueue("progress", 1, async (queue, actor) => {
    const worker = await actor.worker(queue);
    const held = await worker.hold(2);
    actor.arm();
    await worker.store.progress(
      held.map(({ id, generationId }) => ({ id, generationId, progress: 0.5, note: "half" })),
    );
  }),

  ...kinds.map(settle),

  onQueue("settle each way, and claim", 1, async (queue, actor) => {
    const worker = await actor.worker(queue);
    const held = await worker.hold(kinds.length);
    actor.arm();
    const outcomes = held.map((record, i) => outcome(record, kinds[i] ?? "completed"));
    await worker.turn(outcomes, 3);
  }),

  onQueue("settle many, and claim", 1, async (queue, actor) => {
    const worker = await actor.worker(queue);
    const held = await worker.hold(3);
    actor.arm();
    const outcomes = held.map((record) => outcome(record, "completed"));
    await worker.turn(outcomes, 3);
  }),

  onQueue("complete in a transaction of the app's own", 1, async (queue, actor) => {
    const worker = await actor.worker(queue);
    const [held] = await worker.hold(1, "within");
    if (!held) throw new Error("there was nothing to claim");
    const completed = outcome(held, "completed", '"within"');
    actor.arm();
    await queue.transaction((tx: AppTransaction) =>
      after(worker.store.within(tx).settle(completed), () =>
        runIn(tx, sql`insert into effects (task) values (${held.id})`),
      ),
    );
    worker.logOutcome(completed);
  }),
];
