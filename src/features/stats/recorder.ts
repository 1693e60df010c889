/** Counts the attempts of one worker in memory, and writes them every 10 s and at its stop. */
import { Histogram } from "../../base/values/histogram.ts";
import { OutcomeUnknownError } from "../../errors.ts";
import type { OutcomeKind } from "../../store.ts";
import type { MeteredTask, MeterHost, MeterPart } from "../../worker/meter.ts";
import { PeriodicWriter } from "../../worker/periodic-writer.ts";
import type { Counted, CountedNow, StatsStore } from "./contract.ts";

/** Milliseconds between two writes. */
export const writeEvery = 10_000;
const minuteMs = 60_000;

/** What error reports name. */
const where = "writing statistics";

/** The generation of a task that was claimed for the first time, without having been scheduled before. */
const firstClaim = 2;

/** The attempts of one function of one queue that ended in one way. */
class Tally {
  readonly queueName: string;
  readonly func: string;
  readonly outcome: string;
  #count = 0;
  readonly #wait = new Histogram();
  readonly #run = new Histogram();

  constructor({ queueName, func }: Pick<MeteredTask, "queueName" | "func">, outcome: string) {
    this.queueName = queueName;
    this.func = func;
    this.outcome = outcome;
  }

  isOf({ queueName, func }: MeteredTask, outcome: string): boolean {
    return this.func === func && this.outcome === outcome && this.queueName === queueName;
  }

  add(waitMs: number | undefined, ranMs: number | undefined): void {
    this.#count += 1;
    if (waitMs !== undefined) this.#wait.add(waitMs);
    if (ranMs !== undefined) this.#run.add(ranMs);
  }

  merge(other: Tally | undefined): this {
    if (other === undefined) return this;
    this.#count += other.#count;
    this.#wait.merge(other.#wait);
    this.#run.merge(other.#run);
    return this;
  }

  get counted(): Counted {
    return { count: this.#count, waitBuckets: this.#wait.encode(), runBuckets: this.#run.encode() };
  }
}

/** Tallies by queue, function and outcome. */
class Tallies {
  readonly #byKey = new Map<string, Tally>();
  /** Most tasks are like the one before: a look here takes a quarter of one into the map. */
  #last: Tally | undefined;

  get all(): Tally[] {
    return [...this.#byKey.values()];
  }

  find(task: Pick<MeteredTask, "queueName" | "func">, outcome: string): Tally | undefined {
    return this.#byKey.get(keyOf(task, outcome));
  }

  of(task: MeteredTask, outcome: string): Tally {
    if (this.#last?.isOf(task, outcome)) return this.#last;
    this.#last = this.find(task, outcome) ?? this.#add(new Tally(task, outcome));
    return this.#last;
  }

  merge(others: Tallies): void {
    for (const other of others.all)
      (this.find(other, other.outcome) ?? this.#add(new Tally(other, other.outcome))).merge(other);
  }

  #add(tally: Tally): Tally {
    this.#byKey.set(keyOf(tally, tally.outcome), tally);
    return tally;
  }
}

const keyOf = ({ queueName, func }: Pick<MeteredTask, "queueName" | "func">, outcome: string) =>
  `${outcome} ${queueName.length} ${queueName}${func}`;

const minuteOf = (time: number): number => Math.floor(time / minuteMs) * minuteMs;

export class Recorder implements MeterPart {
  readonly #store: Pick<StatsStore, "write">;
  readonly #workerId: string;
  readonly #now: () => number;
  readonly #writer: PeriodicWriter;
  #fresh = new Tallies();
  /** What was written of the current minute. */
  #written = new Tallies();
  #minute: number;

  constructor(store: Pick<StatsStore, "write">, { workerId, report }: MeterHost, now = () => Date.now()) {
    this.#store = store;
    this.#workerId = workerId;
    this.#now = now;
    this.#minute = minuteOf(now());
    const writing = { name: where, write: () => this.#write(), next: () => this.#next() };
    this.#writer = new PeriodicWriter(writing, report);
    this.#writer.start();
  }

  /** Called for every task: no object, no clock. The minute is that in which the last write was due. */
  ended(task: MeteredTask, kind: OutcomeKind, ranMs: number | undefined): void {
    if (kind !== "interrupted") this.#fresh.of(task, kind).add(waitOf(task), ranMs);
  }

  async close(): Promise<void> {
    await this.#writer.close();
  }

  /** The next write is due in 10 s, or when the minute ends. @returns milliseconds until then */
  #next(): number {
    const minute = minuteOf(this.#now());
    if (minute !== this.#minute) this.#written = new Tallies();
    this.#minute = minute;
    return Math.max(1, Math.min(writeEvery, this.#minute + minuteMs - this.#now()));
  }

  async #write(): Promise<void> {
    const taken = this.#fresh;
    if (taken.all.length === 0) return;
    this.#fresh = new Tallies();
    const minute = this.#minute;
    try {
      await this.#store.write(
        this.#workerId,
        minute,
        taken.all.map((tally) => this.#row(tally)),
      );
      this.#written.merge(taken);
    } catch (error) {
      // They count in the next write. An answer that was lost is no failure: they may be counted already.
      if (!(error instanceof OutcomeUnknownError)) this.#fresh.merge(taken);
      throw error;
    }
  }

  #row(tally: Tally): CountedNow {
    const { queueName, func, outcome, counted: fresh } = tally;
    const written = this.#written.find(tally, outcome);
    const total = written ? new Tally(tally, outcome).merge(written).merge(tally).counted : fresh;
    return { queueName, func, outcome, total, fresh };
  }
}

/**
 * Milliseconds from when a task was enqueued or became due to its claim, by the database's clock. Undefined where its row does
 * not tell when it became pending: after a rescue, a hand-back or a retry by hand.
 */
function waitOf({ createdAt, waitUntil, startedAt, generationId }: MeteredTask): number | undefined {
  if (startedAt === null || (waitUntil === null && generationId !== firstClaim)) return undefined;
  const since = waitUntil !== null && waitUntil > createdAt ? waitUntil : createdAt;
  return startedAt > since ? startedAt - since : 0;
}
