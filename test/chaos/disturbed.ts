/** A load on a server while its connections are cut off again and again: all goes on by itself, and nothing is lost. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Harness } from "../fixtures/harness.ts";
import type { Plan } from "../fixtures/tasks.ts";
import { demand } from "./checker.ts";
import { demandNoConflicts, failsByLoss, reportsLoss } from "./conflicts.ts";
import { Listener } from "./listener.ts";
import { Load } from "./load.ts";
import { resumeFigures, untilResumed } from "./resume.ts";
import type { Figure, Trial } from "./scenario.ts";

/** What the tasks do whose worker loses its connections. */
export const plans: readonly Plan[] = ["return", "within", "throwOnce", "return", "within", "snoozeOnce"];

interface Disturbance {
  /** Such as `disconnect`, for the name of a figure. */
  what: string;
  /** Milliseconds between two of them, on average. */
  pause: number;
  /** Disturbs once. `round` counts from 1. @returns since when all can go on */
  disturb: (round: number) => Promise<number>;
}

/** Disturbs a load as many times as the trial says, and demands that it goes on each time. @returns how soon it did */
export async function disturbed(
  harness: Harness,
  { amount, random, progress, kind }: Trial,
  { what, pause, disturb }: Disturbance,
): Promise<Figure[]> {
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
  for (let done = 1; done <= amount; done += 1) {
    await sleep(pause * (0.5 + random()));
    moments.push(await disturb(done));
    progress(done);
  }
  await sleep(pause);
  for (const moment of moments) await untilResumed(harness, load, moment);
  await listener?.stop();
  const history = await load.drain();
  demand(history, { allowed: reportsLoss, mayFail: failsByLoss, unanswered: true });
  demandNoConflicts(history);
  return [
    ...resumeFigures(history, load, moments, { p99: 1_000, max: 2_000 }),
    ...(listener?.figures(`from ${what} to notification`, moments) ?? []),
  ];
}
