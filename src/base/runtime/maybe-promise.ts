/** Values that may be promises: SQLite is synchronous, servers are not. */
import type { MaybePromise } from "../../store.ts";

/** Calls `action` with what it acts on. */
export type Act<On> = <T>(action: (on: On) => MaybePromise<T>) => MaybePromise<T>;

/** Acts on this: in the caller's tick where that is `synchronous`, else in a promise, which rejects with what is thrown. */
export const actOn = <On>(on: On, synchronous: boolean): Act<On> =>
  synchronous ? (action) => action(on) : async (action) => await action(on);

/**
 * Applies `fn` to a value, or to the value of a promise. Not called `then`, since a module that exports `then` is a
 * thenable.
 */
export function mapMaybe<T, U>(value: MaybePromise<T>, fn: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return value instanceof Promise ? value.then(fn) : fn(value);
}
