/** Invariant: SIGKILL of workers and enqueuers at random moments loses nothing and does nothing twice. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Plan } from "../../fixtures/tasks.ts";
import { demand } from "../checker.ts";
import type { History } from "../history.ts";
import { isCrash, Load, pidOf } from "../load.ts";
import { processOf } from "../promises/finder.ts";
import { type Figure, type Scenario, spread } from "../scenario.ts";

/** Milliseconds between two kills, on average: 300 kills in 90 s. */
const pause = 300;

const plans: readonly Plan[] = [
  "return",
  "within",
  "return",
  "throwOnce",
  "within",
  "snoozeOnce",
  "return",
  "within",
  "fail",
  "cancel",
];

export const kills: Scenario = {
  name: "kills",
  about: "Eight workers and two enqueuers are killed at random moments: nothing is lost or done twice.",
  unit: "kills",
  amounts: { test: 15, sample: 60, chaos: 300 },
  async run(trial) {
    const worker = { concurrency: 4, lease: 2_000 };
    const load = await Load.start(trial.harness, { workers: 8, enqueuers: 2, worker, enqueuing: { plans } });
    for (let done = 1; done <= trial.amount; done += 1) {
      await sleep(2 * pause * trial.random());
      await killOne(load, trial.random);
      trial.progress(done);
    }
    const history = await load.drain();
    demand(history, { mayDie: (id) => load.killed.has(processOf(id)) });
    return figures(history, load.killed, trial.amount);
  },
};

/** Kills an enqueuer in one of ten cases, else a worker, and starts a new process in its place. */
async function killOne(load: Load, random: () => number): Promise<void> {
  if (random() < 0.1) {
    await load.killEnqueuer(random);
    load.startEnqueuer();
  } else {
    await load.killWorker(random);
    load.startWorker();
  }
}

function figures({ moves, tasks, entries }: History, killed: Load["killed"], kills: number): Figure[] {
  const count = (what: string) => entries.filter((entry) => entry.what === what).length;
  // For each killed attempt, the milliseconds from the kill until its task was free.
  const freed = moves.filter(isCrash).map((move) => move.at - (killed.get(pidOf(move)) ?? Number.NaN));
  return [
    { name: "kills", value: kills },
    { name: "tasks", value: tasks.length },
    { name: "acknowledged", value: count("acknowledged") },
    { name: "killed attempts", value: freed.length },
    ...spread("from kill to freed", freed, { max: 1_000 }),
  ];
}
