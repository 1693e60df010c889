/** The operations on schedules: write, fire, trigger, backfill, remove. */
import { deepStrictEqual } from "node:assert/strict";
import { Firing } from "../../../src/features/schedules/fire.ts";
import type { Queue } from "../../../src/index.ts";
import { openQueue } from "../../../src/index.ts";
import { chore } from "../../fixtures/tasks.ts";
import { slotsOf, tasksOf } from "../slots.ts";
import { storeOf } from "./manual-worker.ts";
import { type Files, type Operation, onQueue } from "./operation.ts";

const hour = 3_600_000;

/** Slots of the past, which are the same in each run. */
const first = Date.UTC(2026, 0, 1);
const slots = [0, 1, 2].map((n) => first + n * hour);
const timing = {
  every: hour,
  startAt: new Date(first),
  endAt: new Date(first + 2 * hour),
  missed: { all: 10 },
  overlap: "allow",
} as const;

const names = ["one", "two"] as const;

/** Writes schedules whose slots are over. */
async function write(queue: Queue): Promise<void> {
  for (const name of names) await queue.schedule(name, timing, chore, 0, "return");
}

/** Makes their slots due. */
async function makeDue(queue: Queue): Promise<void> {
  const { schedules } = storeOf(queue);
  for (const name of names)
    await schedules.change(name, (row) => (row ? { row: { ...row, nextAt: first } } : {}));
}

/** @throws Error when a slot has no task, or two */
async function haveTasks({ database }: Files): Promise<void> {
  await using queue = await openQueue(database, { migrate: false, poolSize: 1 });
  for (const name of names)
    deepStrictEqual(slotsOf(await tasksOf(queue, name)), slots, `the slots of ${name}`);
}

export const scheduling: readonly Operation[] = [
  onQueue("write a schedule", 1, async (queue, actor) => {
    actor.arm();
    await queue.schedule("new", { cron: "@yearly" }, chore, 0, "return");
  }),

  {
    ...onQueue("fire schedules", 1, async (queue, actor) => {
      await write(queue);
      await makeDue(queue);
      actor.arm();
      const firing = new Firing(storeOf(queue).schedules, {
        workerId: "victim",
        onWork: () => undefined,
        report: () => undefined,
      });
      // The first run looks up the missed slots, and the second one fires.
      await firing.run();
      await firing.run();
    }),
    healed: haveTasks,
  },

  onQueue("trigger a schedule", 1, async (queue, actor) => {
    await write(queue);
    actor.arm();
    actor.acknowledged(await queue.triggerSchedule("one"));
  }),

  onQueue("backfill a schedule", 1, async (queue, actor) => {
    await write(queue);
    actor.arm();
    actor.acknowledged(...(await queue.backfillSchedule("one", timing.startAt, timing.endAt)));
  }),

  onQueue("remove a schedule", 1, async (queue, actor) => {
    await write(queue);
    actor.arm();
    await queue.removeSchedule("one");
  }),
];
