/** A duration for people: `12 ms`, `3.4 s`, `5 min`. */
export function roughSpan(ms: number): string {
  if (Number.isNaN(ms)) return "?";
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  return ms < 172_800_000 ? `${Math.floor(ms / 3_600_000)} h` : `${Math.floor(ms / 86_400_000)} d`;
}

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

/** A duration as options take it, exactly, in the largest unit that divides it: `1s`, `90m`, `1500ms`. */
export function typedDuration(ms: number): string {
  for (const [unit, length] of [
    ["d", 86_400_000],
    ["h", 3_600_000],
    ["m", 60_000],
    ["s", 1_000],
  ] as const)
    if (ms % length === 0) return `${ms / length}${unit}`;
  return `${ms}ms`;
}
