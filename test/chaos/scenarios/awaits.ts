/**
 * Invariant: each of thousands of awaits in one process settles as its task does, whether other processes complete,
 * fail, cancel, purge or ignore the task, and they share few queries.
 */
import { deepStrictEqual } from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Asked, AwaiterOptions, End, Settled } from "../../fixtures/awaiter.ts";
import type { EnqueuerOptions } from "../../fixtures/enqueuer.ts";
import type { Harness } from "../../fixtures/harness.ts";
import { chore, type Plan } from "../../fixtures/tasks.ts";
import { audit } from "../audit.ts";
import { demand } from "../checker.ts";
import { stopAll } from "../drain.ts";
import { historyOf } from "../history.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";

/** Milliseconds in which no awaited task changes, while other processes commit. */
const quiet = 1_000;

/** Milliseconds until awaits time out whose tasks do not end in time, while others still end. */
const timeout = 1_500;

/** Queries per second, for ten thousand awaits. */
const mostQueries = 4;

/** Queries when thousands of awaits time out at one moment: their timers take several turns of the event loop. */
const mostLast = 100;

/** What happens to the tasks, in rotation. */
const fates = [
  "complete",
  "fail",
  "cancelInside",
  "cancel",
  "purge",
  "complete",
  "expire",
  "abandon",
] as const;
type Fate = (typeof fates)[number];

const endOf: Readonly<Record<Fate, End>> = {
  complete: "completed",
  fail: "failed",
  cancelInside: "cancelled",
  cancel: "cancelled",
  purge: "gone",
  expire: "timeout",
  abandon: "aborted",
};

const plans: Partial<Record<Fate, Plan>> = { complete: "return", fail: "fail", cancelInside: "cancel" };

interface Awaited {
  id: number;
  fate: Fate;
}

export const awaits: Scenario = {
  name: "awaits",
  about:
    "Ten thousand awaits in one process, whose tasks end in every way: each await settles correctly, with four queries a second in all.",
  unit: "awaits",
  amounts: { test: 1_000, sample: 3_000, chaos: 10_000 },
  async run(trial) {
    const { harness, amount } = trial;
    await audit(harness.database);
    const tasks = await enqueue(trial);
    const idle = await harness.queue.enqueueTasks(
      Array.from({ length: amount }, () => [chore.with({ queueName: "nobody's" }), 0, "return"] as const),
    );
    const { settled, timedOut } = await awaitAll(harness, tasks, idle);
    deepStrictEqual(settled.wrong, [], "each await settles as its task ends");
    const purged = new Set(tasks.filter(({ fate }) => fate === "purge").map(({ id }) => id));
    demand(await historyOf(harness), { ended: false, mayBeDeleted: (task) => purged.has(task) });
    trial.progress(amount);
    return figures(settled, timedOut, amount);
  },
};

async function enqueue({ harness, amount, random }: Trial): Promise<Awaited[]> {
  const chosen = Array.from({ length: amount }, (_, i) => fates[i % fates.length] as Fate);
  const ids = await harness.queue.enqueueTasks(
    chosen.map((fate) => {
      const plan = plans[fate];
      const queueName = plan === undefined ? fate : "default";
      return [chore.with({ queueName }), Math.floor(500 * random()), plan ?? "return"] as const;
    }),
  );
  return chosen.map((fate, i) => ({ id: ids[i] as number, fate }));
}

/**
 * Awaits the tasks while another process commits all the time; later a worker runs them and an operator cancels and
 * purges.
 */
async function awaitAll(
  harness: Harness,
  tasks: readonly Awaited[],
  idle: readonly number[],
): Promise<{ settled: Settled; timedOut: Asked }> {
  const enqueuing: EnqueuerOptions = { count: Number.MAX_SAFE_INTEGER, pause: 5 };
  const enqueuer = harness.start("enqueuer.ts", [enqueuing]);
  await harness.eventLog.until("acknowledged");
  const file = join(harness.folder, "awaiter.json");
  const options: AwaiterOptions = {
    tasks: tasks.map(({ id, fate }) => ({ id, end: endOf[fate] })),
    timeout,
    idle,
  };
  writeFileSync(file, JSON.stringify(options));
  const awaiter = harness.start("awaiter.ts", [file]);
  await harness.eventLog.until("awaiting");
  await sleep(quiet);
  const worker = await harness.worker({ concurrency: 500 });
  await operate(harness, tasks);
  const left = tasks.filter(({ fate }) => plans[fate] !== undefined);
  for (const { id } of left) await harness.queue.awaitTaskCompletion(id, { timeout: "1m" });
  awaiter.signal("SIGUSR2");
  const settled = (await harness.eventLog.until("settled")).note as Settled;
  const timedOut = (await harness.eventLog.until("timedOut")).note as Asked;
  deepStrictEqual(await awaiter.ended, 0, awaiter.output());
  await stopAll([enqueuer, worker]);
  return { settled, timedOut };
}

async function operate({ queue }: Harness, tasks: readonly Awaited[]): Promise<void> {
  await queue.purgeTasks({ queueName: "purge" });
  const cancelled = tasks.filter(({ fate }) => fate === "cancel");
  await Promise.all(cancelled.map(({ id }) => queue.cancelTask(id)));
}

function figures(settled: Settled, timedOut: Asked, amount: number): Figure[] {
  const most = mostQueries * (10_000 / amount);
  // An await that times out queries once more. Those queries are counted separately.
  const [from, to] = [timeout, settled.lastTimeout];
  const usual = settled.queries.filter((at) => at < from || at > to);
  return [
    { name: "awaits", value: amount },
    { name: "queries per second", value: (1_000 * usual.length) / (settled.ms - (to - from)), most },
    { name: "queries in the busiest second", value: busiestSecond(usual) },
    {
      name: "queries while an eighth times out",
      value: settled.queries.length - usual.length,
      most: mostLast,
    },
    { name: "queries while all time out", value: timedOut.queries.length, most: mostLast },
    { name: "checks for commits per second", value: (1_000 * settled.looks) / settled.ms },
    ...spread("from task end to settled await", settled.delays),
  ];
}

function busiestSecond(times: readonly number[]): number {
  return Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + 1_000).length));
}
