/**
 * Invariant: while the clocks of a time zone change by an hour, workers are killed, and clocks are set back, each slot of a
 * cron expression makes exactly one task, at the time that the page about schedules says.
 */
import { deepStrictEqual } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { remoteTask } from "../../../src/index.ts";
import { ClockedCrew } from "../clocked-crew.ts";
import type { Scenario, Trial } from "../scenario.ts";
import { slotsOf, tasksOf, untilFired } from "../slots.ts";
import { noClock } from "../stepped-clock.ts";

const workers = 3;
const minute = 60_000;
const timeZone = "Europe/Berlin";

/** Milliseconds between two kills, on average. */
const pause = 300;

/** The clocks go from so many milliseconds before a change to as many after it. */
const span = 180 * minute;
/** The change itself is not stepped over: the clocks run through it. */
const around = 6_000;

/** The slots of an expression, in minutes from the change. */
type Table = Readonly<Record<string, readonly number[]>>;

const each = (minutes: number) =>
  Array.from({ length: (2 * span) / minute / minutes + 1 }, (_, n) => n * minutes - span / minute);

/** From 2:00 to 3:00: so 1:59 is one minute before the change, and 3:00 is the change. */
const forwards: Table = {
  "30 1 * * *": [-30],
  "0 2 * * *": [0],
  "30 2 * * *": [0],
  "0 3 * * *": [0],
  "30 4 * * *": [90],
  "*/15 * * * *": each(15),
  "*/30 2 * * *": [],
};

/** From 3:00 to 2:00: the first 2:00 is an hour before the change, the second 2:00 is the change. */
const backwards: Table = {
  "30 1 * * *": [-90],
  "0 2 * * *": [-60],
  "30 2 * * *": [-30],
  "0 3 * * *": [60],
  "30 4 * * *": [150],
  "*/15 * * * *": each(15),
  "*/30 2 * * *": [-60, -30, 0, 30],
};

/** The last Sunday of a month, at 1:00 UTC: then all zones of the European Union change. */
function changeOf(year: number, month: number): number {
  const last = new Date(Date.UTC(year, month + 1, 0, 1));
  return Number(last) - last.getUTCDay() * 24 * 60 * minute;
}

/** No worker of this scenario knows it: who fires need not. */
const nobodys = remoteTask("nobodys", { queueName: "nobodys" });

export const hours: Scenario = {
  name: "hours",
  about:
    "Workers are killed while a time zone goes forwards and back by an hour, and while clocks are set back: each slot makes one task, at its time.",
  unit: "kills",
  amounts: { test: 8, sample: 16, chaos: 300 },
  only: { kinds: ["sqlite"], why: "a server's own clock decides, which no process can step" },
  unable: noClock,
  async run(trial) {
    const next = new Date().getUTCFullYear() + 1;
    const kills = [Math.ceil(trial.amount / 2), Math.floor(trial.amount / 2)] as const;
    const inSpring = await through(changeOf(next, 2), forwards, kills[0], trial);
    const inAutumn = await through(changeOf(next, 9), backwards, kills[1], trial);
    return [
      { name: "kills", value: trial.amount },
      { name: "changes of the hour", value: 2 },
      { name: "slots", value: inSpring + inAutumn },
    ];
  },
};

/** @returns the number of slots */
async function through(change: number, table: Table, kills: number, trial: Trial): Promise<number> {
  const { queue } = trial.harness;
  const interval = { startAt: new Date(change - span), endAt: new Date(change + span) };
  const expected = new Map(
    Object.entries(table).map(([cron, minutes]) => [cron, minutes.map((n) => change + n * minute)]),
  );
  const options = { timeZone, overlap: "allow", missed: { all: 1_000 } } as const;
  for (const cron of expected.keys())
    await queue.schedule(`${change} ${cron}`, { cron, ...options, ...interval }, nobodys, cron);
  // Each second, before and after the change.
  const seconds = { startAt: new Date(change - minute), endAt: new Date(change + minute) };
  await queue.schedule(`${change} seconds`, { cron: "* * * * * *", ...options, ...seconds }, nobodys, "all");
  expected.set(
    "seconds",
    Array.from({ length: (2 * minute) / 1_000 + 1 }, (_, n) => Number(seconds.startAt) + 1_000 * n),
  );
  await walk(change, kills, trial);
  for (const [name, slots] of expected) {
    const made = slotsOf(await tasksOf(queue, `${change} ${name}`));
    deepStrictEqual(made.map(asText), slots.map(asText), `${name}: each slot makes one task, at its time`);
  }
  return [...expected.values()].reduce((sum, slots) => sum + slots.length, 0);
}

const asText = (time: number) => new Date(time).toISOString();

/** Leads the clocks past the change, and kills workers on the way. */
async function walk(change: number, kills: number, trial: Trial): Promise<void> {
  const { harness, random, progress } = trial;
  const to = (time: number) => time - Date.now();
  const crew = await ClockedCrew.start(harness, workers, 0, to(change - span));
  const third = Math.ceil(kills / 3);
  const kill = async (done: number) => {
    await sleep(2 * pause * random());
    await crew.replaceOne(random);
    progress(done);
  };
  for (let done = 1; done <= third; done += 1) {
    crew.step(to(change - span + (done / third) * (span - 2 * around)));
    await kill(done);
  }
  let done = third;
  for (; done < 2 * third; ) {
    // Each time back before the change: what was made then is not made again.
    crew.step(to(change - around));
    while (crew.now < change + around) {
      if (done < 2 * third) await kill(++done);
      else await sleep(Math.max(0, change + around - crew.now));
    }
  }
  const left = Math.max(1, kills - done);
  for (let n = 1; n <= left; n += 1) {
    crew.step(to(change + around + (n / left) * span));
    await kill(done + n);
  }
  await untilFired(harness.queue, change + span);
  await crew.end();
}
