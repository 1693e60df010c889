/**
 * The tasks whose outcome the database refuses for good. Most of them have failed instead. For the others the database accepts no
 * change at all: they hold no slot, no other worker runs them while this one lives, and this one offers their outcomes once a minute.
 */
import { after, type Timer } from "../base/runtime/timers.ts";
import type { Outcome, Refusal, WorkerStore } from "../store.ts";
import type { TaskRecord } from "../task.ts";

/** Milliseconds between two offers. */
const offerEveryMs = 60_000;

/** An attempt, or another holder of a task. */
export interface Holder {
  readonly record: TaskRecord;
}

/** `stored`: what the database has accepted in place of `outcome`; undefined: the task has moved on. */
type OnSettled<H> = (holder: H, stored: Outcome | undefined, outcome: Outcome) => void;

export class RefusedTasks<H extends Holder> implements Iterable<H> {
  readonly #store: Pick<WorkerStore, "settleAndClaim">;
  readonly #report: (error: unknown, where: string) => void;
  readonly #onSettled: OnSettled<H>;
  readonly #kept = new Map<Outcome, H>();
  #timer: Timer | undefined;

  constructor(
    store: Pick<WorkerStore, "settleAndClaim">,
    report: (error: unknown, where: string) => void,
    onSettled: OnSettled<H>,
  ) {
    this.#store = store;
    this.#report = report;
    this.#onSettled = onSettled;
  }

  [Symbol.iterator](): Iterator<H> {
    return this.#kept.values();
  }

  /** Reports a refusal, and keeps the outcome if nothing was stored in its place. @returns whether there was one */
  note(holder: H, outcome: Outcome, refusal: Refusal | undefined): boolean {
    if (!refusal) return false;
    const { error, stored } = refusal;
    const { func, id } = holder.record;
    const end = stored
      ? ""
      : ", whose row the database does not let end: it stays running, and its slot is free";
    this.#report(error, `settling task "${func}" (${id})${end}`);
    if (stored) this.#onSettled(holder, stored, outcome);
    else this.#keep(holder, outcome);
    return true;
  }

  #keep(holder: H, outcome: Outcome): void {
    this.#kept.set(outcome, holder);
    this.#timer ??= this.#offerLater();
  }

  stop(): void {
    this.#timer?.clear();
    this.#kept.clear();
  }

  #offerLater(): Timer {
    return after(offerEveryMs, () => void this.#offer(), { keepAlive: false });
  }

  async #offer(): Promise<void> {
    for (const [outcome, holder] of [...this.#kept]) {
      try {
        const { settled, refused } = await this.#store.settleAndClaim({
          ...{ outcomes: [outcome], claim: undefined, givesUp: true },
        });
        const refusal = refused?.get(outcome);
        if (refusal && !refusal.stored) continue;
        if (this.#kept.delete(outcome))
          this.#onSettled(holder, settled[0] ? (refusal?.stored ?? outcome) : undefined, outcome);
      } catch {
        // The database is out of reach, which the cycles report.
      }
    }
    this.#timer = this.#kept.size > 0 ? this.#offerLater() : undefined;
  }
}
