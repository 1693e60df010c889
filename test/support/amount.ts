/** How much of a test is done: it depends on the tier of tests that runs (`vitest.config.ts`). */
import { inSample, sampleSize } from "../../scripts/sample.mjs";

const tier = process.env.DBQ_TIER;

/** `npm run proof` runs: what takes too long for `npm run test:full` is done too. */
export const isProof = tier === "proof";

/**
 * The first number in `npm test`, the second in `npm run test:full` and where a file is run by its name, the third in
 * `npm run proof`: of that a part, where CI takes a sample.
 */
export function amount(quick: number, full: number, proof: number): number {
  if (isProof) return Math.max(full, Math.ceil(proof / sampleSize));
  return tier === "quick" ? quick : full;
}

/** Of what is done only in `npm run proof`: all, or CI's sample. */
export function proofOf<T>(items: readonly T[], keyOf: (item: T) => string): T[] {
  return isProof ? items.filter((item) => inSample(keyOf(item))) : [];
}
