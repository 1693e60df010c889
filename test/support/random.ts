/** Repeatable random numbers: the same seed gives the same numbers. */

/** Numbers from 0 up to 1, the same for the same seed: mulberry32, by Tommy Ettinger, in the public domain. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * The seed in `DBQ_SEED`, or always the same one: what a test draws does not change from run to run. `npm run explore` sets
 * a new one. It is printed, so that a failure can be repeated.
 */
export function seedOf(name: string): number {
  const seed = Number(process.env.DBQ_SEED ?? 1);
  if (!Number.isInteger(seed))
    throw new TypeError(`DBQ_SEED must be a whole number, not ${process.env.DBQ_SEED}`);
  console.log(`${name}: DBQ_SEED=${seed} makes the same choices again`);
  return seed;
}
