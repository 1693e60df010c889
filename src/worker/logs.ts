/** Collects the lines that running tasks log, and writes them in batches, in their order. */
import { clearTimeout, limited, setTimeout } from "../base/runtime/timers.ts";
import { beginning } from "../base/values/thrown.ts";
import type { LogLine, WorkerStore } from "../store.ts";
import type { TaskRecord } from "../task.ts";

/** UTF-16 units of a line that are stored; the rest is cut off. */
const longestLine = 2_000;

/** Lines that one attempt writes. Of those beyond, one last line says how many there were. */
const mostLines = 1_000;

/** The newest lines that a task keeps, of all its attempts together. */
const keptLines = 2_000;

/** Milliseconds for which lines are collected before they are written. */
const collectMs = 100;

/** Lines in one statement: with the longest lines, a server's packet limit is still far away. */
const linesPerWrite = 250;

export class TaskLogs {
  readonly #store: Pick<WorkerStore, "log">;
  readonly #report: (error: unknown, where: string) => void;
  readonly #onWritten: () => void;
  #lines: LogLine[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** The current write and those before it. */
  #writing: Promise<void> = Promise.resolve();

  constructor(
    store: Pick<WorkerStore, "log">,
    report: (error: unknown, where: string) => void,
    onWritten: () => void = () => undefined,
  ) {
    this.#store = store;
    this.#report = report;
    this.#onWritten = onWritten;
  }

  add({ id, generationId }: TaskRecord, message: string): void {
    this.#lines.push({ id, generationId, at: Date.now(), message: beginning(message, longestLine) });
    if (this.#lines.length >= linesPerWrite) void this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), collectMs).unref();
  }

  /** Resolves when all lines that were added until now are written, or have failed; or after `limitMs` milliseconds. */
  async flush(limitMs?: number): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lines = this.#lines.splice(0);
    if (lines.length > 0) this.#writing = this.#writing.then(() => this.#write(lines));
    const writing = this.#writing;
    if (limitMs === undefined) await writing;
    else await limited(limitMs, () => writing).catch(() => undefined);
  }

  async #write(lines: readonly LogLine[]): Promise<void> {
    try {
      for (let i = 0; i < lines.length; i += linesPerWrite)
        await this.#store.log(lines.slice(i, i + linesPerWrite), keptLines);
      this.#onWritten();
    } catch (error) {
      this.#report(error, "writing log lines");
    }
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
  async written(limitMs?: number): Promise<void> {
    await this.#logs.flush(limitMs);
  }

  /** Adds the line about those that were dropped, and resolves when all are written. */
  async end(): Promise<void> {
    const dropped = this.#lines - mostLines;
    if (dropped > 0)
      this.#logs.add(
        this.#record,
        `${dropped} more lines were dropped: an attempt logs at most ${mostLines}`,
      );
    await this.written();
  }
}
