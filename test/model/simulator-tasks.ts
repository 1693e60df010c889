/** The tasks of a simulation. A plan, drawn in advance, says what the handler does in each attempt. */
import { CancelTask, currentTask, type Queue, SnoozeTask, task } from "../../src/index.ts";
import type { Clock } from "./simulator-clock.ts";
import type { Judge } from "./simulator-judge.ts";

/** What a handler does in one attempt. */
export type Act =
  | "return"
  | "throw"
  | "snooze"
  | "cancel"
  | "hang until the signal"
  | "take longer than the lease"
  | "complete within"
  | "enqueue"
  | "note progress"
  | "ignore the signal";

export interface Plan {
  /** One act for each attempt; the last one is for all that follow. */
  acts: readonly Act[];
  /** Milliseconds that an attempt takes. */
  takes: number;
}

/** The context that a worker passes to its handlers. */
export interface Place {
  clock: Clock;
  judge: Judge;
  queue: Queue;
  plans: Plan[];
  /** How often each task was started. */
  starts: Map<number, number>;
}

/** Longer than any lease in the simulation. */
const long = 2_500;

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Milliseconds from a failure to the next attempt. */
export const backoff = 50;

/** The argument is the number of its plan. */
export const job = task("simulated job", runJob, { backoff: () => backoff });

async function runJob(n: number): Promise<string> {
  const here = currentTask<Place>();
  const { judge, starts, plans, clock } = here.context;
  const attempt = starts.get(here.id) ?? 0;
  starts.set(here.id, attempt + 1);
  const { acts, takes } = plans[n] as Plan;
  const act = acts[Math.min(attempt, acts.length - 1)] as Act;
  judge.started(here, act === "hang until the signal" && takes === 0);
  clock.note(() => `    ${here.id}:${here.generationId} begins: ${act}`);
  if (takes > 0) await sleep(takes);
  try {
    await perform(act);
    judge.ended(here, "returned");
    return "done";
  } catch (error) {
    if (act === "hang until the signal") judge.aborted.add(here.id);
    const how = error instanceof SnoozeTask ? "snoozed" : error instanceof CancelTask ? "cancelled" : "threw";
    judge.ended(here, how);
    throw error;
  }
}

async function perform(act: Act): Promise<void> {
  const here = currentTask<Place>();
  const { queue, judge, plans } = here.context;
  switch (act) {
    case "return":
      return;
    case "throw":
      throw new Error("as planned");
    case "snooze":
      throw new SnoozeTask(30);
    case "cancel":
      throw new CancelTask("as planned");
    case "hang until the signal":
      return await aborted(here.signal);
    case "take longer than the lease":
      return await workFor(long);
    case "ignore the signal":
      return await workFor(4 * long);
    case "complete within":
      // Counts from the commit on, whether or not its answer arrives.
      judge.ended(here, "returned");
      await queue.transaction((tx) => here.within(tx).complete("done within"));
      return;
    case "enqueue": {
      const id = await queue.enqueueTask(job, plans.push({ acts: ["return"], takes: 0 }) - 1);
      judge.acknowledged.add(id);
      return;
    }
    case "note progress":
      here.progress(0.5, "half");
      await sleep(150);
      here.progress(1);
      return;
  }
}

/** Notes progress all the time. */
async function workFor(ms: number): Promise<void> {
  const here = currentTask<Place>();
  for (let done = 0; done < ms; done += 50) {
    here.progress(done / ms);
    await sleep(50);
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

const first: readonly Act[] = [
  "return",
  "return",
  "return",
  "throw",
  "throw",
  "snooze",
  "take longer than the lease",
  "complete within",
  "enqueue",
  "note progress",
  "hang until the signal",
];
const last: readonly Act[] = ["return", "return", "return", "complete within", "throw", "cancel"];

/** A plan, and the call that enqueues its task. */
export interface DrawnPlan {
  n: number;
  call: typeof job;
  text: string;
}

/** The caller's own plan, for a task without options. */
export function planned(plans: Plan[], plan: Plan): DrawnPlan {
  return { n: plans.push(plan) - 1, call: job, text: plan.acts.join(", ") };
}

export function drawnPlan(clock: Clock, plans: Plan[]): DrawnPlan {
  const acts = Array.from({ length: Math.floor(clock.between(0, 3)) }, () => clock.oneOf(first));
  acts.push(clock.oneOf(last));
  const takes = clock.chance(0.5) ? 0 : clock.between(0, clock.chance(0.2) ? 800 : 60);
  const n = plans.push({ acts, takes }) - 1;
  const hangs = acts.includes("hang until the signal");
  const options = {
    priority: clock.oneOf([5, 5, 5, 1, 9]),
    maxRetries: clock.oneOf([0, 1, 3, 3]),
    queueName: clock.chance(0.2) ? "aside" : "default",
    ...(clock.chance(0.3) ? { delay: Math.floor(clock.between(0, 1_500)) } : {}),
    ...(clock.chance(0.15) ? { uniqueKey: clock.oneOf(["a", "b"]) } : {}),
    ...(hangs ? { timeout: Math.floor(clock.between(50, 900)) } : {}),
  };
  return { n, call: job.with(options), text: `plan ${n} (${acts.join(", ")})` };
}
