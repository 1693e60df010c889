/** Changes of many rows of one store, which go on around those that the database refuses to change. */
import { aroundRefused, isRefusal } from "../../base/runtime/around-refused.ts";
import { performance } from "../../base/runtime/timers.ts";
import type { OnKept } from "../../store.ts";

/** The batches of one store. While the database refuses nothing, each is one transaction. */
export class Batches {
  readonly #isFrozen: () => Promise<boolean>;

  /** @param isFrozen whether a move refuses all changes: that is an error for the caller, and no row is passed over */
  constructor(isFrozen: () => Promise<boolean>) {
    this.#isFrozen = isFrozen;
  }

  /** Undefined: the database refused some of the rows, so nothing was done. */
  async all<A>(act: () => Promise<A>): Promise<A | undefined> {
    try {
      return await act();
    } catch (error) {
      if (await this.#isRefusal(error)) return undefined;
      throw error;
    }
  }

  /** The answers for the tasks that were changed. In the order of `ids`, until `most` are kept: the rest is left for later. */
  async each<A>(
    ids: readonly number[],
    act: (some: readonly number[]) => Promise<readonly A[]>,
    onKept: OnKept = () => undefined,
    most = Number.POSITIVE_INFINITY,
  ): Promise<A[]> {
    let kept = 0;
    return await aroundRefused(ids, {
      act,
      isRefusal: (error) => this.#isRefusal(error),
      onRefused: (id, error) => {
        kept += 1;
        onKept({ id, error: error as Error });
        return [];
      },
      isEnough: () => kept >= most,
    });
  }

  async #isRefusal(error: unknown): Promise<boolean> {
    return isRefusal(error) && !(await this.#isFrozen());
  }
}

/** Milliseconds for which a task is passed over whose change the database refuses. */
const passedOverFor = 60_000;

/** The tasks that maintenance of one store passes over, so that it comes to those behind them. */
export class PassedOver {
  readonly #since = new Map<number, number>();

  /** Notes a task, and tells of it. */
  readonly noting =
    (onKept: OnKept): OnKept =>
    (kept) => {
      this.#since.set(kept.id, performance.now());
      onKept(kept);
    };

  /** The ids as JSON; undefined: there are none. */
  ids(): string | undefined {
    if (this.#since.size === 0) return undefined;
    const begin = performance.now() - passedOverFor;
    for (const [id, since] of this.#since) if (since < begin) this.#since.delete(id);
    return this.#since.size === 0 ? undefined : JSON.stringify([...this.#since.keys()]);
  }
}
