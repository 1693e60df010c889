/** Collects the progress that running tasks report, and writes it in batches. */
import { setTimeout, settledWithin } from "../base/runtime/timers.ts";
import type { TaskVersion, WorkerStore } from "../store.ts";
import { writeProgress } from "./refused-notes.ts";

/** Milliseconds for which progress is collected before it is written. */
const collectMs = 100;

export class ProgressNotes {
  readonly #store: Pick<WorkerStore, "progress">;
  readonly #report: (error: unknown, where: string) => void;
  readonly #onWritten: () => void;
  readonly #notes = new Map<number, TaskVersion & { progress: number; note: string | null }>();
  /** The tasks whose progress the database refuses. */
  readonly #told = new Set<number>();
  /** The current write and those before it. */
  #writing: Promise<void> | undefined;

  constructor(
    store: Pick<WorkerStore, "progress">,
    report: (error: unknown, where: string) => void,
    onWritten: () => void = () => undefined,
  ) {
    this.#store = store;
    this.#report = report;
    this.#onWritten = onWritten;
  }

  /** Replaces what the task reported since the last write. */
  add({ id, generationId }: TaskVersion, progress: number, note: string | null): void {
    if (this.#notes.size === 0) setTimeout(() => this.flush(), collectMs).unref();
    // Each database would store an unpaired surrogate as something else.
    this.#notes.set(id, { id, generationId, progress, note: note?.toWellFormed() ?? null });
  }

  /** Whether `flush` has something to wait for. */
  get isUnwritten(): boolean {
    return this.#notes.size > 0 || this.#writing !== undefined;
  }

  /**
   * Resolves when all that was added until now is written, since a settled task takes no more progress; or after
   * `limitMs` milliseconds.
   */
  async flush(limitMs?: number): Promise<void> {
    if (this.#notes.size > 0) this.#writing = this.#writeAfter(this.#writing);
    if (this.#writing) await settledWithin(limitMs, this.#writing);
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
      await writeProgress(this.#store, notes, this.#report, this.#told);
      this.#onWritten();
    } catch (error) {
      this.#report(error, "writing progress");
    }
  }
}
