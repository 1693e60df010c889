/** Values that may be promises: SQLite is synchronous, servers are not. */
import type { MaybePromise } from "../../store.ts";

/** Calls a function with one object, and gives its result. */
export type Act<On> = <T>(action: (on: On) => MaybePromise<T>) => MaybePromise<T>;

/** Makes an `Act` for an object. `synchronous`: the function is called at once; else in a promise, which rejects with what it throws. */
export const actOn = <On>(on: On, synchronous: boolean): Act<On> =>
  synchronous ? (action) => action(on) : async (action) => await action(on);

/**
 * Applies `fn` to a value, or to the value of a promise. Not called `then`, since a module that exports `then` is a
 * thenable.
 */
export function mapMaybe<T, U>(value: MaybePromise<T>, fn: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return value instanceof Promise ? value.then(fn) : fn(value);
}
