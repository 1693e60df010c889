/**
 * Claimed tasks that start a little later. The database has given each its start, and no other start moves when this process is
 * late; so a worker claims them early, and each waits for its turn in its slot.
 */
import { after, performance } from "../base/runtime/timers.ts";
import type { TaskRecord } from "../task.ts";
import type { RunningAttempt } from "./attempt.ts";

/**
 * Milliseconds after its turn at which an attempt still starts; then its task is handed back. While a process stands still, all
 * its turns may pass: those attempts would start together.
 */
const mostLate = 1_000;

/** Milliseconds without early claims after that, since each hand-back wastes a start. */
const pauseMs = 1_000;

export class HeldStarts {
  readonly #start: (attempt: RunningAttempt) => void;
  /** On the clock of `performance.now()`. */
  readonly #startsAt = new WeakMap<RunningAttempt, number>();
  /** The attempts that have a slot, and wait for their turn. */
  readonly #waiting = new Set<RunningAttempt>();
  #pausedUntil = Number.NEGATIVE_INFINITY;

  constructor(start: (attempt: RunningAttempt) => void) {
    this.#start = start;
  }

  /**
   * How many tasks a claim for so many free slots may take before their turn. Each keeps a slot until then; one slot of the worker
   * is left to tasks that can start at once. Undefined: it waits for no turn, since it was late itself or has one slot.
   */
  room(slots: number, concurrency: number): number | undefined {
    if (concurrency < 2 || performance.now() < this.#pausedUntil) return undefined;
    return Math.max(0, Math.min(slots, concurrency - 1 - this.#waiting.size));
  }

  /** @param milliseconds from now. The claim looked at the clock of the database before: nothing starts before its turn. */
  add(attempt: RunningAttempt, milliseconds: number): void {
    this.#startsAt.set(attempt, performance.now() + milliseconds);
  }

  /** The attempt has a slot: starts it, at its turn if it has one to wait for. Until then it may end. */
  start(attempt: RunningAttempt): void {
    const at = this.#startsAt.get(attempt);
    if (at === undefined) {
      this.#start(attempt);
      return;
    }
    this.#waiting.add(attempt);
    this.#waitUntil(at, attempt);
  }

  #waitUntil(at: number, attempt: RunningAttempt): void {
    const wait = at - performance.now();
    // A timer of Node counts whole milliseconds, and may fire almost one too early.
    if (wait > 0) after(wait, () => this.#waitUntil(at, attempt));
    else if (this.#waiting.delete(attempt) && attempt.isClaimed) this.#startAt(at, attempt);
  }

  #startAt(at: number, attempt: RunningAttempt): void {
    const now = performance.now();
    if (now - at <= mostLate) {
      this.#start(attempt);
      return;
    }
    this.#pausedUntil = now + pauseMs;
    attempt.interrupt();
  }

  /** Removes and returns the waiting attempts that are like this: none of them will start. */
  take(isOne: (record: TaskRecord) => boolean): RunningAttempt[] {
    const taken = [...this.#waiting].filter(({ record }) => isOne(record));
    for (const attempt of taken) this.#waiting.delete(attempt);
    return taken;
  }

  /** Hands back all tasks that wait for their turn. */
  handBack(): void {
    for (const attempt of this.take(() => true)) attempt.interrupt();
  }

  /** Forgets them without a write. */
  clear(): void {
    this.#waiting.clear();
  }
}
