/**
 * Invariant: a SIGKILL of a worker whose tasks run in processes of their own loses nothing and does nothing twice, and these
 * processes end with it, also those that compute.
 */
import { deepStrictEqual } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { childChore } from "../../fixtures/child-tasks.ts";
import { write } from "../../fixtures/event-log.ts";
import type { Harness } from "../../fixtures/harness.ts";
import { demand } from "../checker.ts";
import type { History } from "../history.ts";
import { isCrash, Load } from "../load.ts";
import { key, processOf } from "../promises/finder.ts";
import { type Figure, type Scenario, spread } from "../scenario.ts";

/** Milliseconds between two kills, on average. */
const pause = 600;

/** Milliseconds that a task takes, at most. */
const longest = 800;

/** Milliseconds between two enqueues. */
const every = 60;

export const children: Scenario = {
  name: "children",
  about:
    "Workers are killed whose tasks run in processes: nothing is lost or done twice, and the processes end.",
  unit: "kills",
  amounts: { test: 8, sample: 30, chaos: 100 },
  async run({ harness, amount, random, progress }) {
    const starting = Load.start(harness, {
      workers: 3,
      enqueuers: 0,
      worker: { concurrency: 3, lease: 2_000 },
    });
    await harness.eventLog.until("ready");
    const enqueuing = new Enqueuing(harness, random);
    const load = await starting;
    for (let done = 1; done <= amount; done += 1) {
      await sleep(2 * pause * random());
      await load.killWorker(random);
      load.startWorker();
      progress(done);
    }
    await enqueuing.stop();
    const history = await load.drain();
    demand(history, { mayDie: (id) => load.killed.has(processOf(id)) });
    load.demandNoFalseRescue(history);
    const outlived = outlivedBy(history, load.killed);
    deepStrictEqual(
      outlived.filter((ms) => ms > 1_000),
      [],
      "a process ends within a second after its worker",
    );
    return figures(history, load.killed, outlived);
  },
};

/** Enqueues tasks until it is stopped. Every second one computes. */
class Enqueuing {
  #isOver = false;
  readonly #done: Promise<void>;

  constructor(harness: Harness, random: () => number) {
    this.#done = this.#run(harness, random);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#done;
  }

  async #run({ queue, eventLog }: Harness, random: () => number): Promise<void> {
    for (let n = 0; !this.#isOver; n += 1) {
      const ms = Math.ceil(longest * random() ** 2);
      write(eventLog.path, "acknowledged", {
        task: await queue.enqueueTask(childChore, eventLog.path, ms, n % 2 === 0),
      });
      await sleep(every);
    }
  }
}

/** For each function that noted something after its worker was killed, how many milliseconds later the last note came. */
function outlivedBy({ entries }: History, killed: Load["killed"]): number[] {
  const notes = entries.filter(({ what }) => what === "start" || what === "alive");
  const last = new Map(notes.map((entry) => [`${entry.pid} ${key(entry)}`, entry]));
  return [...last.values()].map(({ pid, at }) => at - (killed.get(pid) ?? at)).filter((ms) => ms > 0);
}

function figures({ moves, tasks, entries }: History, killed: Load["killed"], outlived: number[]): Figure[] {
  const completions = moves.filter(({ status }) => status === "completed");
  return [
    { name: "kills", value: killed.size },
    { name: "tasks", value: tasks.length },
    { name: "lost", value: tasks.filter(({ status }) => status !== "completed").length, most: 0 },
    {
      name: "finished twice",
      value: completions.length - new Set(completions.map(({ task }) => task)).size,
      most: 0,
    },
    { name: "acknowledged", value: entries.filter(({ what }) => what === "acknowledged").length },
    { name: "killed attempts", value: moves.filter(isCrash).length },
    ...spread("from kill to a function's last sign of life", outlived.length > 0 ? outlived : [0], {
      max: 1_000,
    }),
  ];
}
