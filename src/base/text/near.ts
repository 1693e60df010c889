/** What a person may have meant by a name that does not exist. */

/** Longer names are compared with none: it takes the product of their lengths. */
const longest = 100;

/**
 * The name that differs from the given one by the fewest characters; undefined: all differ by more than two, or by more than a third of
 * the given one. Upper and lower case do not differ.
 */
export function nearName(given: string, names: readonly string[]): string | undefined {
  const most = Math.min(2, Math.floor(given.length / 3));
  let near: string | undefined;
  let least = most + 1;
  for (const name of names) {
    if (Math.max(given.length, name.length) > longest || Math.abs(given.length - name.length) > most)
      continue;
    const distance = distanceOf(given.toLowerCase(), name.toLowerCase());
    if (distance < least) [near, least] = [name, distance];
  }
  return near;
}

/** How many characters have to be added, left out or changed (Levenshtein). */
function distanceOf(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 0; i < one.length; i += 1) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j += 1) {
      const changed = (row[j] ?? 0) + (one[i] === other[j] ? 0 : 1);
      next.push(Math.min(changed, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
