/**
 * Wake-ups between a queue and the workers of its process. Losing or repeating one is harmless: the listeners also
 * poll.
 */

/** The tasks that a wake-up is about; undefined: any tasks. */
type Ids = readonly number[] | undefined;

export class Wakeups {
  readonly #workListeners = new Set<(later: boolean) => void>();
  readonly #endListeners = new Set<(ids: Ids) => void>();
  readonly #noteListeners = new Set<() => void>();
  readonly #changeListeners = new Set<(ids: Ids) => void>();

  /**
   * There may be a task to claim. `later`: a delayed task was added, so recompute the next due time.
   * Returns a function that removes the listener; so do the others.
   */
  onWorkAdded(listener: (later: boolean) => void): () => void {
    return listen(this.#workListeners, listener);
  }

  /** Tasks may have ended. */
  onTaskEnded(listener: (ids: Ids) => void): () => void {
    return listen(this.#endListeners, listener);
  }

  /** Running tasks may have started, reported progress or logged. */
  onTaskNoted(listener: () => void): () => void {
    return listen(this.#noteListeners, listener);
  }

  /** Tasks were changed or deleted from outside of a worker; some of them may be running. */
  onTaskChanged(listener: (ids: Ids) => void): () => void {
    return listen(this.#changeListeners, listener);
  }

  workAdded(later = false): void {
    for (const listener of this.#workListeners) listener(later);
  }

  /** Tasks became pending. `hasEnded`: or tasks were ended, from outside of a worker. */
  workFound(hasEnded = false): void {
    if (hasEnded) this.taskChanged();
    this.workAdded();
  }

  taskEnded(ids?: Ids): void {
    for (const listener of this.#endListeners) listener(ids);
  }

  taskNoted(): void {
    for (const listener of this.#noteListeners) listener();
  }

  /** The change may have ended the tasks, too. */
  taskChanged(ids?: Ids): void {
    for (const listener of this.#changeListeners) listener(ids);
    this.taskEnded(ids);
  }
}

function listen<L>(listeners: Set<L>, listener: L): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
