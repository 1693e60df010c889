/** An action on many rows, taken part by part: it stands still between two of them, where a second call would begin anew. */

/** What the action takes and reports, as `queue.retryTasks` does. */
export type Action = (options: { onProgress: (done: { changed: number }) => unknown }) => Promise<unknown>;

export class Parts {
  readonly #act: Action;
  #running: Promise<unknown> | undefined;
  #changed = 0;
  #goal = 0;
  #reached = () => {};
  #goOn = () => {};

  constructor(act: Action) {
    this.#act = act;
  }

  /** Lets the action change so many rows more. @returns how many it has changed, fewer where it ends before */
  async next(count: number): Promise<number> {
    const before = this.#changed;
    this.#goal = before + count;
    const reached = new Promise<void>((resolve) => {
      this.#reached = resolve;
    });
    this.#running ??= this.#act({ onProgress: ({ changed }) => this.#progress(changed) });
    this.#goOn();
    await Promise.race([reached, this.#running]);
    return this.#changed - before;
  }

  /** The action goes on when the promise that this returns is resolved. */
  #progress(changed: number): Promise<void> | undefined {
    this.#changed = changed;
    if (changed < this.#goal) return undefined;
    this.#reached();
    return new Promise((resolve) => {
      this.#goOn = resolve;
    });
  }
}
