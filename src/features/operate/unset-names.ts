/** Finds the shared names that tasks use and for which nobody has set a limit. Such a name may be misspelt. */

import type { LimitInfo } from "../limits/methods.ts";
import { internalsOf, type Queue } from "../queue.ts";

/** Those of these shared names that no limit has. */
export function unsetAmong(names: readonly string[], limits: readonly LimitInfo[]): string[] {
  const set = new Set(limits.map(({ target }) => target));
  return names.filter((name) => !set.has(name));
}

/**
 * The shared names that running tasks use, or whose rate has put tasks off, and that none of these limits has.
 * @throws DatabaseError
 */
export async function unsetNames(queue: Queue, limits: readonly LimitInfo[]): Promise<string[]> {
  return unsetAmong(await internalsOf(queue).store.limits.namesInUse(), limits);
}
