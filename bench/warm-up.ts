/** Measuring after a warm-up: the same run first at a small size, in a folder of its own, so that what is measured is compiled code. */
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

/** Does what is measured, once; gives the milliseconds that it took. */
export type Timed<V extends Variant> = (run: Run<V>) => Promise<number>;

/** Tasks that warm up: V8 has compiled what is hot by then. */
const enough = 5_000;

/** Tasks a second. */
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
  // The same code, and no fsync to wait for.
  await run("warm-up", { tasks: Math.min(tasks, enough), synchronous: "normal" });
  const milliseconds = await run("measured", { tasks, synchronous });
  return { "tasks/s": (tasks / milliseconds) * 1_000 };
}
