/**
 * Invariant: when the time of day is stepped by an hour, forwards or backwards, for all processes or for one worker, no
 * live worker is rescued and every wait keeps its length.
 */
import { deepStrictEqual } from "node:assert/strict";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Entry } from "../../fixtures/event-log.ts";
import type { Child, Harness } from "../../fixtures/harness.ts";
import { hangOnce, steadily } from "../../fixtures/tasks.ts";
import type { Enqueueing, TimekeeperOptions } from "../../fixtures/timekeeper.ts";
import { demand } from "../checker.ts";
import { stopAll } from "../drain.ts";
import type { History } from "../history.ts";
import { Load } from "../load.ts";
import { processOf } from "../promises/finder.ts";
import { type Figure, type Scenario, spread } from "../scenario.ts";
import { noClock, SteppedClock } from "../stepped-clock.ts";

const hour = 3_600_000;
const lease = 2_000;
const keeping: TimekeeperOptions = { delay: 2_000, awaitTimeout: 1_000 };

/** The timeout of an attempt of the task "overlong". */
const attemptTimeout = 1_000;

/** Milliseconds between two steps, at least: a delayed task has started by then. */
const between = 2_500;

/** Milliseconds that a task or timeout may be late. */
const slack = 1_000;

/**
 * Milliseconds that it may seem early: a timer counts from the beginning of its turn of the event loop, and the process
 * may note the time late. A step is an hour, far above this.
 */
const early = 50;

/** A step of clocks, measured by the steady clock. */
interface Step {
  from: number;
  /**
   * The clocks of all processes are set one by one, as when a host's time is set. A single worker's clock is set right
   * again at this time.
   */
  to: number;
  forwards: boolean;
  all: boolean;
}

export const clock: Scenario = {
  name: "clock",
  about:
    "The time of day is stepped by an hour, for all processes or for one: no live worker is rescued, and every wait keeps its length.",
  unit: "steps",
  amounts: { test: 1, sample: 5, chaos: 20 },
  only: { kinds: ["sqlite"], why: "a server's own clock decides, which no process can step" },
  unable: noClock,
  async run({ harness, random, amount, progress }) {
    const clocks = new Clocks(harness);
    const load = await Load.start(harness, {
      workers: 3,
      enqueuers: 1,
      worker: { lease, concurrency: 20 },
      enqueuing: { pause: 200, plans: ["return", "within", "throwOnce", "snoozeOnce"] },
      how: () => clocks.next().how,
    });
    load.enqueuers.push(harness.start("timekeeper.ts", [keeping], clocks.next().how));
    await harness.eventLog.until("delayed");
    const steps: Step[] = [];
    const recoveries: number[] = [];
    while (steps.length < amount) {
      // The first step moves all clocks, so that the shortest run has such a step.
      const step = steps.length % 3 === 2 ? await stepOne(clocks, load, random) : clocks.stepAll(random);
      steps.push(step);
      await sleep(random() * between);
      recoveries.push(await recovery(harness, load, random));
      await sleep(Math.max(0, step.to + between - steadily()));
      progress(steps.length);
    }
    await stopAll(load.enqueuers);
    // Tasks that a step backwards delayed by an hour become due when the clocks go forwards by as much.
    const last = clocks.setAll(2 * hour);
    const history = await load.drain();
    demand(history, {
      mayDie: (worker) => load.killed.has(processOf(worker)),
      mayFail: ({ outcome }) => outcome === "timeout",
    });
    load.demandNoFalseRescue(history);
    return figures(history, [...steps, last], recoveries);
  },
};

/** One clock for each process. */
class Clocks {
  readonly #folder: string;
  readonly #all: SteppedClock[] = [];
  #offset = 0;

  constructor(harness: Harness) {
    this.#folder = join(harness.folder, "clocks");
  }

