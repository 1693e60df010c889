/** Wake-ups inside a process. Hints only: losing or repeating one is harmless, whoever waits for one also polls. */

/** Of these tasks; without ids, of some. */
type Ids = readonly number[] | undefined;

export class Wakeups {
  readonly #workListeners = new Set<(later: boolean) => void>();
  readonly #endListeners = new Set<(ids: Ids) => void>();
  readonly #changeListeners = new Set<(ids: Ids) => void>();

  /** There may be something to run; `later`: perhaps not now, but sooner than whatever waits. Returns what removes the listener. */
  onWorkAdded(listener: (later: boolean) => void): () => void {
    return listen(this.#workListeners, listener);
  }

  /** Tasks may have ended. */
  onTaskEnded(listener: (ids: Ids) => void): () => void {
    return listen(this.#endListeners, listener);
  }

  /** Somebody has moved or deleted tasks, running ones perhaps. */
  onTaskChanged(listener: (ids: Ids) => void): () => void {
    return listen(this.#changeListeners, listener);
  }

  workAdded(later = false): void {
    for (const listener of this.#workListeners) listener(later);
  }

  taskEnded(ids?: Ids): void {
    for (const listener of this.#endListeners) listener(ids);
  }

  /** What was moved may have ended by it. */
  taskChanged(ids?: Ids): void {
    for (const listener of this.#changeListeners) listener(ids);
    this.taskEnded(ids);
  }
}

function listen<L>(listeners: Set<L>, listener: L): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
