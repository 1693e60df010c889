/** A duration that somebody wrote, in the largest unit that divides it: `5 minutes`, `90 seconds`, and `day` for one day. */
export function evenSpan(ms: number): string {
  for (const [unit, length] of [
    ["day", 86_400_000],
    ["hour", 3_600_000],
    ["minute", 60_000],
    ["second", 1_000],
  ] as const)
    if (ms % length === 0) return ms === length ? unit : `${ms / length} ${unit}s`;
  return ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`;
}
