/**
 * Where a look for work begins. Postgres keeps the index entries of what was claimed until a vacuum, and for as long as any
 * transaction could still see them: a look from the start of the index passes them all, 1.3 ms after 20,000 claims.
 * So the next look begins where the last one ended.
 *
 * What becomes pending behind that place (a retry; a commit that came after a later one's) is found by a look at all,
 * which comes when there was less than asked for, and four times a second while there is enough, since what a dead worker
 * held has to run again within a second; less often where it takes so long that it would take more than a tenth of the time.
 */
/** A place in the order of claims: priority descending, id ascending. */
export interface ClaimCursor {
  priority: number;
  id: number;
}

/** Milliseconds between looks at all: ten times as long as one takes, but at least, and at most. */
const allEvery = 250;
const allRarely = 5_000;

/**
 * Milliseconds between looks at all while tasks become pending that the heads may have passed, such as those of a dead
 * worker: twice as long as one takes, but at least this.
 */
const rewoundEvery = 50;

/** Milliseconds on the server. Where a look at all takes longer, it waits for its time even when there was too little. */
const costly = 20;

/** Before everything: below the lowest priority there is nothing, and above it is all. */
export const start: ClaimCursor = { priority: -(2 ** 31), id: Number.MIN_SAFE_INTEGER };

const isLater = (a: ClaimCursor, b: ClaimCursor) =>
  a.priority < b.priority || (a.priority === b.priority && a.id > b.id);

/** What a look has found. */
export interface Look {
  /** Whether it began at the heads. */
  fromHeads: boolean;
  /** Whether it found as much as it was asked for. */
  full: boolean;
  /** Whether it found what was not claimed then: that comes next. */
  leaves: boolean;
  /** Milliseconds that it took on the server. */
  took: number;
  /** How often the cursors had been rewound when it began. */
  rewinds: number;
}

export class ClaimCursors {
  readonly #heads = new Map<string, ClaimCursor>();
  #lookedAtAll = Number.NEGATIVE_INFINITY;
  /** By looks at all: the quicker of the last two, since any one can meet a checkpoint. */
  #took = 0;
  #lastTook = 0;
  #wasFull = false;
  /** How often the cursors had been rewound when the last look at all began. */
  #rewinds = 0;

  /**
   * Whether the next look may begin at the heads. `rewinds`: how often tasks have become pending that the heads may have
   * passed.
   */
  may(rewinds: number): boolean {
    const since = performance.now() - this.#lookedAtAll;
    if (rewinds !== this.#rewinds && since >= Math.max(rewoundEvery, 2 * this.#took)) return false;
    const pause = Math.min(Math.max(allEvery, 10 * this.#took), allRarely);
    return (this.#wasFull || this.#isCostly) && since < pause;
  }

  get #isCostly(): boolean {
    return this.#took > costly;
  }

  of(key: string, fromHeads: boolean): ClaimCursor {
    return (fromHeads ? this.#heads.get(key) : undefined) ?? start;
  }

  /** `last`: of each key, what was claimed last. True: there may be more behind the heads, and now is the time to look. */
  note({ fromHeads, full, leaves, took, rewinds }: Look, last: ReadonlyMap<string, ClaimCursor>): boolean {
    this.#wasFull = full;
    if (!fromHeads) {
      this.#lookedAtAll = performance.now();
      this.#rewinds = rewinds;
      this.#took = Math.min(took, this.#lastTook);
      this.#lastTook = took;
    }
    if (!leaves) this.#move(last, full && !fromHeads);
    else if (!fromHeads) this.#heads.clear();
    return fromHeads && !full && !this.#isCostly;
  }

  /** `back`: after a look at all that was cut short, what comes next is behind what was claimed, wherever the head was. */
  #move(last: ReadonlyMap<string, ClaimCursor>, back: boolean): void {
    for (const [key, head] of last) {
      const known = this.#heads.get(key);
      if (!known || back || isLater(head, known)) this.#heads.set(key, head);
    }
  }
}
