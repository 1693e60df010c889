/**
 * Measures after a warm-up: the same run first at a small size, in a separate folder, so that compiled code is
 * measured.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Figures, Settings, Synchronous, Variant } from "./benchmark.ts";

export interface Run<V extends Variant> {
  /** New and empty. */
  readonly directory: string;
  readonly synchronous: Synchronous;
  readonly variant: V;
  readonly tasks: number;
}

/** Runs the measured work once; returns its milliseconds. */
export type Timed<V extends Variant> = (run: Run<V>) => Promise<number>;

/** The tasks of the warm-up: V8 has compiled the hot code by then. */
const enough = 5_000;

/** Tasks per second. */
export async function perSecond<V extends Variant>(
  { directory, synchronous, variant }: Settings<V>,
  tasks: number,
  timed: Timed<V>,
): Promise<Figures> {
  const run = async (name: string, how: Pick<Run<V>, "tasks" | "synchronous">) => {
    const folder = join(directory, name);
    mkdirSync(folder);
    return await timed({ directory: folder, variant, ...how });
  };
  // The same code, without an fsync to wait for.
  await run("warm-up", { tasks: Math.min(tasks, enough), synchronous: "normal" });
  const milliseconds = await run("measured", { tasks, synchronous });
  return { "tasks/s": (tasks / milliseconds) * 1_000 };
}
