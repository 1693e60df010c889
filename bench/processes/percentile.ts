/** The value that the fraction `p` of the values does not exceed (the nearest rank). */
export function percentile(values: Iterable<number>, p: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] ?? Number.NaN;
}

export const median = (values: Iterable<number>): number => percentile(values, 0.5);
