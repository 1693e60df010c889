/**
 * Invariant: whichever worker is killed at whichever moment, never more tasks run at once than a limit allows, and no place
 * of a limit stays empty while tasks wait for it.
 */
import { deepStrictEqual, equal } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Harness } from "../../fixtures/harness.ts";
import { grouped, limited, most, sharedName, sharing, sharingToo } from "../../fixtures/limited-tasks.ts";
import type { Look, Seen } from "../../fixtures/observer.ts";
import { audit } from "../audit.ts";
import { openRaw } from "../backends/backend.ts";
import { demand } from "../checker.ts";
import { Crew } from "../crew.ts";
import { drain, stopAll } from "../drain.ts";
import { type History, historyOf } from "../history.ts";
import { isCrash, pidOf } from "../load.ts";
import { seenBy } from "../observed.ts";
import { mostRows, type Occupancy, occupancies } from "../places.ts";
import { processOf } from "../promises/finder.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";

const worker = { concurrency: 4, lease: 2_000 };

/** Milliseconds between two kills, on average. */
const pause = 350;

/** Milliseconds that a task takes. */
const durations = { shortest: 150, longest: 650 };

/** Pending tasks of each place: their number is looked at every `refillEvery` milliseconds. */
const backlog = 60;
const refillEvery = 100;

/** Milliseconds for which a place should be empty at most, on a machine without other work. */
const patience = 2_000;
/** Milliseconds after the last kill in which all places must be in use at once: else one of them is lost. */
const lost = 60_000;

/** Each limit is a place; the tasks that count for it have its name as their `requestId`. */
const places = {
  limited: (ms: number) => [limited.with({ requestId: "limited" }), ms] as const,
  "grouped/a": (ms: number) => [grouped.with({ requestId: "grouped/a" }), ms, "a"] as const,
  "grouped/b": (ms: number) => [grouped.with({ requestId: "grouped/b" }), ms, "b"] as const,
  shared: (ms: number) => [(ms % 2 ? sharing : sharingToo).with({ requestId: "shared" }), ms] as const,
};
const names = Object.keys(places) as (keyof typeof places)[];

const countBy = (status: string) =>
  `select request_id as place, count(*) as tasks from dbq_tasks where status = '${status}' group by request_id`;

const looks: readonly Look[] = [
  { query: countBy("running"), pause: 3, most },
  { query: countBy("pending"), pause: 50, least: { places: names, tasks: 1 } },
];

export const limits: Scenario = {
  name: "limits",
  about:
    "Eight workers are killed under limits of three, of a function, of groups and by a shared name: never four tasks run at once, and no place stays empty while tasks wait.",
  unit: "kills",
  amounts: { test: 8, sample: 20, chaos: 300 },
  async run(trial) {
    const { harness, amount, random } = trial;
    await audit(harness.database);
    await harness.queue.setLimit(sharedName, { concurrency: most });
    await using load = await Load.start(trial);
    const begin = () => harness.worker(worker, { script: "limited-worker.ts" });
    const crew = await Crew.start(begin, { workers: 8, leastReady: 5 });
    const observer = harness.start("observer.ts", [looks]);
    const { at: from } = await harness.eventLog.until("watching");
    for (let kills = 1; kills <= amount; kills += 1) {
      await sleep(pause * (0.5 + random()));
      await crew.killOne(random);
      trial.progress(kills);
    }
    await untilFull(harness);
    const until = Date.now();
    await stopAll([observer]);
    await load.stop();
    await drain(harness);
    await crew.stop();
    const history = await historyOf(harness);
    demand(history, { mayDie: (id) => crew.killed.has(processOf(id)) });
    const inUse = (await harness.queue.listLimits()).map(({ running }) => running);
    equal(Math.max(0, ...inUse), 0, "no place is in use at the end");
    const [rows, waiting] = seenBy(looks, harness.eventLog) as [Seen, Seen];
    return [
      ...figures(history, crew.killed, occupancies(history, crew.killed, { from, until, most, names })),
      { name: "looks of the observer", value: rows.looks },
      { name: "most running rows of a limit", value: rows.most, most },
      { name: "fewest waiting tasks", value: waiting.least },
    ];
  },
};

/** Waits until each limit was used in full once. @throws Error when one is not */
async function untilFull({ database }: Harness): Promise<void> {
  await using raw = await openRaw(database);
  const missing = new Set<string>(names);
  for (const end = performance.now() + lost; missing.size > 0; await sleep(5)) {
    const rows = await raw.all<{ place: string; tasks: number }>(countBy("running"));
    for (const { place, tasks } of rows) if (Number(tasks) === most) missing.delete(place);
    if (performance.now() > end) throw new Error(`places of ${[...missing].join(", ")} are lost`);
  }
}

/** Keeps tasks waiting for each place. */
class Load implements AsyncDisposable {
  readonly #trial: Trial;
  #stopped = false;
  #done: Promise<void> = Promise.resolve();

  private constructor(trial: Trial) {
    this.#trial = trial;
  }

  static async start(trial: Trial): Promise<Load> {
    const load = new Load(trial);
    await load.#fill(new Map());
    load.#done = load.#run();
    return load;
  }

  async #run(): Promise<void> {
    await using raw = await openRaw(this.#trial.harness.database);
    for (; !this.#stopped; await sleep(refillEvery)) {
      const rows = await raw.all<{ place: string; tasks: number }>(countBy("pending"));
      await this.#fill(new Map(rows.map(({ place, tasks }) => [place, Number(tasks)])));
    }
  }

  async #fill(waiting: ReadonlyMap<string, number>): Promise<void> {
    const { harness, random } = this.#trial;
    const { shortest, longest } = durations;
    const calls = names.flatMap((name) =>
      Array.from({ length: Math.max(0, backlog - (waiting.get(name) ?? 0)) }, () =>
        places[name](Math.floor(shortest + (longest - shortest) * random())),
      ),
    );
    if (calls.length > 0) await harness.queue.enqueueTasks(calls);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

function figures(history: History, killed: ReadonlyMap<number, number>, all: readonly Occupancy[]): Figure[] {
  const { entries, moves, tasks } = history;
  const wrong = entries.filter(({ what }) => what === "tooMany" || what === "tooFew");
  deepStrictEqual(wrong.slice(0, 5), [], "the observer sees no limit exceeded, and tasks that wait");
  equal(Math.max(...all.map((one) => one.most)) <= most, true, "the tasks themselves never exceed a limit");
  equal(mostRows(history) <= most, true, "no claim exceeds a limit");
  const empty = all.flatMap((one) => one.empty);
  const longest = Math.max(0, ...empty.map((one) => one.sinceKill));
  const freed = moves.filter(isCrash).map((move) => move.at - (killed.get(pidOf(move)) ?? Number.NaN));
  return [
    { name: "kills", value: killed.size },
    { name: "tasks", value: tasks.length },
    { name: "killed attempts", value: freed.length },
    { name: "most running tasks of a limit", value: Math.max(...all.map((one) => one.most)), most },
    ...all.map(({ name, inUse }) => ({ name: `places of ${name} in use`, value: 100 * inUse, unit: "%" })),
    ...spread("from kill to freed", freed, { max: 1_000 }),
    ...spread(
      "empty place",
      empty.map(({ whole }) => whole),
    ),
    { name: "longest since a kill", value: longest, unit: "ms", most: patience },
  ];
}
