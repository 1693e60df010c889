/** Aligned columns, and readable numbers. */

/** Columns in which every cell looks like a number are aligned right. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const all = [headings, ...rows];
  const widths = headings.map((_, i) => Math.max(...all.map((row) => row[i]?.length ?? 0)));
  const right = headings.map((_, i) => rows.every((row) => /^[\d.,]*( [x%])?$/.test(row[i] ?? "")));
  return all.map((row) =>
    widths
      .map((width, i) => (right[i] ? (row[i] ?? "").padStart(width) : (row[i] ?? "").padEnd(width)))
      .join("  ")
      .trimEnd(),
  );
}

/** At least three significant digits, with no more decimals than these need. */
export function number(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}
