/** How much a test does, by the tier of tests that runs (`vitest.config.ts`). */
const tier = process.env.DBQ_TIER;

/** Whether `npm run proof` runs, which also does what takes too long for `npm run test:full`. */
export const isProof = tier === "proof";

/**
 * The first number in `npm test`; the second in `npm run test:full` and when a file is run by its name; the third in
 * `npm run proof`.
 */
export function amount(quick: number, full: number, proof: number): number {
  if (isProof) return proof;
  return tier === "quick" ? quick : full;
}

/** All items in `npm run proof`; none in other tiers. */
export function proofOf<T>(items: readonly T[]): readonly T[] {
  return isProof ? items : [];
}
