/** Collects the lines that running tasks log, and writes them in batches, in their order. */
import { type Clock, systemClock } from "../base/runtime/clock.ts";
import { clearTimeout, setTimeout, settledWithin } from "../base/runtime/timers.ts";
import { longestLine } from "../base/tasks/history.ts";
import { beginning } from "../base/values/thrown.ts";
import type { LogLine, WorkerStore } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import { writeLines } from "./refused-notes.ts";

/** Lines that one attempt writes. Of those beyond, one last line says how many there were. */
export const mostLines = 1_000;

/** The newest lines that a task keeps, of all its attempts together. */
export const keptLines = 2_000;

/** Milliseconds for which lines are collected before they are written. */
const collectMs = 100;

/**
 * Milliseconds that the end of an attempt waits until its lines are written. A table of logs that is locked (by a maintenance
 * of the database, for an hour) must not hold the outcomes of tasks.
 */
const longestWriteMs = 10_000;

/** Lines in one statement: with the longest lines, a server's packet limit is still far away. */
export const linesPerWrite = 250;

/** What error reports name. */
const where = "writing log lines";

export class TaskLogs {
  readonly #store: Pick<WorkerStore, "log">;
  readonly #report: (error: unknown, where: string) => void;
  readonly #onWritten: () => void;
  readonly #clock: Clock;
  #lines: LogLine[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** Each waits for the write before it. */
  #waiting: (readonly LogLine[])[] = [];
  /** A write takes too long: until it has ended, outcomes do not wait for lines. */
  #isStalled = false;
  #dropped = 0;
  /** The current write and those before it. */
  #writing: Promise<void> = Promise.resolve();

  constructor(
    store: Pick<WorkerStore, "log">,
    report: (error: unknown, where: string) => void,
    onWritten: () => void = () => undefined,
    clock: Clock = systemClock,
  ) {
    this.#store = store;
    this.#report = report;
    this.#onWritten = onWritten;
    this.#clock = clock;
  }

  add({ id, generationId }: TaskRecord, message: string): void {
    this.#lines.push({ id, generationId, at: this.#clock.now(), message: beginning(message, longestLine) });
    if (this.#lines.length >= linesPerWrite) void this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), collectMs).unref();
  }

  /** Resolves when all lines that were added until now are written, or have failed; or after `limitMs` milliseconds. */
  async flush(limitMs?: number): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lines = this.#lines.splice(0);
    if (lines.length > 0) {
      this.#waiting.push(lines);
      this.#writing = this.#writing.then(() => this.#write(this.#waiting.shift() ?? []));
    }
    await settledWithin(limitMs, this.#writing);
  }

  /** `flush`, which drops the lines that wait for a write of more than 10 s. */
  async flushOrDrop(): Promise<void> {
    let written = false;
    const flushed = this.flush().then(() => {
      written = true;
    });
    await settledWithin(this.#isStalled ? 0 : longestWriteMs, flushed);
    if (!written) this.#drop();
  }

  #drop(): void {
    if (!this.#isStalled)
      this.#report(new Error(`it takes longer than ${longestWriteMs} ms: lines are dropped`), where);
    this.#isStalled = true;
    for (const lines of this.#waiting.splice(0)) this.#dropped += lines.length;
  }

  async #write(lines: readonly LogLine[]): Promise<void> {
    if (lines.length === 0) return;
    try {
      for (let i = 0; i < lines.length; i += linesPerWrite)
        await writeLines(this.#store, lines.slice(i, i + linesPerWrite), keptLines, this.#report);
      this.#onWritten();
    } catch (error) {
      this.#report(error, where);
    }
    this.#isStalled = false;
    if (this.#dropped > 0) this.#report(new Error(`${this.#dropped} lines were dropped`), where);
    this.#dropped = 0;
  }
}

/** The lines of one attempt. */
export class AttemptLog {
  readonly #logs: TaskLogs;
  readonly #record: TaskRecord;
  #lines = 0;

  constructor(logs: TaskLogs, record: TaskRecord) {
    this.#logs = logs;
    this.#record = record;
  }

  add(message: string): void {
    this.#lines += 1;
    if (this.#lines <= mostLines) this.#logs.add(this.#record, message);
  }

  /** Resolves when all lines are written; or after `limitMs` milliseconds. */
  async written(limitMs: number): Promise<void> {
    await this.#logs.flush(limitMs);
  }

  /** Adds the line about those beyond the limit, and resolves when all are written, or dropped. */
  async end(): Promise<void> {
    const dropped = this.#lines - mostLines;
    if (dropped > 0)
      this.#logs.add(
        this.#record,
        `${dropped} more lines were dropped: an attempt logs at most ${mostLines}`,
      );
    await this.#logs.flushOrDrop();
  }
}
