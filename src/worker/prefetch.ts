/**
 * How many tasks a worker claims beyond its free slots. A turn on a server takes milliseconds: handlers that are quicker
 * than that would wait for turns most of the time. So it claims as many ahead as end while a turn is under way, and
 * as many again for the turn after; none while its handlers take much longer than a turn.
 */

import type { Outcome } from "../store.ts";
import { isCrashSensitive, type TaskRecord } from "../task.ts";
import type { RunningAttempt } from "./attempt.ts";

/** However quick the handlers are. */
const mostAhead = 200;

/** The turn under way, the one after it, and half of one, so that a worker whose handlers wait for turns gets quicker. */
const turnsAhead = 3;

/** Milliseconds that a task waits for a slot at most, as far as can be foreseen: half of what it may (`waiting.ts`). */
const mostWait = 50;

/** Milliseconds without a claim ahead, when something that was claimed so had to be handed back. */
const pause = 1_000;

/** Characters of arguments that are held for tasks that have not started. */
const mostText = 4 * 2 ** 20;

export class PrefetchControl {
  readonly #never: boolean;
  #began = Number.NEGATIVE_INFINITY;
  #took = 0;
  /** Of the last two turns, for one that settles much comes after one that settles little: tasks, and milliseconds. */
  #last = { ended: 0, milliseconds: 0 };
  #pausedUntil = Number.NEGATIVE_INFINITY;
  /** Characters of a task's arguments: the mean of the last claim. */
  #text = 1;

  /** `never`: where nothing is gained, since a turn blocks the handlers. */
  constructor(never: boolean) {
    this.#never = never;
  }

  /**
   * A turn begins, which settles these outcomes, while `waiting` tasks have no slot yet. Gives how many to claim beside
   * those for free slots: half of what may wait, so that turns are alike.
   */
  begin(outcomes: readonly Outcome[], waiting: number): number {
    if (this.#never || performance.now() < this.#pausedUntil) return 0;
    // What was handed back says nothing of how quick the handlers are.
    const ended = outcomes.filter(({ kind }) => kind !== "interrupted").length;
    const now = performance.now();
    const milliseconds = now - this.#began;
    const rate = (this.#last.ended + ended) / (this.#last.milliseconds + milliseconds);
    this.#began = now;
    this.#last = { ended, milliseconds };
    const most = Math.min(
      mostAhead,
      mostText / this.#text,
      rate * Math.min(turnsAhead * this.#took, mostWait),
    );
    return Math.max(0, Math.min(Math.floor(most / 2), Math.floor(most) - waiting));
  }

  /** What was claimed ahead waited too long. */
  handedBack(): void {
    this.#pausedUntil = performance.now() + pause;
  }

  end(claimed: readonly TaskRecord[]): void {
    this.#took = performance.now() - this.#began;
    const text = claimed.reduce((sum, { args, kwargs }) => sum + args.length + kwargs.length, 0);
    if (claimed.length > 0) this.#text = text / claimed.length;
  }
}

/**
 * A crash is charged to all that a worker holds, whether they had begun or not. So of those that it could end it holds no
 * more than it has slots: how many it may claim, of `held` those that have ended being settled.
 */
export function roomForCrashSensitive(
  slots: number,
  held: Iterable<Pick<RunningAttempt, "record">>,
  ended: readonly { attempt: Pick<RunningAttempt, "record"> }[],
): number {
  let count = 0;
  for (const { record } of held) if (isCrashSensitive(record)) count += 1;
  for (const { attempt } of ended) if (isCrashSensitive(attempt.record)) count -= 1;
  return Math.max(0, slots - count);
}

/** Milliseconds that a task waits for a slot; then it is handed back, for whoever has one. */
const longestBufferMs = 100;

export class PrefetchBuffer {
  /** `until`: on the clock of `performance.now()`. */
  readonly #list: { attempt: RunningAttempt; until: number }[] = [];
  readonly #onLate: () => void;
  #timer: NodeJS.Timeout | undefined;

  /** `onLate`: called when something was handed back because it waited too long. */
  constructor(onLate: () => void) {
    this.#onLate = onLate;
  }

  get length(): number {
    return this.#list.length;
  }

  push(attempt: RunningAttempt): void {
    this.#list.push({ attempt, until: performance.now() + longestBufferMs });
  }

  shift(): RunningAttempt | undefined {
    return this.#list.shift()?.attempt;
  }

  /** It has ended before it had a slot. */
  remove(attempt: RunningAttempt): void {
    const at = this.#list.findIndex((waiting) => waiting.attempt === attempt);
    if (at >= 0) this.#list.splice(at, 1);
  }

  /** From now on, whatever has waited too long is handed back. */
  watch(): void {
    const [first] = this.#list;
    if (!first || this.#timer) return;
    const handBack = () => {
      this.#timer = undefined;
      if (this.handBack(performance.now())) this.#onLate();
      this.watch();
    };
    this.#timer = setTimeout(handBack, Math.max(1, first.until - performance.now())).unref();
  }

  /** All, or those whose patience has ended by `now`. False: none. */
  handBack(now = Number.POSITIVE_INFINITY): boolean {
    const count = this.#list.findIndex(({ until }) => until > now);
    const late = this.#list.splice(0, count < 0 ? this.#list.length : count);
    for (const { attempt } of late) attempt.interrupt();
    return late.length > 0;
  }

  /** Forgets them. */
  clear(): void {
    this.#list.length = 0;
  }
}
