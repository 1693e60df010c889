/** Wake-ups inside a process. Hints only: losing or repeating one is harmless, whoever waits for one also polls. */

/** Of these tasks; without ids, of some. */
type Ids = readonly number[] | undefined;

export class Hints {
  readonly #work = new Set<(later: boolean) => void>();
  readonly #ended = new Set<(ids: Ids) => void>();
  readonly #moved = new Set<(ids: Ids) => void>();

  /** There may be something to run; `later`: perhaps not now, but sooner than whatever waits. Returns what removes the listener. */
  onWork(listener: (later: boolean) => void): () => void {
    return listen(this.#work, listener);
  }

  /** Tasks may have ended. */
  onEnded(listener: (ids: Ids) => void): () => void {
    return listen(this.#ended, listener);
  }

  /** Somebody has moved or deleted tasks, running ones perhaps. */
  onMoved(listener: (ids: Ids) => void): () => void {
    return listen(this.#moved, listener);
  }

  work(later = false): void {
    for (const listener of this.#work) listener(later);
  }

  ended(ids?: Ids): void {
    for (const listener of this.#ended) listener(ids);
  }

  /** What was moved may have ended by it. */
  moved(ids?: Ids): void {
    for (const listener of this.#moved) listener(ids);
    this.ended(ids);
  }
}

function listen<L>(listeners: Set<L>, listener: L): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
