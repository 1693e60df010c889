/**
 * Invariant: when many workers claim from one queue, each task runs once, whether row locks or the generation alone
 * keep their claims apart.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { QueueOptions } from "../../../src/index.ts";
import { chore, type Plan } from "../../fixtures/tasks.ts";
import { audit } from "../audit.ts";
import { demand } from "../checker.ts";
import { demandNoConflicts } from "../conflicts.ts";
import { drain, stopAll } from "../drain.ts";
import { type History, historyOf } from "../history.ts";
import { isClaim } from "../promises/finder.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";

/** Several workers to a process, with few connections each: a server allows a hundred in all. */
const processes = 8;
const workers = 4;
const queue: QueueOptions = { poolSize: 2 };

const plans: readonly Plan[] = ["return", "within", "return", "throwOnce", "return", "snoozeOnce"];

type Strategy = "skip-locked" | "optimistic";

export const strategies: Scenario = {
  name: "strategies",
  about:
    "Thirty-two workers claim from one queue, kept apart by row locks or by generations alone: no task runs twice, and no conflict is reported.",
  unit: "tasks of each strategy",
  amounts: { test: 200, sample: 300, chaos: 3_000 },
  only: { kinds: ["postgres", "mysql"], why: "a file has one writer at a time" },
  async run(trial) {
    const { harness, amount, progress } = trial;
    await audit(harness.database);
    for (const strategy of ["skip-locked", "optimistic"] as const) {
      await drainWith(trial, strategy);
      progress(amount / 2);
    }
    const history = await historyOf(harness);
    demand(history, { mayDie: () => false });
    demandNoConflicts(history);
    return [{ name: "tasks of each strategy", value: amount }, ...sharesOf(history)];
  },
};

/** Starts with a backlog, from which all workers claim at once. */
async function drainWith({ harness, amount, random }: Trial, strategy: Strategy): Promise<void> {
  const children = await Promise.all(
    Array.from({ length: processes }, () =>
      harness.worker({ workers, concurrency: 4, queue: { ...queue, strategy } }),
    ),
  );
  const calls = Array.from({ length: amount }, (_, n) => {
    const plan = plans[n % plans.length] as Plan;
    return [chore, Math.floor(20 * random()), plan] as const;
  });
  await harness.queue.enqueueTasks(calls);
  await sleep(100);
  await drain(harness);
  await stopAll(children);
}

/** How many attempts each worker made. */
function sharesOf({ moves }: History): Figure[] {
  const shares = new Map<string | null, number>();
  for (const { worker } of moves.filter(isClaim)) shares.set(worker, (shares.get(worker) ?? 0) + 1);
  return spread("attempts per worker", [...shares.values()]).map(({ unit: _, ...figure }) => figure);
}
