/**
 * Claiming ahead of free slots. A cycle on a server takes milliseconds, and handlers that are quicker than that would
 * wait for cycles most of the time. `PrefetchControl` says how many tasks to claim ahead, `PrefetchBuffer` holds them.
 */

import { performance, setImmediate, setTimeout } from "../base/runtime/timers.ts";
import { isCrashSensitive } from "../base/tasks/crash-sensitive.ts";
import type { Outcome } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import type { RunningAttempt } from "./attempt.ts";

/** Tasks claimed ahead at most, however quick the handlers are: enough for two cycles at once, each of which claims half of them. */
const maxAhead = 1_000;

/** The current cycle, the next one, and one more: a cycle may take longer than the last one. */
const cyclesAhead = 3;

/** Milliseconds for which tasks are claimed ahead at most: half of `maxWaitMs`. */
const maxAheadMs = 50;

/** Milliseconds that tasks take at least: a clock may show no time between two looks. */
const shortest = 0.001;

/** Milliseconds without a running task after which the last ones say nothing about those that come. */
const forgottenAfter = 1_000;

/** Milliseconds that a claimed task may wait for a slot; then it is handed back for another worker. */
const maxWaitMs = 100;

/** Milliseconds: while no task waits longer for its slot, twice as many may wait after each cycle. */
const shortWaitMs = 25;

/** Milliseconds after a task was handed back in which no more may wait than then. */
const regrowAfter = 1_000;

/** Characters of arguments that may wait in the buffer. */
const maxCharacters = 4 * 2 ** 20;

/**
 * Measures how quickly tasks end while the worker runs any, and how long a cycle takes, and says how many tasks to claim ahead.
 * The time in which it runs none does not count: it waits for a claim then. A rate that counted it would be lower the slower the
 * database answers, and the next claim smaller: 20 ms away from its server, a worker would end at one task per slot and cycle.
 */
export class PrefetchControl {
  readonly #disabled: boolean;
  #cycleMs = 0;
  /** Since when the worker has been running tasks; undefined: it runs none. */
  #busySince: number | undefined;
  #stoppedAt = Number.NEGATIVE_INFINITY;
  /** Milliseconds of running tasks since the last cycle began, until `#busySince`. */
  #busyMs = 0;
  /**
   * The period before this one: the rate is taken over two, since a cycle that settles much follows one that settles
   * little.
   */
  #last = { ended: 0, busyMs: 0 };
  /** How many tasks may wait for a slot, going by how long others have waited. */
  #room = maxAhead;
  /** How many have been allowed to at most since that was last made less, and when that was. */
  #peak = 0;
  #shrunkAt = Number.NEGATIVE_INFINITY;
  #growsFrom = Number.NEGATIVE_INFINITY;
  /** Milliseconds that a task has waited at most since the last cycle began; undefined: none has found a slot. */
  #longestWait: number | undefined;
  /** Mean characters of a task's arguments in the last claim. */
  #charactersPerTask = 1;

  /** `disabled`: the store is synchronous, so that handlers cannot run during a cycle and prefetch gains nothing. */
  constructor(disabled: boolean) {
    this.#disabled = disabled;
  }

