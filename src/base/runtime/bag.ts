/**
 * A set of things that come and go all the time, such as the tasks that a worker runs. It remembers in each of them where
 * it is.
 *
 * A `Set` or `Map` would keep its elements alive for too long. V8 gives it another table after so many additions and
 * deletions, and the table before points to the next one, for iterators. Once such a table is in the old generation, each
 * collection of the young generation finds all later tables through it, and moves them there with all that was ever in
 * them, until the next full collection: 1.1 KB for each task of a worker.
 */
export class Bag<T extends { place: number }> implements Iterable<T> {
  readonly #all: T[] = [];

  get size(): number {
    return this.#all.length;
  }

  has(one: T): boolean {
    return this.#all[one.place] === one;
  }

  add(one: T): void {
    if (!this.has(one)) one.place = this.#all.push(one) - 1;
  }

  delete(one: T): void {
    if (!this.has(one)) return;
    const last = this.#all.pop() as T;
    if (last === one) return;
    this.#all[one.place] = last;
    last.place = one.place;
  }

  clear(): void {
    this.#all.length = 0;
  }

  /** Goes over a copy, in no order: adding and removing meanwhile does not change what the loop sees. */
  [Symbol.iterator](): Iterator<T> {
    return this.#all.slice().values();
  }
}
