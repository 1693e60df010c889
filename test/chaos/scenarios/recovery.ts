/**
 * Invariant: when workers are killed beside a large backlog, the tasks that they ran start in another process before
 * any pending task.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, Harness } from "../../fixtures/harness.ts";
import { chore } from "../../fixtures/tasks.ts";
import { audit } from "../audit.ts";
import { openRaw } from "../backends/backend.ts";
import { demand } from "../checker.ts";
import { stopAll } from "../drain.ts";
import { historyOf } from "../history.ts";
import { processOf } from "../promises/finder.ts";
import { recoveries } from "../recoveries.ts";
import type { Scenario, Trial } from "../scenario.ts";

const workers = 5;
const concurrency = 5;

/** Pending tasks for each kill, up to a maximum: the backlog never falls below this. */
const backlogOf = (kills: number) => Math.min(100_000, 1_000 * kills);
/** Added for the tasks done between two kills: two hundred a second at most, however long a start takes. */
const doneMeanwhile = 5_000;

/** Milliseconds that a task takes. */
const shortest = 100;
const longest = 250;

/** Milliseconds after which a killed attempt's task counts as stuck. */
const patience = 20_000;

/** Milliseconds between kills, at most. */
const pause = 1_200;

export const recovery: Scenario = {
  name: "recovery",
  about:
    "Workers are killed beside a backlog: each of their tasks starts elsewhere, before all pending tasks.",
  unit: "kills",
  amounts: { test: 5, sample: 5, chaos: 40 },
  async run(trial) {
    const { harness, amount } = trial;
    await audit(harness.database);
    const least = [await fillBacklog(trial)];
    const start = () => harness.worker({ concurrency });
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
    await restarted(harness, killed);
    least.push((await harness.queue.countTasks()).pending);
    const pending = Math.min(...least.slice(1));
    if (pending < backlogOf(amount)) throw new Error(`the backlog fell to ${pending}`);
    await stopAll(alive);
    const history = await historyOf(harness);
    demand(history, { ended: false, mayDie: (worker) => killed.has(processOf(worker)) });
    return [
      { name: "kills", value: killed.size },
      { name: "fewest pending tasks", value: pending },
      ...recoveries(history, killed, { p99: 1_000, max: 2_000 }),
    ];
  },
};

/** Fills the backlog up to its minimum plus the tasks done until the next filling. @returns how many were left */
async function fillBacklog({ harness, amount, random }: Trial): Promise<number> {
  const { pending } = await harness.queue.countTasks();
  for (let left = backlogOf(amount) + doneMeanwhile - pending; left > 0; left -= 5_000) {
    const calls = Array.from({ length: Math.min(left, 5_000) }, () => {
      const ms = Math.floor(shortest + (longest - shortest) * random());
      return [chore, ms, "return"] as const;
    });
    await harness.queue.enqueueTasks(calls);
  }
  return pending;
}

/** Waits until no killed worker holds a task, and each of its tasks was claimed again; gives up after a while. */
async function restarted({ database, queue }: Harness, killed: ReadonlyMap<number, number>): Promise<void> {
  await using raw = await openRaw(database);
  const waits = "select 1 as one from dbq_tasks where status = 'pending' and retry_count > 0";
  const isHeld = async () => (await queue.listWorkers()).some(({ pid }) => killed.has(pid));
  const end = performance.now() + patience;
  while (performance.now() < end && ((await isHeld()) || (await raw.all(waits)).length > 0)) await sleep(20);
}