  /** A task starts. */
  started(): void {
    if (!this.#disabled) this.#busySince ??= performance.now();
  }

  /** The last task that ran has ended. */
  stopped(): void {
    if (this.#busySince === undefined) return;
    this.#stoppedAt = performance.now();
    this.#busyMs += this.#stoppedAt - this.#busySince;
    this.#busySince = undefined;
  }

  /**
   * A cycle begins that settles these outcomes, while `waiting` tasks, or places of claims under way, are more than the free
   * slots. Returns how many tasks to claim beyond the free slots: at most half of what may wait, so that claims are of
   * similar size.
   */
  begin(outcomes: readonly Outcome[], waiting: number): number {
    if (this.#disabled) return 0;
    const pace = this.#pace(outcomes);
    this.#adapt();
    const most = Math.min(
      this.#room,
      maxCharacters / this.#charactersPerTask,
      pace * Math.min(cyclesAhead * this.#cycleMs, maxAheadMs),
    );
    this.#peak = Math.max(this.#peak, most);
    return Math.max(0, Math.min(Math.floor(most / 2), Math.floor(most) - waiting));
  }

  /**
   * Where many processes share few cores, a process ends its tasks quickly while it has a core, and the rate leaves out the time
   * in which it has none. So half as many tasks may wait after one has waited longer than `maxAheadMs`. The tasks claimed before
   * that leave the buffer within `maxWaitMs`: until then, a long wait is no new sign.
   */
  #adapt(): void {
    const [waited, now] = [this.#longestWait, performance.now()];
    this.#longestWait = undefined;
    if (waited === undefined) return;
    if (waited <= shortWaitMs && now >= this.#growsFrom) {
      this.#room = Math.min(maxAhead, 2 * this.#room);
    } else if (waited > maxAheadMs && now >= this.#shrunkAt + maxWaitMs) {
      this.#room = Math.max(1, Math.min(this.#room, this.#peak) / 2);
      this.#peak = 0;
      this.#shrunkAt = now;
      if (waited >= maxWaitMs) this.#growsFrom = now + regrowAfter;
    }
  }

  /** A task has waited so many milliseconds for a slot, or until it was handed back. */
  readonly waited = (ms: number): void => {
    this.#longestWait = Math.max(this.#longestWait ?? 0, ms);
  };

  /** How many tasks have ended per millisecond, in this period and the one before it. */
  #pace(outcomes: readonly Outcome[]): number {
    if (this.#busySince !== undefined) {
      this.stopped();
      this.started();
    } else if (performance.now() - this.#stoppedAt > forgottenAfter) {
      this.#last = { ended: 0, busyMs: 0 };
    }
    const last = this.#last;
    // Tasks handed back say nothing about the speed of handlers.
    const ended = outcomes.filter(({ kind }) => kind !== "interrupted").length;
    this.#last = { ended, busyMs: this.#busyMs };
    this.#busyMs = 0;
    return (last.ended + ended) / Math.max(shortest, last.busyMs + this.#last.busyMs);
  }

  /** A cycle that began at `began`, on the clock of `performance.now()`, has claimed these tasks. */
  end(claimed: readonly TaskRecord[], began: number): void {
    if (this.#disabled) return;
    this.#cycleMs = performance.now() - began;
    const characters = claimed.reduce((sum, { args, kwargs }) => sum + args.length + kwargs.length, 0);
    if (claimed.length > 0) this.#charactersPerTask = characters / claimed.length;
  }
}

/**
 * How many crash-sensitive tasks a worker may claim. A crash is charged to all tasks that a worker owns, started or
 * not, so it owns no more crash-sensitive ones than it has slots. Of the `owned`, the `ended` are being settled.
 */
export function roomForCrashSensitive(
  slots: number,
  owned: Iterable<Pick<RunningAttempt, "record">>,
  ended: readonly { attempt: Pick<RunningAttempt, "record"> }[],
): number {
  let count = 0;
  for (const { record } of owned) if (isCrashSensitive(record)) count += 1;
  for (const { attempt } of ended) if (isCrashSensitive(attempt.record)) count -= 1;
  return Math.max(0, slots - count);
}

/** The claimed tasks that have no slot yet, in the order of their claim. */
export class PrefetchBuffer {
  /** `until`: when the task is handed back, on the clock of `performance.now()`. */
  readonly #waiting: { attempt: RunningAttempt; until: number }[] = [];
  readonly #fillSlots: () => void;
  readonly #onWaited: (ms: number) => void;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param fillSlots starts as many of the waiting tasks as there are free slots
   * @param onWaited gets the milliseconds that a task has waited: called when the task finds a slot, and when it is handed back
   */
  constructor(fillSlots: () => void, onWaited: (ms: number) => void) {
    this.#fillSlots = fillSlots;
    this.#onWaited = onWaited;
  }

  get length(): number {
    return this.#waiting.length;
  }

  push(attempt: RunningAttempt): void {
    this.#waiting.push({ attempt, until: performance.now() + maxWaitMs });
  }

  /** Removes and returns the task that was claimed first. `now`: since when there is a slot for it. */
  shift(now: number): RunningAttempt | undefined {
    const first = this.#waiting.shift();
    if (first) this.#noteWait(first, now);
    return first?.attempt;
  }

  /** Removes a task that was lost before it had a slot. */
  remove(attempt: RunningAttempt): void {
    const at = this.#waiting.findIndex((waiting) => waiting.attempt === attempt);
    if (at >= 0) this.#waiting.splice(at, 1);
  }

  /** Hands back each task whose wait is over, from now on until the buffer is empty. */
  watch(): void {
    const [first] = this.#waiting;
    if (!first || this.#timer) return;
    const handBack = () => {
      this.#timer = undefined;
      // When the process has stood still, slots may be free. A cycle that is about to begin has begun by now.
      this.#fillSlots();
      this.handBack(performance.now());
      this.watch();
    };
    const wait = Math.max(1, first.until - performance.now());
    this.#timer = setTimeout(() => setImmediate(handBack), wait).unref();
  }

  /** Hands back all tasks, or those whose wait is over at `now`. */
  handBack(now = Number.POSITIVE_INFINITY): void {
    const count = this.#waiting.findIndex(({ until }) => until > now);
    const late = this.#waiting.splice(0, count < 0 ? this.#waiting.length : count);
    const ended = performance.now();
    for (const waiting of late) {
      this.#noteWait(waiting, ended);
      waiting.attempt.interrupt();
    }
  }

  #noteWait({ until }: { until: number }, now: number): void {
    this.#onWaited(now - until + maxWaitMs);
  }

  /** Empties the buffer without handing anything back. */
  clear(): void {
    this.#waiting.length = 0;
  }
}
