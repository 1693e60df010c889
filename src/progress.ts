/** Notes of progress, gathered for a moment and written together. */
import type { Held, Store } from "./store.ts";

/** Milliseconds in which notes are gathered. */
const gatherFor = 100;

export class ProgressNotes {
  readonly #store: Pick<Store, "progress">;
  readonly #report: (error: unknown, where: string) => void;
  #notes = new Map<number, Held & { progress: number; note: string | null }>();

  constructor(store: Pick<Store, "progress">, report: (error: unknown, where: string) => void) {
    this.#store = store;
    this.#report = report;
  }

  /** Of several notes of one task in a moment, the last is kept. */
  add({ id, generationId }: Held, progress: number, note: string | null): void {
    if (this.#notes.size === 0) setTimeout(() => this.flush(), gatherFor).unref();
    this.#notes.set(id, { id, generationId, progress, note });
  }

  async flush(): Promise<void> {
    if (this.#notes.size === 0) return;
    const notes = [...this.#notes.values()];
    this.#notes.clear();
    try {
      await this.#store.progress(notes);
    } catch (error) {
      this.#report(error, "noting progress");
    }
  }
}
