/** Schedules that are all due at the same moments, and what is measured of them. */
import type { Figures, Settings, Variant } from "../benchmark.ts";
import { sleep } from "../processes/clock.ts";
import { percentile } from "../processes/percentile.ts";

export interface ScheduleVariant extends Variant {
  readonly schedules: number;
  /** Milliseconds between two slots of a schedule. */
  readonly every: 1_000 | 60_000;
  readonly cron: string;
  /** How many slots are measured. */
  readonly slots: number;
}

export const scheduleVariants: readonly ScheduleVariant[] = [
  { name: "100, every second", schedules: 100, every: 1_000, cron: "* * * * * *", slots: 30, quick: true },
  { name: "100, every minute", schedules: 100, every: 60_000, cron: "* * * * *", slots: 2, quick: true },
];

export const slotsOf = ({ variant, quick }: Settings<ScheduleVariant>): number =>
  quick ? Math.min(variant.slots, variant.every === 1_000 ? 5 : 1) : variant.slots;

/** Tasks may run at the same time, so that none waits for another. */
export const concurrency = 100;

/** Milliseconds after the last slot in which its tasks may still start. */
const patience = 10_000;

/** The handler calls it at each start, with the slot that the task is for. */
export type Starts = (slot: number) => void;

/** `begin`: writes the schedules, and starts what fires them and runs their tasks. All times are the host's. */
export async function measureSchedules(
  settings: Settings<ScheduleVariant>,
  begin: (starts: Starts) => Promise<AsyncDisposable>,
): Promise<Figures> {
  const { schedules, every } = settings.variant;
  const delays = new Map<number, number[]>();
  await using _ = await begin((slot) => {
    delays.set(slot, [...(delays.get(slot) ?? []), Date.now() - slot]);
  });
  // Two slots of a second's schedules do not count: code is compiled then.
  const first = Math.ceil((Date.now() + (every === 1_000 ? 2_000 : 1_000)) / every) * every;
  const last = first + (slotsOf(settings) - 1) * every;
  const measured = () =>
    [...delays].filter(([slot]) => slot >= first && slot <= last).flatMap(([, each]) => each);
  await sleep(first - 500 - Date.now());
  const [used, from] = [process.cpuUsage(), Date.now()];
  await sleep(last + 1_000 - Date.now());
  const { user, system } = process.cpuUsage(used);
  const elapsed = Date.now() - from;
  const wanted = schedules * slotsOf(settings);
  while (measured().length < wanted && Date.now() < last + patience) await sleep(50);
  const all = measured();
  return {
    p50: percentile(all, 0.5),
    p99: percentile(all, 0.99),
    fired: (100 * all.length) / wanted,
    CPU: (100 * (user + system)) / 1_000 / elapsed,
  };
}
