/** The items of each key, in their order. Node 20 has no `Map.groupBy`. */
export function groupBy<K, T>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

export const mapById = <T extends { id: number }>(items: readonly T[]): Map<number, T> =>
  new Map(items.map((one) => [one.id, one]));
