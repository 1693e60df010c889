/**
 * Keeps workers apart in a Galera cluster, where row locks stop at the node: a worker that loses tasks to others reads more
 * candidates than it may claim, and takes some of them at random.
 */

const widest = 64;

export class Spread {
  /** How many times its limit a claim reads. 1 wherever locks keep workers apart. */
  #width = 1;

  widened(limit: number): number {
    return limit * this.#width;
  }

  /** This number of the tasks, chosen at random. */
  chosen<T>(tasks: readonly T[], count: number): T[] {
    const drawn = tasks.map((task) => ({ task, lot: Math.random() })).sort((a, b) => a.lot - b.lot);
    return drawn.slice(0, count).map(({ task }) => task);
  }

  /** Reads wider after other workers won half of the tasks or more, narrower after this one won all: narrow keeps priorities best. */
  adapt(won: number, wanted: number): void {
    if (wanted > 0 && won <= wanted / 2) this.#width = Math.min(this.#width * 4, widest);
    else if (won === wanted) this.#width = Math.max(1, this.#width / 2);
  }
}
