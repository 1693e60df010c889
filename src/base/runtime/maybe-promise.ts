/** Values that may be promises: SQLite is synchronous, servers are not. */
import type { MaybePromise } from "../../store.ts";

/**
 * Applies `fn` to a value, or to the value of a promise. Not called `then`, since a module that exports `then` is a
 * thenable.
 */
export function mapMaybe<T, U>(value: MaybePromise<T>, fn: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return value instanceof Promise ? value.then(fn) : fn(value);
}
