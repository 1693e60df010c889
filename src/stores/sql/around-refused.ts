/**
 * Runs a batch around the rows that the database refuses for good: a CHECK or a trigger of the app's, a foreign key that refers to one. A
 * batch that fails for one row is repeated in halves, so that the others are done. Each part is a transaction of its own, since a
 * deferred constraint refuses only the commit.
 */
import { performance } from "../../base/runtime/timers.ts";
import { anotherTryAfter } from "../../errors.ts";
import type { OnKept } from "../../store.ts";

/** Whether the database refused these rows, and would refuse them again. */
export const isRefusal = (error: unknown): boolean => anotherTryAfter(error) === "fails";

interface Parts<T, A> {
  /** Does some of the items, or none. */
  act(some: readonly T[]): Promise<readonly A[]>;
  /** Whether an error is about some of the items. Others end the search. @default `isRefusal` */
  isRefusal?(error: unknown): boolean | Promise<boolean>;
  /** The answers for an item that is refused by itself. */
  onRefused(item: T, error: unknown): readonly A[] | Promise<readonly A[]>;
  /** The error of `act` for all items, where it is known. */
  failure?: { error: unknown } | undefined;
  /** Whether to leave out the rest. @default never */
  isEnough?(): boolean;
}

/** The answers in the order of the items. One refused item among hundreds is found by few calls. */
export async function aroundRefused<T, A>(items: readonly T[], parts: Parts<T, A>): Promise<A[]> {
  const answers: A[] = [];
  const left = items.length === 0 ? [] : [items];
  let known = parts.failure;
  for (let some = left.pop(); some && !parts.isEnough?.(); some = left.pop()) {
    const did = known ?? (await tried(some, parts));
    known = undefined;
    const middle = some.length >> 1;
    if (!("error" in did)) answers.push(...did.answers);
    else if (middle > 0) left.push(some.slice(middle), some.slice(0, middle));
    else answers.push(...(await parts.onRefused(some[0] as T, did.error)));
  }
  return answers;
}

async function tried<T, A>(
  some: readonly T[],
  { act, isRefusal: isAboutItems = isRefusal }: Parts<T, A>,
): Promise<{ answers: readonly A[] } | { error: unknown }> {
  try {
    return { answers: await act(some) };
  } catch (error) {
    if (!(await isAboutItems(error))) throw error;
    return { error };
  }
}

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