  next(): SteppedClock {
    const made = new SteppedClock(this.#folder, String(this.#all.length));
    made.step(this.#offset);
    this.#all.push(made);
    return made;
  }

  /** The clock of the process that was started with these options. */
  of(how: unknown): SteppedClock {
    const file = (how as SteppedClock["how"]).env?.FAKETIME_TIMESTAMP_FILE;
    return this.#all.find((each) => each.how.env?.FAKETIME_TIMESTAMP_FILE === file) as SteppedClock;
  }

  /** Stays within an hour of the original time. */
  stepAll(random: () => number): Step {
    const forwards = this.#offset === 0 ? random() < 0.5 : this.#offset < 0;
    return this.setAll(this.#offset + (forwards ? hour : -hour));
  }

  setAll(offset: number): Step {
    const from = steadily();
    const forwards = offset > this.#offset;
    this.#offset = offset;
    for (const each of this.#all) each.step(offset);
    return { from, to: steadily(), forwards, all: true };
  }
}

/** Sets one worker's clock an hour ahead or behind, and right again after a while. */
async function stepOne(clocks: Clocks, { workers, hows }: Load, random: () => number): Promise<Step> {
  const { pid } = workers[Math.floor(workers.length * random())] as Child;
  const its = clocks.of(hows.get(pid));
  const right = its.offset;
  const forwards = random() < 0.5;
  its.step(right + (forwards ? hour : -hour));
  const from = steadily();
  await sleep(2 * lease);
  its.step(right);
  return { from, to: steadily(), forwards, all: false };
}

/** Kills a worker, and returns the milliseconds until its task starts elsewhere. */
async function recovery(harness: Harness, load: Load, random: () => number): Promise<number> {
  const id = await harness.queue.enqueueTask(hangOnce);
  const { pid } = await harness.eventLog.until("start", ({ task }) => task === id);
  const killedAt = steadily();
  await load.killWorker(random, pid);
  await harness.eventLog.until("start", (entry) => entry.task === id && entry.pid !== pid);
  const took = steadily() - killedAt;
  await load.addWorker();
  return took;
}

/** A delayed task by the steady clock: when its enqueue began and ended, and when it started. */
interface Delayed {
  from: number;
  enqueued: number;
  to: number;
}

function delayedOf({ entries }: History): Delayed[] {
  const starts = new Map(entries.filter(({ what }) => what === "start").map((entry) => [entry.task, entry]));
  return entries
    .filter(({ what }) => what === "delayed")
    .map(({ task, note }) => {
      const { at, until } = note as Enqueueing;
      return { from: at, enqueued: until, to: (starts.get(task) as Entry).note as number };
    });
}

function figures(history: History, steps: readonly Step[], recoveries: readonly number[]): Figure[] {
  const during = ({ from, to }: Pick<Delayed, "from" | "to">, fits: (step: Step) => boolean) =>
    steps.some((step) => fits(step) && step.to >= from - early && step.from <= to + early);
  const delayed = delayedOf(history);
  const wait = ({ from, to }: Delayed) => to - from;
  const isLate = (task: Delayed) => wait(task) > keeping.delay + slack;
  const behind = delayed.filter((task) => during(task, ({ forwards, all }) => all && !forwards));
  const others = delayed.filter((task) => !behind.includes(task));
  const hasty = delayed.filter((task) => wait(task) < keeping.delay - early);
  // A task that is enqueued during a step may get its due time from the old clock and be read by the new one.
  const amid = ({ from, enqueued }: Delayed) => during({ from, to: enqueued }, () => true);
  const unexplained = hasty.filter(
    (task) => !amid(task) && !during(task, ({ forwards, all }) => forwards || !all),
  );
  deepStrictEqual(unexplained, [], "no delayed task starts early, unless a clock went forwards");
  return [
    { name: "steps", value: steps.length },
    { name: "steps of all clocks", value: steps.filter(({ all }) => all).length },
    { name: "tasks", value: history.tasks.length },
    { name: "delayed tasks", value: delayed.length },
    { name: "started early after a step forwards", value: hasty.length },
    { name: "late after a step backwards", value: behind.filter(isLate).length },
    ...spread(
      "otherwise late",
      others.map((task) => Math.max(0, wait(task) - keeping.delay)),
      { max: slack },
    ),
    ...spread("late await timeout", timesOf(history, "gaveUp", keeping.awaitTimeout), { max: slack }),
    ...spread("late attempt timeout", timesOf(history, "timedOut", attemptTimeout), { max: slack }),
    ...spread("from kill to start", recoveries, { p99: 1_000, max: 2_000 }),
  ];
}

/** @throws Error when a timeout came too early */
function timesOf({ entries }: History, what: string, timeout: number): number[] {
  const late = entries.filter((entry) => entry.what === what).map(({ note }) => (note as number) - timeout);
  deepStrictEqual(
    late.filter((ms) => ms < -early),
    [],
    `${what}: no timeout comes early`,
  );
  return late.map((ms) => Math.max(0, ms));
}
