/** A contender that measures tasks per second. Its code is loaded only in the measuring process. */
import type { Contender, Figures, Settings, Variant } from "./benchmark.ts";
import { perSecond, type Timed } from "./warm-up.ts";

/** The number of tasks to measure, unless the user gives one. */
export type Sizes<V extends Variant> = (settings: Settings<V>) => number;

export function contender<V extends Variant>(
  name: string,
  sizes: Sizes<V>,
  load: () => Promise<(variant: V) => Timed<V>>,
  more: Pick<Contender<V>, "missing" | "fits"> = {},
): Contender<V> {
  const measure = async (settings: Settings<V>): Promise<Figures> => {
    const makes = await load();
    return await perSecond(settings, settings.tasks ?? sizes(settings), makes(settings.variant));
  };
  return { name, measure, ...more };
}

/**
 * For contenders that commit each task by itself: with `synchronous = full` each commit waits for an fsync, and a few
 * thousand tasks are enough.
 */
export function fewWhenFull<V extends Variant>(sizes: Sizes<V>, few: number): Sizes<V> {
  return (settings) => (settings.synchronous === "full" ? Math.min(sizes(settings), few) : sizes(settings));
}
