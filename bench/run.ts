/** Runs the planned setups one by one, and collects the results. */
import type { Figures } from "./benchmark.ts";
import { type ChildOptions, measureInChild } from "./child.ts";
import { type Measurement, measurements, type Setup, type Wishes } from "./plan.ts";
import { type Line, linesOf } from "./verdict.ts";

/** Receives the progress. */
export interface Watcher {
  measuring(measurement: Measurement): void;
  measured(measurement: Measurement): void;
}

/** A contender that could not be measured: not available (no Redis), or failed. */
export interface Absent {
  readonly contender: string;
  readonly reason: string;
}

export interface Result {
  readonly setup: Setup;
  readonly lines: readonly Line[];
  readonly missing: readonly Absent[];
  readonly failed: readonly Absent[];
}

/** After a failure of a contender, its further rounds are left out. */
export async function runSetup(
  setup: Setup,
  wishes: Wishes,
  options: ChildOptions,
  watcher: Watcher,
): Promise<Result> {
  const { missing, present } = await whoIsThere(setup);
  const rounds = new Map<string, Figures[]>();
  const failed: Absent[] = [];
  for (const measurement of measurements(present)) {
    options.signal.throwIfAborted();
    const { name } = measurement.contender;
    if (!failed.some(({ contender }) => contender === name)) {
      watcher.measuring(measurement);
      const figures = await tried(measurement, wishes, options, failed);
      if (figures) rounds.set(name, [...(rounds.get(name) ?? []), figures]);
    }
    watcher.measured(measurement);
  }
  return { setup, lines: linesOf(setup, rounds), missing, failed };
}

async function whoIsThere(setup: Setup): Promise<{ missing: Absent[]; present: Setup }> {
  const missing: Absent[] = [];
  for (const { name, missing: why } of setup.contenders) {
    const reason = await why?.();
    if (reason !== undefined) missing.push({ contender: name, reason });
  }
  const contenders = setup.contenders.filter(({ name }) =>
    missing.every(({ contender }) => contender !== name),
  );
  return { missing, present: { ...setup, contenders } };
}

async function tried(
  { setup, contender }: Measurement,
  { tasks, minutes, backlog, quick }: Wishes,
  options: ChildOptions,
  failed: Absent[],
): Promise<Figures | undefined> {
  const { benchmark, variant, synchronous } = setup;
  const settings = { synchronous, tasks, minutes, backlog, quick, variant };
  try {
    return await measureInChild({ benchmark, contender: contender.name, settings }, options);
  } catch (error) {
    options.signal.throwIfAborted();
    failed.push({ contender: contender.name, reason: (error as Error).message });
    return undefined;
  }
}
