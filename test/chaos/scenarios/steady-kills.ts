/**
 * Invariant: of six workers under a steady load, of which one is killed and replaced every 600 ms, no task is lost or
 * finished twice, and the tasks of a killed worker soon start elsewhere.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { chore } from "../../fixtures/tasks.ts";
import { audit } from "../audit.ts";
import { demand } from "../checker.ts";
import { Crew } from "../crew.ts";
import { drain } from "../drain.ts";
import { type History, historyOf } from "../history.ts";
import { processOf } from "../promises/finder.ts";
import { recoveries } from "../recoveries.ts";
import type { Scenario, Trial } from "../scenario.ts";

const workers = 6;

/** Kills wait while fewer workers than this are ready: on a machine that starts them slowly, no worker would be left for a rescue. */
const leastReady = 4;

const concurrency = 10;

/** Milliseconds between two kills, on average: 100 in a minute. */
const pause = 600;

/** Tasks that are enqueued at once, and the milliseconds between: 100 a second, 15 of which run at any time. */
const batch = 10;
const batchEvery = 100;

/** Milliseconds that tasks take. Four of five are short. */
const durations = { short: [5, 100], long: [100, 1_000] } as const;

export const steadyKills: Scenario = {
  name: "steady-kills",
  about: "Six workers under a steady load are killed 100 times a minute: their tasks start elsewhere.",
  unit: "kills",
  amounts: { test: 5, sample: 8, chaos: 100 },
  async run(trial) {
    const { harness, amount } = trial;
    await audit(harness.database);
    const crew = await Crew.start(() => harness.worker({ concurrency }), { workers, leastReady });
    const load = new Load(trial);
    await sleep(1_000);
    const begun = performance.now();
    for (let kills = 1; kills <= amount; kills += 1) {
      await sleep(pause * (0.5 + trial.random()));
      await crew.killOne(trial.random);
      trial.progress(kills);
    }
    const took = performance.now() - begun;
    await sleep(1_000);
    await load.stop();
    await drain(harness);
    await crew.stop();
    const history = await historyOf(harness);
    demand(history, { mayDie: (worker) => crew.killed.has(processOf(worker)) });
    return [
      { name: "kills", value: crew.killed.size },
      { name: "kills a minute", value: (60_000 * crew.killed.size) / took },
      { name: "tasks", value: load.enqueued },
      { name: "lost", value: load.enqueued - completedIn(history), most: 0 },
      { name: "finished twice", value: finishedTwice(history), most: 0 },
      ...recoveries(history, crew.killed, { p50: 500, p99: 1_000 }),
    ];
  },
};

/** Enqueues the same number of tasks every 100 ms until it is stopped. */
class Load {
  enqueued = 0;
  readonly #trial: Trial;
  readonly #done: Promise<void>;
  #stopped = false;

  constructor(trial: Trial) {
    this.#trial = trial;
    this.#done = this.#run();
  }

  async #run(): Promise<void> {
    const begun = performance.now();
    for (let n = 1; !this.#stopped; n += 1) {
      const calls = Array.from({ length: batch }, () => [chore, this.#duration(), "return"] as const);
      this.enqueued += (await this.#trial.harness.queue.enqueueTasks(calls)).length;
      await sleep(Math.max(0, begun + n * batchEvery - performance.now()));
    }
  }

  #duration(): number {
    const { random } = this.#trial;
    const [least, most] = random() < 0.8 ? durations.short : durations.long;
    return Math.floor(least + (most - least) * random());
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }
}

const completedIn = ({ tasks }: History) => tasks.filter(({ status }) => status === "completed").length;

function finishedTwice({ moves }: History): number {
  const finished = moves.filter(({ status }) => status === "completed").map(({ task }) => task);
  return finished.length - new Set(finished).size;
}
