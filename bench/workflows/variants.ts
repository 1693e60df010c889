/** Tasks of sequential steps, and how a contender is measured with them. */
import type { Figures, Settings, Variant } from "../benchmark.ts";

export interface StepVariant extends Variant {
  readonly tasks: number;
  /** Of each task. OpenWorkflow allows 1,000. */
  readonly steps: number;
  /** How many of the tasks run at a time. */
  readonly concurrency: number;
}

export const stepVariants: readonly StepVariant[] = [
  { name: "1 task of 1,000 steps", tasks: 1, steps: 1_000, concurrency: 1, quick: true },
  { name: "100 tasks of 10 steps, 10 at a time", tasks: 100, steps: 10, concurrency: 10, quick: true },
];

/** What each step returns. */
export interface Answer {
  n: number;
  ok: boolean;
}

/** What a task has to do: so many steps, one after the other. Its result is the sum of the numbers in their values. */
export async function stepThrough(
  steps: number,
  step: (name: string, fn: () => Answer) => Promise<Answer>,
): Promise<number> {
  let sum = 0;
  for (let n = 0; n < steps; n += 1) sum += (await step(`step-${n}`, () => ({ n, ok: true }))).n;
  return sum;
}

/** Real time, and the CPU time of this process. */
export interface Spent {
  readonly milliseconds: number;
  readonly microsecondsOfCpu: number;
}

export async function timed(work: () => Promise<unknown>): Promise<Spent> {
  const [start, used] = [performance.now(), process.cpuUsage()];
  await work();
  const [milliseconds, { user, system }] = [performance.now() - start, process.cpuUsage(used)];
  return { milliseconds, microsecondsOfCpu: user + system };
}

/** `times(n)` resolves when `hit` has been called n times. */
export class Countdown {
  #left = 0;
  #done: () => void = () => undefined;

  times(count: number): Promise<void> {
    this.#left = count;
    return new Promise((resolve) => {
      this.#done = resolve;
    });
  }

  readonly hit = (): void => {
    this.#left -= 1;
    if (this.#left === 0) this.#done();
  };
}

/** A contender with an open database. */
export interface StepRunner extends AsyncDisposable {
  /** Runs the variant's tasks once, from the start of a worker until all of them are recorded as completed. */
  run(variant: StepVariant): Promise<{ spent: Spent; results: readonly unknown[] }>;
  /** How many steps are stored, of all runs. */
  stored(): Promise<number>;
}

/** V8 has compiled the hot code after so many runs. */
const warmUps = 3;
/** One run is short, so the time of several is taken. */
const measured = 5;

/** Steps a second, and the CPU of this process for each. @throws Error when a result is wrong, or a step is not stored */
export async function measureSteps(
  settings: Settings<StepVariant>,
  open: () => Promise<StepRunner>,
): Promise<Figures> {
  const { quick, variant } = settings;
  await using runner = await open();
  const [before, count] = quick ? [1, 1] : [warmUps, measured];
  const ofEach = variant.tasks * variant.steps;
  const spent: Spent[] = [];
  for (let round = 0; round < before + count; round += 1) {
    const run = await runner.run(variant);
    checkResults(run.results, variant);
    if (round >= before) spent.push(run.spent);
  }
  const stored = await runner.stored();
  const wanted = (before + count) * ofEach;
  if (stored !== wanted) throw new Error(`${stored} of ${wanted} steps are stored`);
  const total = (of: (each: Spent) => number) => spent.reduce((sum, each) => sum + of(each), 0);
  const steps = count * ofEach;
  return {
    "steps/s": (steps / total(({ milliseconds }) => milliseconds)) * 1_000,
    CPU: total(({ microsecondsOfCpu }) => microsecondsOfCpu) / steps,
  };
}

function checkResults(results: readonly unknown[], { tasks, steps }: StepVariant): void {
  const right = results.filter((result) => result === (steps * (steps - 1)) / 2).length;
  if (right !== tasks) throw new Error(`${right} of ${tasks} tasks have the right result`);
}
