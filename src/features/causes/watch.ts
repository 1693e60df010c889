/**
 * `queue.watchCauses`: what begins to be wrong and what ends, reported once for each name, whatever the number of processes that
 * watch. One of them has a lease in the database, looks, and reports; the others stand by. A report counts once the app asks for the
 * next one: until then the database has it, and the next reporter reports it again.
 */
import { createHash, randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { hostname } from "node:os";
import { duration, label, type Reader, readOptions, signal, wrong } from "../../base/options/validators.ts";
import { type Clock, systemClock } from "../../base/runtime/clock.ts";
import { endedBy } from "../../base/runtime/ended-by.ts";
import { inRootContext } from "../../base/runtime/root-context.ts";
import { settledWithin, type Timer } from "../../base/runtime/timers.ts";
import { QueueClosedError } from "../../errors.ts";
import { report as reportError } from "../../events.ts";
import { internalsOf, type Queue } from "../queue.ts";
import type { CauseReport, CauseReportStore, FoundCause } from "./contract.ts";
import type { Cause, CauseChange, WatchCausesOptions } from "./methods.ts";

/** Milliseconds between two looks. */
const usualEvery = 10_000;
const everyLimits = { min: 100, max: 3_600_000 };

/** Looks that a reporter may miss until another one takes over. */
const looksOfLease = 3;

/** Milliseconds after which an app that has not dealt with a report is taken for one that hangs: another process reports it. */
const longestDealing = 300_000;

/** Milliseconds that an end waits for the database to take the lease back. */
const longestRelease = 2_000;

/** Characters of a key that the database keeps. */
const longestKey = 255;

/** What error reports name. */
const where = "watching causes";

/** MySQL compares names without the spaces at their ends. */
const watchName: Reader<string> = (value, name) => {
  const read = label(value, name);
  if (read.trim() === read) return read;
  throw wrong(name, "a name without white space at its ends", value);
};

type ReadOptions = Required<Pick<WatchCausesOptions, "name">> & { every: number; signal?: AbortSignal };

/** @throws TypeError */
function readWatchCauses(given: unknown): ReadOptions {
  if (given === undefined) throw wrong("watchCauses", 'an object such as { name: "slack" }', given);
  const { name, ...read } = readOptions(given, "watchCauses", {
    name: watchName,
    every: duration(everyLimits),
    signal,
  });
  if (name === undefined) throw wrong("watchCauses: name", 'a name such as "slack"', name);
  return { every: usualEvery, ...read, name };
}

/** What the looks of a watch need. */
interface Host {
  readonly reports: CauseReportStore;
  readonly clock: Clock;
  listCauses(): Promise<Cause[]>;
  /** Milliseconds without a cause until it has ended. */
  endedAfter(): Promise<number>;
}

/** The watches of a queue. */
export class CauseWatches {
  readonly #host: Host;
  readonly #beforeClose: Set<() => Promise<void>>;

  constructor(queue: Queue, endedAfter: () => Promise<number>) {
    const { store, options, beforeClose } = internalsOf(queue);
    this.#host = {
      reports: store.causes.reports,
      clock: options.clock ?? systemClock,
      listCauses: () => queue.listCauses(),
      endedAfter,
    };
    this.#beforeClose = beforeClose;
  }

  /** @throws TypeError for a wrong option; while iterating: `signal.reason`, QueueClosedError, DatabaseError */
  watch(given: unknown): AsyncGenerator<CauseChange, void, undefined> {
    const options = readWatchCauses(given);
    const watch = new CauseWatch(this.#host, options);
    return endedBy(this.#changesOf(watch, options.signal), () => watch.end());
  }

  async *#changesOf(
    watch: CauseWatch,
    aborted: AbortSignal | undefined,
  ): AsyncGenerator<CauseChange, void, undefined> {
    const onAbort = () => watch.end(aborted?.reason);
    const onClose = () => watch.close();
    aborted?.throwIfAborted();
    // Many watches may share one signal; that is no leak.
    if (aborted) setMaxListeners(0, aborted);
    aborted?.addEventListener("abort", onAbort);
    this.#beforeClose.add(onClose);
    try {
      watch.start();
      for (let report = await watch.next(); report; report = await watch.next()) {
        yield { type: report.type, cause: causeIn(report.cause) };
        await watch.acknowledge();
      }
    } finally {
      aborted?.removeEventListener("abort", onAbort);
      await watch.stop();
      this.#beforeClose.delete(onClose);
    }
  }
}

/** One iterator: it reports, or stands by while another one does. */
class CauseWatch {
  readonly #host: Host;
  readonly #name: string;
  readonly #every: number;
  readonly #id = `${hostname().slice(0, 80)}:${process.pid}:${randomBytes(6).toString("hex")}`;
  #timer: Timer | undefined;
  /** The looks and acknowledgements, one after the other. */
  #last: Promise<unknown> = Promise.resolve();
  /** It has the lease, as far as it knows. */
  #isReporter = false;
  #hasLooked = false;
  #isFailing = false;
  /** What the app has not been given yet. */
  #reports: CauseReport[] = [];
  /** What the app has, and since when, on the monotonic clock. */
  #given: { report: CauseReport; since: number } | undefined;
  /** What the app has dealt with, and the database could not be told. */
  #dealtWith: CauseReport[] = [];
  #wake: () => void = () => undefined;
  #ended: { error?: unknown } | undefined;

  constructor(host: Host, { name, every }: ReadOptions) {
    this.#host = host;
    this.#name = name;
    this.#every = every;
  }

  /** Looks now, and then again and again. */
  start(): void {
    void inRootContext(() => this.#look());
  }

  /** The next report for the app; undefined: the app wants no more. @throws with what the watch was ended */
  async next(): Promise<CauseReport | undefined> {
    for (;;) {
      if (this.#ended && "error" in this.#ended) throw this.#ended.error;
      if (this.#ended) return undefined;
      const report = this.#reports.shift();
      if (report) {
        this.#given = { report, since: this.#host.clock.monotonic() };
        return report;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** The app has dealt with the report that it was given last. */
  async acknowledge(): Promise<void> {
    await this.#alone(async () => {
      if (this.#given) this.#dealtWith.push(this.#given.report);
      this.#given = undefined;
      await this.#tellDealtWith().catch((error) => this.#onFailure(error));
    });
  }

  /** Ends the looks. A report that the app has keeps its lease until the app comes back. @param error what `next` throws */
  end(...error: [error?: unknown]): void {
    this.#ended ??= error.length === 0 ? {} : { error: error[0] };
    this.#timer?.clear();
    this.#wake();
  }

  /** Takes back the lease. */
  async stop(): Promise<void> {
    this.end();
    const release = this.#alone(async () => {
      if (!this.#isReporter) return;
      this.#isReporter = false;
      await this.#host.reports.release(this.#name, this.#id);
    });
    await settledWithin(longestRelease, release);
  }

  /** The queue closes: what the app has is reported again. */
  async close(): Promise<void> {
    this.end(new QueueClosedError());
    this.#given = undefined;
    await this.stop();
  }

  // ---- looks -----------------------------------------------------------------------------------

  async #alone<T>(act: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const acted = before.then(act, act);
    this.#last = acted.catch(() => undefined);
    return await acted;
  }

  #lookAfter(wait: number): void {
    if (this.#ended) return;
    if (wait === 0) this.start();
    else this.#timer = this.#host.clock.after(wait, () => this.start());
  }

  async #look(): Promise<void> {
    let wait = this.#every;
    try {
      wait = await this.#alone(() => this.#step());
      this.#isFailing = false;
    } catch (error) {
      this.#onFailure(error);
    }
    this.#hasLooked = true;
    this.#lookAfter(wait);
  }

  /** The first failure is the app's: its database user may have no right to the table. Later ones pass. */
  #onFailure(error: unknown): void {
    if (this.#ended) return;
    if (!this.#hasLooked) this.end(error);
    else if (!this.#isFailing) reportError(error, where);
    this.#isFailing = true;
  }

  /** @returns milliseconds until the next look */
  async #step(): Promise<number> {
    const { reports, listCauses, endedAfter } = this.#host;
    if (this.#ended) return this.#every;
    if (this.#hangs()) return await this.#standBack();
    const own = { name: this.#name, reporter: this.#id, lease: looksOfLease * this.#every };
    if (!this.#isReporter) {
      const left = await reports.take(own);
      if (left > 0) return Math.min(left, this.#every);
      this.#isReporter = true;
    }
    await this.#tellDealtWith();
    const found = new Map((await listCauses()).map((cause) => [cause.key, cause]));
    const unreported = await reports.record(own, [...found.values()].map(toFound), await endedAfter());
    if (!unreported) return this.#loseLease();
    this.#reports = unreported.filter((report) => !isSame(report, this.#given?.report));
    this.#wake();
    return this.#every;
  }

  /** Reports that are not acknowledged are left to the one that has the lease. */
  #loseLease(): number {
    this.#isReporter = false;
    this.#reports = [];
    return 0;
  }

  async #tellDealtWith(): Promise<void> {
    for (let report = this.#dealtWith[0]; report; report = this.#dealtWith[0]) {
      if (!(await this.#host.reports.acknowledge(report, this.#id))) this.#loseLease();
      this.#dealtWith.shift();
    }
  }

  #hangs(): boolean {
    return this.#given !== undefined && this.#host.clock.monotonic() - this.#given.since > longestDealing;
  }

  async #standBack(): Promise<number> {
    if (this.#isReporter) await this.#host.reports.release(this.#name, this.#id);
    this.#loseLease();
    return this.#every;
  }
}

const isSame = (a: CauseReport, b: CauseReport | undefined): boolean => a.id === b?.id && a.type === b.type;

const toFound = (cause: Cause): FoundCause => ({ key: storedKey(cause.key), cause: JSON.stringify(cause) });

/** An index has no room for a long key, and MySQL compares without the spaces at the end. */
export function storedKey(key: string): string {
  if (key.length <= longestKey && key.trimEnd() === key) return key;
  const hash = createHash("sha256").update(key).digest("hex");
  return `${key.slice(0, longestKey - hash.length - 1).toWellFormed()}:${hash}`;
}

function causeIn(text: string): Cause {
  const { since, nextAt, ...cause } = JSON.parse(text) as Cause;
  return { ...cause, since: new Date(since), ...(nextAt === undefined ? {} : { nextAt: new Date(nextAt) }) };
}
