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

export type StepCall = (name: string, fn: () => Answer) => Promise<Answer>;

/** So many steps, one after the other. The result is the sum of the numbers in their values. */
async function stepThrough(steps: number, step: StepCall): Promise<number> {
  let sum = 0;
  for (let n = 0; n < steps; n += 1) sum += (await step(`step-${n}`, () => ({ n, ok: true }))).n;
  return sum;
}

/** Real time, and the CPU time of this process. */
export interface Spent {
  readonly milliseconds: number;
  readonly microsecondsOfCpu: number;
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

/**
 * Measures from the first line of the first function. So the start of a worker is not measured, nor how long it takes to find
 * the first task: that is what polling intervals are about.
 */
export class Stopwatch {
  readonly #returned = new Countdown();
  #began: { at: number; cpu: NodeJS.CpuUsage } | undefined;

  /** Resolves when so many functions have returned. */
  times(functions: number): Promise<void> {
    this.#began = undefined;
    return this.#returned.times(functions);
  }

  /** The function of a task, as each contender runs it. */
  async measured(steps: number, step: StepCall): Promise<number> {
    this.#began ??= { at: performance.now(), cpu: process.cpuUsage() };
    const sum = await stepThrough(steps, step);
    this.#returned.hit();
    return sum;
  }

  /** Called when all tasks are recorded as completed. */
  spent(): Spent {
    if (!this.#began) throw new Error("no function has begun");
    const { user, system } = process.cpuUsage(this.#began.cpu);
    return { milliseconds: performance.now() - this.#began.at, microsecondsOfCpu: user + system };
  }
}

/** A contender with an open database. */
export interface StepRunner extends AsyncDisposable {
  /** Runs the variant's tasks once, by a worker that runs already. All of them are recorded as completed afterwards. */
  run(variant: StepVariant): Promise<{ spent: Spent; results: readonly unknown[] }>;
  /** How many steps are stored, of all runs. */
  stored(): Promise<number>;
}

/** V8 has compiled the hot code after so many runs. */
const warmUps = 3;
/** One run is short on SQLite, so the time of several is taken. */
const measured = 5;
/** Milliseconds after which no further run begins: on a server a single one takes seconds. */
const enough = 4_000;

async function repeated(most: number, run: () => Promise<Spent>): Promise<Spent[]> {
  const spent: Spent[] = [];
  while (spent.length < most && sumOf(spent, "milliseconds") < enough) spent.push(await run());
  return spent;
}

const sumOf = (spent: readonly Spent[], what: keyof Spent): number =>
  spent.reduce((sum, each) => sum + each[what], 0);

/** Steps a second, and the CPU of this process for each. @throws Error when a result is wrong, or a step is not stored */
export async function measureSteps(
  settings: Settings<StepVariant>,
  open: () => Promise<StepRunner>,
): Promise<Figures> {
  const { quick, variant } = settings;
  await using runner = await open();
  const run = async (): Promise<Spent> => {
    const { spent, results } = await runner.run(variant);
    checkResults(results, variant);
    return spent;
  };
  const before = await repeated(quick ? 1 : warmUps, run);
  const spent = await repeated(quick ? 1 : measured, run);
  const ofEach = variant.tasks * variant.steps;
  const [stored, wanted] = [await runner.stored(), (before.length + spent.length) * ofEach];
  if (stored !== wanted) throw new Error(`${stored} of ${wanted} steps are stored`);
  const steps = spent.length * ofEach;
  return {
    "steps/s": (steps / sumOf(spent, "milliseconds")) * 1_000,
    CPU: sumOf(spent, "microsecondsOfCpu") / steps,
  };
}

function checkResults(results: readonly unknown[], { tasks, steps }: StepVariant): void {
  const right = results.filter((result) => result === (steps * (steps - 1)) / 2).length;
  if (right !== tasks) throw new Error(`${right} of ${tasks} tasks have the right result`);
}
