/**
 * Selects CI's sample of the long tests: with `DBQ_SAMPLE=3`, a third of them. `DBQ_SEED` decides which third, so the
 * same files have the same sample, and other files another one. Without `DBQ_SAMPLE`: all.
 */
import { createHash } from "node:crypto";

/** One of how many. @throws TypeError unless it is a whole number from 1 */
export const sampleSize = wholeNumber("DBQ_SAMPLE", 1) ?? 1;

/**
 * Whether the sample contains this item; `key` identifies it.
 * @param {string} key
 */
export function inSample(key) {
  if (sampleSize === 1) return true;
  const seed = wholeNumber("DBQ_SEED", 0);
  if (seed === undefined)
    throw new TypeError("DBQ_SAMPLE needs a DBQ_SEED, which decides what the sample contains");
  return createHash("sha256").update(`${seed} ${key}`).digest().readUInt32BE() % sampleSize === 0;
}

/**
 * @param {string} variable
 * @param {number} least
 */
function wholeNumber(variable, least) {
  const text = process.env[variable];
  if (text === undefined) return undefined;
  const value = Number(text);
  if (Number.isInteger(value) && value >= least) return value;
  throw new TypeError(`${variable} must be a whole number from ${least}, not ${text}`);
}
