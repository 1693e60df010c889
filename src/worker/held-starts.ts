/**
 * Claimed tasks whose turn at a rate comes a little later. The database has given each its start, and no other start moves when
 * this process is late; so a worker claims them early. Until its turn a task takes no slot; then it is the next to get one.
 */
import { after, performance } from "../base/runtime/timers.ts";
import type { TaskRecord } from "../task.ts";
import type { RunningAttempt } from "./attempt.ts";

/**
 * Milliseconds after its turn at which an attempt still starts; then its task is handed back. While a process stands still, or
 * has no free slot, all its turns may pass: those attempts would start together.
 */
const mostLate = 1_000;

/** Milliseconds without early claims after that, since each hand-back wastes a start of the rate. */
const pauseMs = 1_000;

export class HeldStarts {
  readonly #onTurn: () => void;
  /** The attempts whose turn is still to come. */
  readonly #waiting = new Set<RunningAttempt>();
  /** The attempts whose turn has come, in this order, and the turn of each on the clock of `performance.now()`. */
  readonly #due = new Map<RunningAttempt, number>();
  #pausedUntil = Number.NEGATIVE_INFINITY;

  /** `onTurn` is called when the turn of an attempt has come: `next` returns it then. */
  constructor(onTurn: () => void) {
    this.#onTurn = onTurn;
  }

  /** Whether the worker was on time lately, so that it may claim tasks before their turn. */
  get isPunctual(): boolean {
    return performance.now() >= this.#pausedUntil;
  }

  /** How many attempts wait for their turn. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** How many attempts have had their turn, and wait for a slot. */
  get due(): number {
    return this.#due.size;
  }

  /** @param milliseconds from now. The claim looked at the clock of the database before: nothing starts before its turn. */
  add(attempt: RunningAttempt, milliseconds: number): void {
    this.#waiting.add(attempt);
    this.#waitUntil(performance.now() + milliseconds, attempt);
  }

  #waitUntil(at: number, attempt: RunningAttempt): void {
    const wait = at - performance.now();
    // A timer of Node counts whole milliseconds, and may fire almost one too early.
    if (wait > 0) after(wait, () => this.#waitUntil(at, attempt));
    else if (this.#waiting.delete(attempt)) this.#turnCame(at, attempt);
  }

  #turnCame(at: number, attempt: RunningAttempt): void {
    this.#due.set(attempt, at);
    this.#onTurn();
    this.#watch(at, attempt);
  }

  /** Hands the attempt back once it is too late for it, unless it has a slot by then. */
  #watch(at: number, attempt: RunningAttempt): void {
    if (!this.#due.has(attempt)) return;
    const wait = at + mostLate - performance.now();
    if (wait >= 0) after(wait + 1, () => this.#watch(at, attempt));
    else this.#handBackLate();
  }

  /** Removes and returns the attempt whose turn came first. There is a slot for it. */
  next(): RunningAttempt | undefined {
    this.#handBackLate();
    const [first] = this.#due.keys();
    if (first) this.#due.delete(first);
    return first;
  }

  #handBackLate(): void {
    const now = performance.now();
    const late = [...this.#due].filter(([, at]) => now - at > mostLate);
    if (late.length > 0) this.#pausedUntil = now + pauseMs;
    for (const [attempt] of late) this.#due.delete(attempt);
    for (const [attempt] of late) attempt.interrupt();
  }

  /** Removes an attempt that has ended before it had a slot. */
  remove(attempt: RunningAttempt): void {
    this.#waiting.delete(attempt);
    this.#due.delete(attempt);
  }

  /** Removes and returns the attempts that are like this: none of them will start. */
  take(isOne: (record: TaskRecord) => boolean): RunningAttempt[] {
    const taken = [...this.#waiting, ...this.#due.keys()].filter(({ record }) => isOne(record));
    for (const attempt of taken) this.remove(attempt);
    return taken;
  }

  /** Hands back all tasks that have no slot yet. */
  handBack(): void {
    for (const attempt of this.take(() => true)) attempt.interrupt();
  }

  /** Forgets them without a write. */
  clear(): void {
    this.#waiting.clear();
    this.#due.clear();
  }
}
