import { limited } from "../base/runtime/timers.ts";
import type { Store, TaskVersion } from "../store.ts";

/** Milliseconds in which notes are gathered. */
const gatherFor = 100;

export class ProgressNotes {
  readonly #store: Pick<Store, "progress">;
  readonly #report: (error: unknown, where: string) => void;
  readonly #notes = new Map<number, TaskVersion & { progress: number; note: string | null }>();
  /** The write that is under way, and those before it. */
  #writing: Promise<void> | undefined;

  constructor(store: Pick<Store, "progress">, report: (error: unknown, where: string) => void) {
    this.#store = store;
    this.#report = report;
  }

  /** Of several notes of one task in a moment, the last is kept. */
  add({ id, generationId }: TaskVersion, progress: number, note: string | null): void {
    if (this.#notes.size === 0) setTimeout(() => this.flush(), gatherFor).unref();
    // Each database would store an unpaired surrogate as something else.
    this.#notes.set(id, { id, generationId, progress, note: note?.toWellFormed() ?? null });
  }

  /**
   * Resolves when all that was noted until now is written, since a task that has ended takes no more notes; or after `limit`
   * milliseconds.
   */
  async flush(limit?: number): Promise<void> {
    if (this.#notes.size > 0) this.#writing = this.#writeAfter(this.#writing);
    const writing = this.#writing;
    if (writing === undefined) return;
    if (limit === undefined) await writing;
    else await limited(limit, () => writing).catch(() => undefined);
  }

  async #writeAfter(before: Promise<void> | undefined): Promise<void> {
    await before;
    await this.#write();
    if (this.#notes.size === 0) this.#writing = undefined;
  }

  async #write(): Promise<void> {
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
