/**
 * Invariant: whichever worker is killed at whichever moment, and wherever the clocks of the workers are set, each slot of each
 * schedule makes exactly one task.
 */
import { deepStrictEqual, equal } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { type Queue, remoteTask } from "../../../src/index.ts";
import type { Look, Seen } from "../../fixtures/observer.ts";
import { ClockedCrew } from "../clocked-crew.ts";
import { stopAll } from "../drain.ts";
import { seenBy } from "../observed.ts";
import { type Figure, type Scenario, spread } from "../scenario.ts";
import { slotsOf, tasksOf, untilFired } from "../slots.ts";

const schedules = 20;
const workers = 4;
/** Milliseconds between two kills, on average. */
const pause = 300;
/** Milliseconds between the clocks of the workers that are furthest apart. */
const apart = 5 * 60_000;
const hour = 3_600_000;

/** All clocks are set to these offsets, one after the other: an hour ahead, right again, and an hour behind. */
const steps = [0, hour, 0, hour, -hour, hour] as const;
/** Kills between two steps. */
const between = { least: 2, most: 15 };

/**
 * Milliseconds between two slots of a schedule. Where the clocks of the workers decide, an hour of slots is made at once, and
 * they must not be more than a schedule makes up for.
 */
const intervals = { server: 1_000, workers: 5_000 };

/** No worker of this scenario knows it: who fires need not. */
const nobodys = remoteTask("nobodys", { queueName: "nobodys" });

const nameOf = (n: number) => `s${n}`;

/** More than one task of a slot. */
const looks: readonly Look[] = [
  {
    query:
      "select schedule_name as place, count(*) as tasks from dbq_tasks group by schedule_name, slot having count(*) > 1",
    pause: 200,
    most: 1,
  },
];

export const scheduleKills: Scenario = {
  name: "schedules",
  about:
    "Workers whose clocks are five minutes apart and are stepped by an hour are killed at random moments: each slot makes one task.",
  unit: "kills",
  amounts: { test: 8, sample: 24, chaos: 300 },
  async run({ harness, kind, random, amount, progress }) {
    const { queue } = harness;
    const byWorkers = kind === "sqlite";
    const every = byWorkers ? intervals.workers : intervals.server;
    // After all of them are written.
    const startAt = new Date(Date.now() + 5_000);
    for (let n = 0; n < schedules; n += 1) {
      const jitter = n % 2 === 0 ? {} : { jitter: every / 2 };
      const timing = { every, startAt, overlap: "allow", missed: { all: 1_000 }, ...jitter } as const;
      await queue.schedule(nameOf(n), timing, nobodys, n);
    }
    const crew = await ClockedCrew.start(harness, workers, apart);
    const observer = harness.start("observer.ts", [looks]);
    const segment = Math.max(between.least, Math.min(between.most, Math.ceil(amount / steps.length)));
    let stepped = 0;
    for (let done = 1; done <= amount; done += 1) {
      await sleep(2 * pause * random());
      if (done % segment === 0 && crew.hasClocks) {
        stepped += 1;
        crew.step(steps[stepped % steps.length] as number);
      }
      await crew.replaceOne(random);
      progress(done);
    }
    crew.step(hour);
    // A sleeping worker learns of a step only after a minute, a new one at once.
    await crew.replaceOne(random);
    // On a fast machine the kills are over before the first slot.
    await untilFired(queue, Math.max(Number(startAt) + every, byWorkers ? crew.now : Date.now()));
    await stopAll([observer]);
    await crew.end();
    const [seen] = seenBy(looks, harness.eventLog) as [Seen];
    equal(seen.most <= 1, true, "the observer sees no slot with two tasks");
    return [
      { name: "kills", value: amount },
      { name: "steps of the clocks", value: crew.hasClocks ? stepped + 1 : 0 },
      { name: "looks of the observer", value: seen.looks },
      ...(await judge(queue, Number(startAt), every, byWorkers && crew.hasClocks)),
    ];
  },
};

/** @param hostClocks whether the clocks of the workers decide, so that slots are early and late by these */
async function judge(queue: Queue, startAt: number, every: number, hostClocks: boolean): Promise<Figure[]> {
  const late: number[] = [];
  let slots = 0;
  for (const { name, skipped, nextAt, jitter, lastSlot } of await queue.listSchedules()) {
    const tasks = await tasksOf(queue, name);
    const expected = Array.from(
      { length: (Number(lastSlot) - startAt) / every + 1 },
      (_, n) => startAt + n * every,
    );
    deepStrictEqual(slotsOf(tasks), expected, `${name}: each slot makes one task`);
    equal(skipped, 0, `${name}: no slot is skipped`);
    // The next slot is the one after the last.
    const next = Number(nextAt) - Number(lastSlot);
    equal(next >= every && next <= every + (jitter ?? 0), true, `${name}: the next slot follows the last`);
    slots += expected.length;
    if (jitter === null) for (const { slot, createdAt } of tasks) late.push(Number(createdAt) - Number(slot));
  }
  equal(slots > schedules, true, "slots were fired");
  return [
    { name: "slots", value: slots },
    ...(hostClocks ? [] : spread("from slot to task", late, { max: 60_000 })),
  ];
}
