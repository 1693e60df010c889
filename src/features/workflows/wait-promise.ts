/** The promise of something that a task waits for. It begins to wait when it is first awaited, and not when it is made. */

/** Found by a symbol of all copies of this module: an app may load it as ESM and as CommonJS. */
const waitMode: unique symbol = Symbol.for("dbq-ts.waitMode") as never;

export interface Settle<T> {
  resolve(value: T): void;
  reject(error: unknown): void;
}

/** `mode`: what the end of a child means for its task, as in `Wait`. */
export type Begin<T> = (settle: Settle<T>, mode: string | null) => void;

const listened: unique symbol = Symbol.for("dbq-ts.waitListened") as never;

export class WaitPromise<T> extends Promise<T> {
  static override get [Symbol.species]() {
    return Promise;
  }

  /** Undefined: the wait has begun. */
  #begin: Begin<T> | undefined;
  readonly #settle: Settle<T>;
  #mode: string | null = null;

  constructor(begin: Begin<T>) {
    let settle: Settle<T> | undefined;
    super((resolve, reject) => {
      settle = { resolve, reject };
    });
    this.#begin = begin;
    this.#settle = settle as Settle<T>;
  }

  override then<A = T, B = never>(
    resolved?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    const begin = this.#begin;
    this.#begin = undefined;
    begin?.(this.#settle, this.#mode);
    return super.then(resolved, rejected);
  }

  /** Before it is awaited. */
  [waitMode](mode: string): void {
    this.#mode = mode;
  }

  /**
   * As `then`, without its promise: a task may wait for very many, and Node calls its hooks for each promise.
   * False: the wait has begun before, and nothing was done.
   */
  [listened]({ resolve, reject }: Settle<T>): boolean {
    const begin = this.#begin;
    this.#begin = undefined;
    const settle = this.#settle;
    begin?.(
      {
        resolve: (value) => {
          settle.resolve(value);
          resolve(value);
        },
        reject: (error) => {
          // It is heard here: nobody else has to.
          super.then(undefined, () => undefined);
          settle.reject(error);
          reject(error);
        },
      },
      this.#mode,
    );
    return begin !== undefined;
  }
}

const isWait = (promise: unknown): promise is WaitPromise<unknown> =>
  promise instanceof Promise && waitMode in promise;

/** Waits for these together: the end of one of several children is no reason to run the task again. */
export function waitsTogether(promises: readonly unknown[], mode: string): void {
  for (const promise of promises) if (isWait(promise)) promise[waitMode](mode);
}

function listen(promise: unknown, settle: Settle<unknown>): void {
  if (isWait(promise) && listened in promise && promise[listened](settle)) return;
  Promise.resolve(promise).then(settle.resolve, settle.reject);
}

/** As `Promise.all`, which makes three promises for each of its own. */
export function allOf(iterable: Iterable<unknown>): Promise<unknown[]> {
  const promises = [...iterable];
  return new Promise((resolve, reject) => {
    const values = new Array<unknown>(promises.length);
    let left = promises.length;
    if (left === 0) resolve(values);
    for (const [i, promise] of promises.entries())
      listen(promise, {
        resolve(value) {
          values[i] = value;
          left -= 1;
          if (left === 0) resolve(values);
        },
        reject,
      });
  });
}

/** As `Promise.allSettled`. */
export function settledOf(iterable: Iterable<unknown>): Promise<unknown[]> {
  const promises = [...iterable];
  return new Promise((resolve) => {
    const results = new Array<PromiseSettledResult<unknown>>(promises.length);
    let left = promises.length;
    if (left === 0) resolve(results);
    for (const [i, promise] of promises.entries()) {
      const put = (result: PromiseSettledResult<unknown>) => {
        results[i] = result;
        left -= 1;
        if (left === 0) resolve(results);
      };
      listen(promise, {
        resolve: (value) => put({ status: "fulfilled", value }),
        reject: (reason) => put({ status: "rejected", reason }),
      });
    }
  });
}
