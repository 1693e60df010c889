const base = 50;
const most = 5_000;

/** Milliseconds to wait after this many failures in a row: 50 doubled for each, at most 5 s, less up to half at random. */
export function failureBackoff(failures: number): number {
  // The cap on the exponent keeps the power finite.
  const delay = base * 2 ** Math.min(failures, 7);
  return Math.min(delay, most) * (0.5 + Math.random() / 2);
}
