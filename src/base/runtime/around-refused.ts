/**
 * Runs a batch around the rows that the database refuses for good: a CHECK or a trigger of the app's, a foreign key that refers to one. A
 * batch that fails for one row is repeated in halves, so that the others are done. Each part is a transaction of its own, since a
 * deferred constraint refuses only the commit.
 */
import { anotherTryAfter } from "../../errors.ts";

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
