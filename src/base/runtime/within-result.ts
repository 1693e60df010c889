/** Results inside of a transaction, which is synchronous on SQLite alone. */

/**
 * The return type of a method inside a transaction: a value where the Drizzle driver is synchronous (better-sqlite3), a
 * promise elsewhere, and either where the type of `tx` is unknown. The type of `all` tells which: only SQLite's handles have
 * that method, and it does not depend on the types of the driver.
 */
export type WithinResult<Tx, T> = unknown extends Tx
  ? T | Promise<T>
  : Tx extends { all(...args: never[]): infer R }
    ? R extends PromiseLike<unknown>
      ? Promise<T>
      : T
    : Promise<T>;
