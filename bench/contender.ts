/** A contender whose measurement is tasks a second, loaded only in the process that measures it. */
import type { Contender, Figures, Settings, Variant } from "./benchmark.ts";
import { perSecond, type Timed } from "./warm-up.ts";

/** How many tasks are measured, where the user does not say. */
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

/** For whoever commits each task by itself: with `synchronous = full` each takes an fsync, and a few thousand tell the rate. */
export function fewWhenFull<V extends Variant>(sizes: Sizes<V>, few: number): Sizes<V> {
  return (settings) => (settings.synchronous === "full" ? Math.min(sizes(settings), few) : sizes(settings));
}
