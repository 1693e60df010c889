/** Transactions in cases: one source text for synchronous and for asynchronous drivers. */
import type { FullStore, FullTransaction } from "../../src/features/store.ts";
import type { MaybePromise } from "../../src/store.ts";
import type { AppDatabase } from "./case.ts";

// biome-ignore lint/suspicious/noExplicitAny: the value of a step depends on the step; `got` narrows it.
export type Steps<T> = Generator<unknown, T, any>;

/** Yields one step and returns its value, or its promise's. */
export function* got<T>(value: MaybePromise<T>): Generator<MaybePromise<T>, T, T> {
  return yield value;
}

/** Runs the steps to the end; synchronously when no step returns a promise. */
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

/** Runs steps in a transaction that the store opens. */
export function transaction<T>(
  store: FullStore,
  steps: (inside: FullTransaction, tx: AppDatabase) => Steps<T>,
): Promise<T> {
  return store.transaction((tx) => take(steps(store.within(tx), tx as AppDatabase)));
}

/** Runs steps in a transaction that the app opens, with `store.within` it. */
export async function appTransaction<T>(
  app: AppDatabase,
  store: FullStore,
  steps: (inside: FullTransaction, tx: AppDatabase) => Steps<T>,
): Promise<T> {
  return await app.transaction((tx) => take(steps(store.within(tx), tx)));
}

/** Runs steps in a nested transaction: a savepoint. */
export function* savepoint<T>(
  tx: AppDatabase,
  store: FullStore,
  steps: (inside: FullTransaction) => Steps<T>,
): Steps<T> {
  return yield* got(tx.transaction((inner) => take(steps(store.within(inner)))));
}
