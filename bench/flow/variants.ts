/** What is limited, and how a contender is measured under it. */
import type { Figures, Settings, Variant } from "../benchmark.ts";

export interface FlowVariant extends Variant {
  /** How many tasks may run at a time in the worker. */
  readonly slots: number;
  readonly tasks: number;
  /** Starts a second. */
  readonly rate?: number;
  /** Tasks that may run at once: over all machines, or of each group. */
  readonly concurrency?: number;
  /** The tasks are in so many groups, by turns. */
  readonly groups?: number;
}

export const flowVariants: readonly FlowVariant[] = [
  { name: "a rate that is never reached", slots: 10, tasks: 20_000, rate: 1_000_000, quick: true },
  { name: "500 starts a second", slots: 10, tasks: 5_000, rate: 500, quick: true },
  { name: "a limit that is never reached", slots: 10, tasks: 20_000, concurrency: 1_000, quick: true },
  { name: "5 at once", slots: 10, tasks: 20_000, concurrency: 5, quick: true },
  {
    name: "100 groups, 1 of each at once",
    slots: 100,
    tasks: 20_000,
    concurrency: 1,
    groups: 100,
    quick: true,
  },
];

export const groupOf = (n: number, groups: number): string => `group-${n % groups}`;

/** The starts that may come at once: those of a tenth of a second. */
export const burstOf = (rate: number): number => Math.max(1, rate / 10);

/** One filled queue. `drain` resolves when all of its tasks have run and their ends are written. */
export interface Filled extends AsyncDisposable {
  drain(): Promise<void>;
  /** How many tasks are completed. */
  completed(): Promise<number>;
}

export interface Filling {
  readonly variant: FlowVariant;
  readonly tasks: number;
  readonly settings: Settings<FlowVariant>;
  /** A new one for each filling. */
  readonly name: string;
}

/** Tasks that are run before the measured ones. */
const warmUp = 1_000;

/** Tasks a second, and the CPU of this process for each. @throws Error when not all tasks are completed */
export async function measureDrain(
  settings: Settings<FlowVariant>,
  fill: (filling: Filling) => Promise<Filled>,
): Promise<Figures> {
  const { variant } = settings;
  const tasks = settings.tasks ?? (settings.quick ? Math.min(2_000, variant.tasks) : variant.tasks);
  const run = async (name: string, count: number): Promise<Figures> => {
    await using filled = await fill({ variant, tasks: count, settings, name });
    const [start, used] = [performance.now(), process.cpuUsage()];
    await filled.drain();
    const [milliseconds, { user, system }] = [performance.now() - start, process.cpuUsage(used)];
    const completed = await filled.completed();
    if (completed !== count) throw new Error(`${completed} of ${count} tasks are completed`);
    return { "tasks/s": (count / milliseconds) * 1_000, CPU: (user + system) / count };
  };
  await run("warm-up", warmUp);
  return await run("measured", tasks);
}
