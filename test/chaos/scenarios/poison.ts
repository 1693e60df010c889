/**
 * Invariant: a task that kills its worker fails when its retries are used up, and the other tasks complete. Killed
 * workers are started again, as a supervisor would.
 */
import { deepStrictEqual, equal } from "node:assert/strict";
import { write } from "../../fixtures/event-log.ts";
import type { Child, Harness } from "../../fixtures/harness.ts";
import { chore, type Death, type Plan, venomous } from "../../fixtures/tasks.ts";
import { audit } from "../audit.ts";
import { demand } from "../checker.ts";
import { drain, stopAll } from "../drain.ts";
import { type History, historyOf } from "../history.ts";
import { isCrash, pidOf } from "../load.ts";
import type { Figure, Scenario, Trial } from "../scenario.ts";

const maxRetries = 2;

/** The number of other tasks for each poison task. */
const others = 25;

const deaths: readonly Death[] = ["kill", "exit", "abort"];
const plans: readonly Plan[] = ["return", "within", "snoozeOnce"];

/** In one queue, a worker runs several tasks at a time, which die with it; in the other, it runs one. */
const queues = [
  { queueName: "together", concurrency: 8, workers: 3 },
  { queueName: "alone", concurrency: 1, workers: 4 },
] as const;

export const poison: Scenario = {
  name: "poison",
  about:
    "Some tasks kill their workers: each of them fails when its retries are used up, and all others complete.",
  unit: "poison tasks",
  amounts: { test: 2, sample: 20, chaos: 20 },
  only: {
    kinds: ["sqlite"],
    why: "on a server a worker holds tasks that it has not started, and a crash charges these too",
  },
  async run(trial) {
    const { harness } = trial;
    await audit(harness.database);
    await enqueueAll(trial);
    const supervisor = new Supervisor(harness, trial.amount * (maxRetries + 1));
    await drain(harness);
    await supervisor.stop();
    trial.progress(trial.amount);
    const history = await historyOf(harness);
    const killers = new Set(starts(history, "venomous").map(({ pid }) => pid));
    // Only the poison tasks end their processes.
    demand(history, { allowed: ({ what, pid }) => what === "died" && killers.has(pid) });
    demandFailed(history, trial.amount);
    demandUnaffected(history, new Set([...killers].filter((pid) => !supervisor.alone.has(pid))));
    return figures(history);
  },
};

/** Enqueues the poison tasks at random places among the others. */
async function enqueueAll({ harness, amount, random }: Trial): Promise<void> {
  const all = Array.from({ length: amount * (others + 1) }, (_, n) => {
    const { queueName } = queues[n % queues.length] as (typeof queues)[number];
    const ms = Math.floor(40 * random());
    const death = deaths[Math.floor(n / 2) % deaths.length] as Death;
    return { place: random(), n, queueName, ms, death, plan: plans[n % plans.length] as Plan };
  });
  const [bad, good] = [all.slice(0, amount), all.slice(amount)];
  const mixed = [...bad, ...good].sort((a, b) => a.place - b.place);
  for (const { n, queueName, ms, death, plan } of mixed) {
    const { queue, eventLog } = harness;
    const task =
      n < amount
        ? await queue.enqueueTask(venomous.with({ queueName, maxRetries }), ms, death)
        : await queue.enqueueTask(chore.with({ queueName }), ms, plan);
    write(eventLog.path, "acknowledged", { task });
  }
}

class Supervisor {
  /** The processes of the workers that run one task at a time. */
  readonly alone = new Set<number>();
  readonly #harness: Harness;
  readonly #children = new Set<Child>();
  /** Restarts left: a limit, so that the supervisor does not restart workers for ever. */
  #left: number;

  constructor(harness: Harness, restarts: number) {
    this.#harness = harness;
    this.#left = restarts;
    for (const options of queues) for (let n = 0; n < options.workers; n += 1) this.#startOne(options);
  }

  #startOne(options: (typeof queues)[number]): void {
    const { queueName, concurrency } = options;
    const child = this.#harness.start("worker.ts", [{ queueName, concurrency }]);
    this.#children.add(child);
    if (concurrency === 1) this.alone.add(child.pid);
    void child.ended.then(() => {
      this.#children.delete(child);
      this.#left -= 1;
      if (this.#left >= 0) this.#startOne(options);
    });
  }

  async stop(): Promise<void> {
    this.#left = 0;
    await stopAll([...this.#children]);
  }
}

function starts({ entries, tasks }: History, func: string) {
  const ids = new Set(tasks.filter((task) => task.func === func).map(({ id }) => id));
  return entries.filter(({ what, task = 0 }) => what === "start" && ids.has(task));
}

function demandFailed(history: History, amount: number): void {
  const bad = history.tasks.filter(({ func }) => func === "venomous");
  equal(bad.length, amount);
  const began = starts(history, "venomous");
  for (const task of bad) {
    const often = began.filter((start) => start.task === task.id).length;
    const outcomes = history.attempts.filter((attempt) => attempt.task === task.id);
    const reason = (JSON.parse(task.error ?? "{}") as { name?: string }).name;
    deepStrictEqual(
      { id: task.id, status: task.status, reason, often, crashed: outcomes.map(({ outcome }) => outcome) },
      {
        id: task.id,
        status: "failed",
        reason: "WorkerCrashed",
        often: maxRetries + 1,
        crashed: Array(maxRetries + 1).fill("crashed"),
      },
    );
  }
}

/** The other tasks complete, and are charged only for a crash of a process that ran them beside a poison task. */
function demandUnaffected({ tasks, moves }: History, shared: ReadonlySet<number>): void {
  const good = tasks.filter(({ func }) => func === "chore");
  const unfinished = good.filter(({ status }) => status !== "completed");
  deepStrictEqual(unfinished, [], "the other tasks complete");
  const ids = new Set(good.map(({ id }) => id));
  const wronged = moves.filter((move) => isCrash(move) && ids.has(move.task) && !shared.has(pidOf(move)));
  deepStrictEqual(wronged, [], "a crash charges only tasks that ran beside a poison task");
}

function figures(history: History): Figure[] {
  const count = (func: string) => history.tasks.filter((task) => task.func === func).length;
  const good = new Set(history.tasks.filter(({ func }) => func === "chore").map(({ id }) => id));
  const beside = history.moves.filter((move) => isCrash(move) && good.has(move.task)).length;
  return [
    { name: "poison tasks", value: count("venomous") },
    { name: "starts of poison tasks", value: starts(history, "venomous").length },
    { name: "killed workers", value: history.entries.filter(({ what }) => what === "died").length },
    { name: "other tasks", value: count("chore") },
    { name: "other tasks charged for a crash", value: beside },
  ];
}
