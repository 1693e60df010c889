/** Counts the failures of one worker in memory, by kind and minute, and adds them to the table every 10 s and at its stop. */
import { type FailureKind, failureKindOf, otherFailures } from "../../base/values/failure-kind.ts";
import { toAscii } from "../../base/values/storable.ts";
import { anotherTryAfter, OutcomeUnknownError } from "../../errors.ts";
import type { AttemptRecord } from "../../store.ts";
import type { MeteredTask, MeterHost, MeterPart } from "../../worker/meter.ts";
import { PeriodicWriter } from "../../worker/periodic-writer.ts";
import { type CountedFailures, type FailureStore, mostKinds } from "./contract.ts";

/** Milliseconds between two writes. */
export const writeEvery = 10_000;
const minuteMs = 60_000;

/** What error reports name. */
const where = "counting failures";

/** Kinds by minute. Of each minute there are at most `mostKinds`, and one more for each function. */
class Tallies {
  readonly #byKey = new Map<string, CountedFailures>();
  readonly #kinds = new Map<number, number>();

  get all(): CountedFailures[] {
    return [...this.#byKey.values()];
  }

  add(counted: CountedFailures): void {
    const known = this.#byKey.get(keyOf(counted));
    if (known) addTo(known, counted);
    else this.#addNew(counted);
  }

  #addNew(counted: CountedFailures): void {
    const { minute, func, id } = counted;
    const others = otherFailures(func);
    const kinds = this.#kinds.get(minute) ?? 0;
    if (kinds >= mostKinds && id !== others.id) {
      this.add({ ...counted, ...others });
      return;
    }
    this.#byKey.set(keyOf(counted), { ...counted });
    this.#kinds.set(minute, kinds + 1);
  }
}

const inAscii = (counted: CountedFailures): CountedFailures => ({
  ...counted,
  errorName: toAscii(counted.errorName),
  message: toAscii(counted.message),
});

const isAscii = (counted: CountedFailures): boolean => {
  const { errorName, message } = inAscii(counted);
  return errorName === counted.errorName && message === counted.message;
};

const keyOf = ({ id, minute }: CountedFailures): string => `${minute} ${id}`;

function addTo(known: CountedFailures, { count, firstAt, lastAt, sample }: CountedFailures): void {
  known.count += count;
  known.firstAt = Math.min(known.firstAt, firstAt);
  known.lastAt = Math.max(known.lastAt, lastAt);
  known.sample = Math.max(known.sample, sample);
}

export class FailureRecorder implements MeterPart {
  readonly #store: Pick<FailureStore, "add">;
  readonly #now: () => number;
  readonly #writer: PeriodicWriter;
  #fresh = new Tallies();
  #hasBegun = false;

  constructor(store: Pick<FailureStore, "add">, { report }: Pick<MeterHost, "report">, now: () => number) {
    this.#store = store;
    this.#now = now;
    const writing = { name: where, write: () => this.#write(), next: () => writeEvery };
    this.#writer = new PeriodicWriter(writing, report);
  }

  failed({ id: sample, func }: MeteredTask, attempt: AttemptRecord): void {
    const kind: FailureKind | undefined = failureKindOf(func, attempt);
    if (!kind) return;
    const now = this.#now();
    const minute = Math.floor(now / minuteMs) * minuteMs;
    this.#fresh.add({ ...kind, minute, count: 1, firstAt: now, lastAt: now, sample });
    // Without failures there is no timer.
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.#writer.start();
  }

  async close(): Promise<void> {
    await this.#writer.close();
  }

  /** A database whose encoding lacks a character gets an escape in its place: the ids of kinds do not depend on it. */
  async #add(taken: readonly CountedFailures[]): Promise<void> {
    try {
      await this.#store.add(taken);
    } catch (error) {
      if (anotherTryAfter(error) !== "fails" || taken.every(isAscii)) throw error;
      await this.#store.add(taken.map(inAscii));
    }
  }

  async #write(): Promise<void> {
    const taken = this.#fresh.all;
    if (taken.length === 0) return;
    this.#fresh = new Tallies();
    try {
      await this.#add(taken);
    } catch (error) {
      // They count in the next write. An answer that was lost is no failure: they may be counted already.
      if (!(error instanceof OutcomeUnknownError)) for (const counted of taken) this.#fresh.add(counted);
      throw error;
    }
  }
}
