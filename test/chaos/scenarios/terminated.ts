/**
 * Invariant: when all connections to a server are ended at once, again and again, nothing is lost or done twice and all
 * go on by themselves.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Plan } from "../../fixtures/tasks.ts";
import { backendOf } from "../backends/backend.ts";
import { demand } from "../checker.ts";
import { demandNoConflicts, failsByLoss, reportsLoss } from "../conflicts.ts";
import { Listener } from "../listener.ts";
import { Load } from "../load.ts";
import { resumeFigures, untilResumed } from "../resume.ts";
import type { Scenario } from "../scenario.ts";

/** Milliseconds between two terminations. */
const pause = 2_000;

export const plans: readonly Plan[] = ["return", "within", "throwOnce", "return", "within", "snoozeOnce"];

export const terminated: Scenario = {
  name: "terminated",
  about:
    "The server ends all connections every two seconds: nothing is lost or done twice, and all processes go on by themselves.",
  unit: "rounds",
  amounts: { test: 1, sample: 5, chaos: 10 },
  only: { kinds: ["postgres", "mysql"], why: "a file has no connections to end" },
  async run({ harness, amount, random, progress }) {
    const { kind, terminate } = backendOf(harness.database);
    const worker = { concurrency: 5 };
    const load = await Load.start(harness, {
      workers: 4,
      enqueuers: 2,
      worker,
      enqueuing: { plans, pause: 150 },
    });
    const listener = kind === "postgres" ? await Listener.start(harness) : undefined;
    if (listener) load.workers.push(listener.worker);
    const moments: number[] = [];
    let connections = 0;
    for (let done = 1; done <= amount; done += 1) {
      await sleep(pause * (0.5 + random()));
      moments.push(Date.now());
      connections += (await terminate?.(harness.database)) ?? 0;
      progress(done);
    }
    await sleep(pause);
    for (const moment of moments) await untilResumed(harness, load, moment);
    await listener?.stop();
    const history = await load.drain();
    demand(history, { allowed: reportsLoss, mayFail: failsByLoss, unanswered: true });
    demandNoConflicts(history);
    return [
      { name: "rounds", value: amount },
      { name: "ended connections", value: connections },
      ...resumeFigures(history, load, moments, { p99: 1_000, max: 2_000 }),
      ...(listener?.figures("from disconnect to notification", moments) ?? []),
    ];
  },
};
