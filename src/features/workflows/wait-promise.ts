/** The promise of something that a task waits for. It begins to wait when it is first awaited, and not when it is made. */

/** Found by a symbol of all copies of this module: an app may load it as ESM and as CommonJS. */
const waitMode: unique symbol = Symbol.for("dbq-ts.waitMode") as never;

export interface Settle<T> {
  resolve(value: T): void;
  reject(error: unknown): void;
}

/** `mode`: what the end of a child means for its task, as in `Wait`. */
export type Begin<T> = (settle: Settle<T>, mode: string | null) => void;

export class WaitPromise<T> extends Promise<T> {
  static override get [Symbol.species]() {
    return Promise;
  }

  #begin: (() => void) | undefined;
  #mode: string | null = null;

  constructor(begin: Begin<T>) {
    let settle: Settle<T> | undefined;
    super((resolve, reject) => {
      settle = { resolve, reject };
    });
    this.#begin = () => begin(settle as Settle<T>, this.#mode);
  }

  override then<A = T, B = never>(
    resolved?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    const begin = this.#begin;
    this.#begin = undefined;
    begin?.();
    return super.then(resolved, rejected);
  }

  /** Before it is awaited. */
  [waitMode](mode: string): void {
    this.#mode = mode;
  }
}

/** Waits for these together: the end of one of several children is no reason to run the task again. */
export function waitsTogether(promises: readonly unknown[], mode: string): void {
  for (const promise of promises)
    if (promise instanceof Promise && waitMode in promise) (promise as WaitPromise<unknown>)[waitMode](mode);
}
