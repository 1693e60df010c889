/** Wake-ups inside a process. Hints only: losing or repeating one is harmless, whoever waits for one also polls. */

export class Hints {
  readonly #work = new Set<(later: boolean) => void>();
  readonly #ended = new Set<(ids: readonly number[] | undefined) => void>();

  /** There may be something to run; `later`: perhaps not now, but sooner than whatever waits. Returns what removes the listener. */
  onWork(listener: (later: boolean) => void): () => void {
    this.#work.add(listener);
    return () => this.#work.delete(listener);
  }

  /** These tasks (or, without ids, some) may have ended or been moved by somebody. */
  onEnded(listener: (ids: readonly number[] | undefined) => void): () => void {
    this.#ended.add(listener);
    return () => this.#ended.delete(listener);
  }

  work(later = false): void {
    for (const listener of this.#work) listener(later);
  }

  ended(ids?: readonly number[]): void {
    for (const listener of this.#ended) listener(ids);
  }
}
