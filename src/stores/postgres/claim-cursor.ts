/**
 * Claim cursors: where the next scan for pending tasks begins. Postgres keeps the index entries of claimed tasks until a
 * vacuum, and for as long as any transaction could still see them. A scan from the start of the index passes all of them:
 * 1.3 ms after 20,000 claims. So the next scan begins where the last one ended.
 *
 * A full scan, from the start, finds the tasks that became pending behind the cursors: a retry, or a commit that came after
 * a later one's. It happens when the last scan found less than the limit, and otherwise four times a second, since the
 * tasks of a dead worker have to run again within a second; less often where it would take more than a tenth of the time.
 */

import { performance } from "../../base/runtime/timers.ts";

/** A place in the order of claims: priority descending, id ascending. */
export interface ClaimCursor {
  priority: number;
  id: number;
}

/** Milliseconds between full scans: ten times as long as one takes, within these bounds. */
const fullScanEvery = { least: 250, most: 5_000 };

/**
 * Milliseconds between full scans while tasks become pending that the cursors may have passed, such as those of a dead
 * worker: twice as long as one takes, but at least this.
 */
const rewoundEvery = 50;

/** Milliseconds on the server. A full scan that takes longer waits for its time even when the last scan found too little. */
const costly = 20;

/** Before all tasks. */
export const start: ClaimCursor = { priority: -(2 ** 31), id: Number.MIN_SAFE_INTEGER };

const isLater = (a: ClaimCursor, b: ClaimCursor) =>
  a.priority < b.priority || (a.priority === b.priority && a.id > b.id);

/** The result of a scan. */
export interface Scan {
  /** Whether it began at the cursors. */
  fromCursors: boolean;
  /** Whether it found as many tasks as the claim's limit. */
  full: boolean;
  /** Whether it found tasks that were not claimed then: they come next. */
  leftSome: boolean;
  /** Milliseconds that it took on the server. */
  took: number;
  /** How often the cursors had been rewound when it began. */
  rewinds: number;
}

export class ClaimCursors {
  readonly #cursors = new Map<string, ClaimCursor>();
  #lastFullScan = Number.NEGATIVE_INFINITY;
  /** Of full scans: the faster of the last two, since any one can meet a checkpoint. */
  #took = 0;
  #lastTook = 0;
  #wasFull = false;
  /** How often the cursors had been rewound when the last full scan began. */
  #rewinds = 0;

  /** Whether the next scan may begin at the cursors. `rewinds`: how often tasks became pending that they may have passed. */
  may(rewinds: number): boolean {
    const since = performance.now() - this.#lastFullScan;
    if (rewinds !== this.#rewinds && since >= Math.max(rewoundEvery, 2 * this.#took)) return false;
    const pause = Math.min(Math.max(fullScanEvery.least, 10 * this.#took), fullScanEvery.most);
    return (this.#wasFull || this.#isCostly) && since < pause;
  }

  get #isCostly(): boolean {
    return this.#took > costly;
  }

  of(key: string, fromCursors: boolean): ClaimCursor {
    return (fromCursors ? this.#cursors.get(key) : undefined) ?? start;
  }

  /** `last`: for each key, the task that was claimed last. True: a full scan may find more, and should follow now. */
  note(
    { fromCursors, full, leftSome, took, rewinds }: Scan,
    last: ReadonlyMap<string, ClaimCursor>,
  ): boolean {
    this.#wasFull = full;
    if (!fromCursors) {
      this.#lastFullScan = performance.now();
      this.#rewinds = rewinds;
      this.#took = Math.min(took, this.#lastTook);
      this.#lastTook = took;
    }
    if (!leftSome) this.#move(last, full && !fromCursors);
    else if (!fromCursors) this.#cursors.clear();
    return fromCursors && !full && !this.#isCostly;
  }

  /** `back`: after a full scan that ended at its limit, the next tasks are behind the claimed ones, wherever the cursor was. */
  #move(last: ReadonlyMap<string, ClaimCursor>, back: boolean): void {
    for (const [key, cursor] of last) {
      const known = this.#cursors.get(key);
      if (!known || back || isLater(cursor, known)) this.#cursors.set(key, cursor);
    }
  }
}
