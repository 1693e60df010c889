/**
 * Invariant: while workers are killed, a rate lets as many tasks start as it says, and no window of time has more starts than
 * `limit + burst - 1`.
 */
import { deepStrictEqual } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { bursty, even, rates as values } from "../../fixtures/limited-tasks.ts";
import { audit } from "../audit.ts";
import { backendOf, openRaw } from "../backends/backend.ts";
import { demand } from "../checker.ts";
import { Crew } from "../crew.ts";
import { historyOf } from "../history.ts";
import { processOf } from "../promises/finder.ts";
import type { Figure, Scenario, Trial } from "../scenario.ts";

const worker = { concurrency: 10, lease: 2_000 };

/** Milliseconds between two kills, on average. */
const pause = 2_000;

/** Milliseconds of a rate: `limit` starts in each. */
const per = 1_000;

/** Milliseconds that a task takes. */
const duration = 20;

const funcs = { even, bursty };
const names = Object.keys(funcs) as (keyof typeof funcs)[];

export const rates: Scenario = {
  name: "rates",
  about:
    "Workers are killed that run tasks at a rate of 50 a second: as many start as the rate says, and no second has more than it allows.",
  unit: "seconds",
  amounts: { test: 4, sample: 10, chaos: 60 },
  async run(trial) {
    const { harness, amount, random, progress } = trial;
    await audit(harness.database);
    const begin = () => harness.worker(worker, { script: "limited-worker.ts" });
    const crew = await Crew.start(begin, { workers: 4, leastReady: 2 });
    await fill(trial);
    const { at } = await harness.eventLog.until("start");
    const end = at + amount * per + per / 2;
    while (Date.now() < end) {
      await sleep(Math.min(pause * (0.5 + random()), Math.max(0, end - Date.now())));
      if (Date.now() < end) await crew.killOne(random);
      progress(Math.min(amount, Math.floor((Date.now() - at) / per)));
    }
    await crew.stop();
    const history = await historyOf(harness);
    demand(history, { ended: false, beforeTurn: true, mayDie: (id) => crew.killed.has(processOf(id)) });
    const figures: Figure[] = [
      { name: "seconds", value: amount },
      { name: "kills", value: crew.killed.size },
    ];
    for (const name of names)
      figures.push(...figuresOf(name, await startsOf(harness.database, name), amount));
    return figures;
  },
};

/** As many tasks as could start in this time and a little longer. */
async function fill({ harness, amount }: Trial): Promise<void> {
  const count = values.even.limit * (amount + 10);
  await harness.queue.enqueueTasks(Array.from({ length: count }, () => [even, duration] as const));
  await harness.queue.enqueueTasks(Array.from({ length: count }, () => [bursty, duration] as const));
}

/** When each attempt started, by the clock that the rates are measured by. */
async function startsOf(database: string, func: string): Promise<number[]> {
  const started = backendOf(database).audit.millis("started_at");
  await using raw = await openRaw(database);
  const ended = await raw.all<{ at: number }>(
    `select ${started} as at from dbq_attempts
      where task_id in (select id from dbq_tasks where func = '${func}')`,
  );
  const done = await raw.all<{ at: number }>(
    `select ${started} as at from dbq_tasks where func = '${func}' and status = 'completed'`,
  );
  return [...ended, ...done].map(({ at }) => Number(at)).sort((a, b) => a - b);
}

/** @throws Error when a window has more starts than the rate allows */
function figuresOf(name: (typeof names)[number], starts: readonly number[], seconds: number): Figure[] {
  const { limit, burst } = values[name];
  const most = limit + burst - 1;
  const over = starts.filter((at, n) => at - (starts[n - most] ?? Number.NEGATIVE_INFINITY) < per);
  deepStrictEqual(over, [], `${name}: no window of ${per} ms has more than ${most} starts`);
  const first = starts[0] ?? 0;
  const within = starts.filter((at) => at < first + seconds * per).length;
  const expected = limit * seconds;
  return [
    { name: `${name}: starts`, value: within },
    { name: `${name}: most in a second`, value: mostIn(starts), most },
    {
      name: `${name}: away from ${expected}`,
      value: (100 * Math.abs(within - expected)) / expected,
      unit: "%",
      most: 1,
    },
  ];
}

/** The most starts in any window. */
function mostIn(starts: readonly number[]): number {
  let from = 0;
  return starts.reduce((most, at, n) => {
    while (at - (starts[from] as number) >= per) from += 1;
    return Math.max(most, n - from + 1);
  }, 0);
}
