/** Which claimed tasks are encrypted: what is written about a task does not name its function. */
import type { Outcome } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import type { Sealer } from "./sealer.ts";

/** The most claims that are kept in mind: some end by another process. */
const most = 100_000;

export class Claims {
  readonly #sealer: Sealer;
  /** Whether the functions of these tasks are covered. Empty where all functions are. */
  readonly #covered = new Map<number, boolean>();

  constructor(sealer: Sealer) {
    this.#sealer = sealer;
  }

  claimed(tasks: readonly TaskRecord[]): void {
    if (this.#sealer.coversAll) return;
    if (this.#covered.size > most) this.#covered.clear();
    for (const { id, func } of tasks) this.#covered.set(id, this.#sealer.covers(func));
  }

  settled(outcomes: readonly Outcome[]): void {
    if (this.#covered.size > 0) for (const { id } of outcomes) this.#covered.delete(id);
  }

  /** Whether values of this task are encrypted. Those of a task that is not known are: whoever has the keys reads both. */
  seals(taskId: number): boolean {
    return this.#covered.get(taskId) !== false;
  }

  /** Whether values of this task have to be encrypted. */
  requires(taskId: number): boolean {
    return this.#sealer.required && (this.#sealer.coversAll || this.#covered.get(taskId) === true);
  }
}
