/** Transactions in cases: one text for drivers that answer at once and for those that answer later. */
import type { MaybePromise, Store, StoreTransaction } from "../../src/store.ts";
import type { AppDatabase } from "./case.ts";

// biome-ignore lint/suspicious/noExplicitAny: what a step gives back depends on the step; `got` fixes it.
export type Steps<T> = Generator<unknown, T, any>;

/** One step: what it gives, or what its promise gives. */
export function* got<T>(value: MaybePromise<T>): Generator<MaybePromise<T>, T, T> {
  return yield value;
}

/** Runs steps to their end: at once when every one of them answers at once. */
export function take<T>(steps: Steps<T>): MaybePromise<T> {
  const onwards = (next: IteratorResult<unknown, T>): MaybePromise<T> => {
    let current = next;
    while (!current.done) {
      const { value } = current;
      if (value instanceof Promise) {
        return value.then(
          (given) => onwards(steps.next(given)),
          (error) => onwards(steps.throw(error)),
        );
      }
      current = steps.next(value);
    }
    return current.value;
  };
  return onwards(steps.next());
}

/** A transaction of the store's. */
export function transaction<T>(
  store: Store,
  steps: (inside: StoreTransaction, tx: AppDatabase) => Steps<T>,
): Promise<T> {
  return store.transaction((tx) => take(steps(store.within(tx), tx as AppDatabase)));
}

/** A transaction of the app's own, and `store` inside it. */
export async function appTransaction<T>(
  app: AppDatabase,
  store: Store,
  steps: (inside: StoreTransaction, tx: AppDatabase) => Steps<T>,
): Promise<T> {
  return await app.transaction((tx) => take(steps(store.within(tx), tx)));
}

/** Inside of another transaction: a savepoint. */
export function* savepoint<T>(
  tx: AppDatabase,
  store: Store,
  steps: (inside: StoreTransaction) => Steps<T>,
): Steps<T> {
  return yield* got(tx.transaction((inner) => take(steps(store.within(inner)))));
}
