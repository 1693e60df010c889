/** Values that may be promises: SQLite answers at once, servers later. */
import type { MaybePromise } from "../../store.ts";

/** `fn` of a value that is there, or of one that is to come. Not called `then`: a module that exports one is a thenable. */
export function mapMaybe<T, U>(value: MaybePromise<T>, fn: (value: T) => U): MaybePromise<U> {
  return value instanceof Promise ? value.then(fn) : fn(value);
}
