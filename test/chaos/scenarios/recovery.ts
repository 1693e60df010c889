/** Workers are killed beside a large backlog: what they ran starts in another process before anything of it. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, Scene } from "../../fixtures/scene.ts";
import { chore } from "../../fixtures/tasks.ts";
import { audit } from "../audit.ts";
import { demand } from "../checker.ts";
import { historyOf } from "../history.ts";
import { openRaw } from "../place/place.ts";
import { processOf } from "../promises/finder.ts";
import { recoveries } from "../recoveries.ts";
import { stopAll } from "../rest.ts";
import type { Scenario, Trial } from "../scenario.ts";

const workers = 5;
const concurrency = 5;

/** Pending tasks for each kill, and at most: at no time there are fewer. */
const backlogOf = (kills: number) => Math.min(100_000, 1_000 * kills);
/** What is done between two kills comes on top: two hundred tasks a second at most, however long a start takes. */
const doneMeanwhile = 5_000;

/** Milliseconds that a task takes. */
const shortest = 100;
const longest = 250;

/** Milliseconds after which what was cut off is stuck. */
const patience = 20_000;

/** Milliseconds between kills, at most. */
const pause = 1_200;

export const recovery: Scenario = {
  name: "recovery",
  about:
    "Workers are killed beside a backlog: each task that was cut off starts elsewhere, before any that is pending.",
  unit: "kills",
  amounts: { test: 5, sample: 15, chaos: 40 },
  async run(trial) {
    const { scene, amount } = trial;
    await audit(scene.database);
    const least = [await fillBacklog(trial)];
    const start = () => scene.worker({ concurrency });
    const alive = await Promise.all(Array.from({ length: workers }, start));
    const killed = new Map<number, number>();
    while (killed.size < amount) {
      await sleep(pause * trial.random());
      const [victim] = alive.splice(Math.floor(alive.length * trial.random()), 1) as [Child];
      killed.set(victim.pid, await victim.kill());
      alive.push(await start());
      least.push(await fillBacklog(trial));
      trial.progress(killed.size);
    }
    await restarted(scene, killed);
    least.push((await scene.queue.countTasks()).pending);
    const pending = Math.min(...least.slice(1));
    if (pending < backlogOf(amount)) throw new Error(`the backlog has shrunk to ${pending}`);
    await stopAll(alive);
    const history = await historyOf(scene);
    demand(history, { ended: false, mayDie: (worker) => killed.has(processOf(worker)) });
    return [
      { name: "kills", value: killed.size },
      { name: "pending all the time, at least", value: pending },
      ...recoveries(history, killed, { p99: 1_000, max: 2_000 }),
    ];
  },
};

/** As many as there are to be, and what will be done until it is filled again. @returns how many were left of it */
async function fillBacklog({ scene, amount, random }: Trial): Promise<number> {
  const { pending } = await scene.queue.countTasks();
  for (let left = backlogOf(amount) + doneMeanwhile - pending; left > 0; left -= 5_000) {
    const calls = Array.from({ length: Math.min(left, 5_000) }, () => {
      const ms = Math.floor(shortest + (longest - shortest) * random());
      return [chore, ms, "return"] as const;
    });
    await scene.queue.enqueueTasks(calls);
  }
  return pending;
}

/** Waits until no task is held by one who was killed, and each that was has been claimed anew; but not for ever. */
async function restarted({ database, queue }: Scene, killed: ReadonlyMap<number, number>): Promise<void> {
  await using raw = await openRaw(database);
  const waits = "select 1 as one from dbq_tasks where status = 'pending' and retry_count > 0";
  const isHeld = async () => (await queue.listWorkers()).some(({ pid }) => killed.has(pid));
  const end = performance.now() + patience;
  while (performance.now() < end && ((await isHeld()) || (await raw.all(waits)).length > 0)) await sleep(20);
}
