/**
 * Invariant: where a worker's death cannot be observed, as on another host, its tasks are freed when its lease is over,
 * and not before.
 */
import { deepStrictEqual } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, ChildOptions, Harness } from "../../fixtures/harness.ts";
import { hangOnce } from "../../fixtures/tasks.ts";
import { audit } from "../audit.ts";
import { openRaw } from "../backends/backend.ts";
import { demand } from "../checker.ts";
import { drain, stopAll } from "../drain.ts";
import { type History, historyOf } from "../history.ts";
import { isCrash, pidOf } from "../load.ts";
import { processOf } from "../promises/finder.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";

const lease = 2_000;
const concurrency = 2;

/** The number of workers killed in a round, each at a different instant. */
const atOnce = 6;

export const leases: Scenario = {
  name: "lease",
  about:
    "Workers are killed where no other process can observe it: their tasks are freed when their lease is over, and not before.",
  unit: "kills",
  amounts: { test: 3, sample: 12, chaos: 24 },
  async run(trial) {
    const { history, killed } = await killHidden(trial, false);
    // Not even killed workers may be rescued early: no process can know that they are dead before their lease is over.
    demand(history, { mayDie: () => false });
    return figures(history, killed, { p99: lease + 300, max: lease + 1_000 });
  },
};

export const sessions: Scenario = {
  name: "sessions",
  about:
    "Workers are killed on another host, with a session on the server: the end of the session frees their tasks at once.",
  unit: "kills",
  amounts: { test: 3, sample: 12, chaos: 24 },
  only: { kinds: ["postgres", "mysql"], why: "a file has no sessions" },
  async run(trial) {
    const { history, killed } = await killHidden(trial, true);
    demand(history, { mayDie: (worker) => killed.has(processOf(worker)) });
    return figures(history, killed, { p99: 1_000, max: 2_000 });
  },
};

/** `withSessions`: whether the killed workers have a session with the server, where there is one. */
async function killHidden(
  trial: Trial,
  withSessions: boolean,
): Promise<{ history: History; killed: ReadonlyMap<number, number> }> {
  const { harness, amount, progress } = trial;
  await audit(harness.database);
  // These two only watch the others, and run no tasks.
  const lookouts = await Promise.all([1, 2].map(() => harness.worker({ queueName: "none" })));
  const options = { lease, concurrency, queue: { sessions: withSessions } };
  const killed = new Map<number, number>();
  while (killed.size < amount) {
    await killRound(trial, options, Math.min(atOnce, amount - killed.size), killed);
    progress(killed.size);
  }
  const last = await harness.worker({ lease });
  await drain(harness);
  await stopAll([...lookouts, last]);
  return { history: await historyOf(harness), killed };
}

/**
 * Starts workers, hides them, kills them while they run tasks that do not end, and waits until all of these are free.
 */
async function killRound(
  { harness, random }: Trial,
  options: ChildOptions,
  count: number,
  killed: Map<number, number>,
): Promise<void> {
  const victims = await Promise.all(Array.from({ length: count }, () => harness.worker(options)));
  await hide(harness, victims);
  const ids = await harness.queue.enqueueTasks(Array.from({ length: count * concurrency }, () => [hangOnce]));
  await Promise.all(ids.map((id) => harness.eventLog.until("start", ({ task }) => task === id)));
  await Promise.all(
    victims.map(async (victim) => {
      await sleep((lease / 3) * random());
      killed.set(victim.pid, await victim.kill());
    }),
  );
  while ((await harness.queue.listWorkers()).some(({ pid }) => killed.has(pid))) await sleep(20);
}

/** Changes the workers' boot ids, so that other workers do not look for their processes on this host. */
async function hide({ database }: Harness, victims: readonly Child[]): Promise<void> {
  await using raw = await openRaw(database);
  const hide = "update dbq_workers set boot_id = 'elsewhere' where pid =";
  for (const { pid } of victims) deepStrictEqual(await raw.run(`${hide} ${pid}`), 1);
}

function figures(
  { moves, workerMoves }: History,
  killed: ReadonlyMap<number, number>,
  most: { p99: number; max: number },
): Figure[] {
  const freed = moves.filter((move) => isCrash(move) && killed.has(pidOf(move)));
  const gone = workerMoves.filter(({ worker, came }) => came === 0 && killed.has(processOf(worker)));
  return [
    { name: "kills", value: killed.size },
    { name: "killed attempts", value: freed.length },
    ...spread(
      "from the last heartbeat to freed",
      gone.map(({ silent }) => silent),
    ),
    ...spread(
      "from kill to freed",
      freed.map((move) => move.at - (killed.get(pidOf(move)) ?? 0)),
      most,
    ),
  ];
}
