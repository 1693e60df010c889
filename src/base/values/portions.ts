/** What a portion holds at most: so many items, and so much of their sizes. */
interface Most {
  /** @default any number */
  count?: number;
  size: number;
}

/** The items in their order, in portions. An item that is larger than a portion may be is one by itself. */
export function* portionsOf<T>(
  items: readonly T[],
  sizeOf: (item: T) => number,
  { count = Number.POSITIVE_INFINITY, size: most }: Most,
): Generator<T[]> {
  let [portion, sum]: [T[], number] = [[], 0];
  for (const item of items) {
    const size = sizeOf(item);
    if (portion.length > 0 && (portion.length >= count || sum + size > most)) {
      yield portion;
      [portion, sum] = [[], 0];
    }
    portion.push(item);
    sum += size;
  }
  if (portion.length > 0) yield portion;
}
