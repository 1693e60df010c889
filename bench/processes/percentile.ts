/** The percentile by nearest rank: the smallest value that at least the fraction `p` of the values does not exceed. */
export function percentile(values: Iterable<number>, p: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] ?? Number.NaN;
}

export const median = (values: Iterable<number>): number => percentile(values, 0.5);
