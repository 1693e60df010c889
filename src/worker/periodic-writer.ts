/** Writes what a meter has counted, again and again, and once more at its close. */
import type { MeterHost } from "./meter.ts";
import { PeriodicJob } from "./periodic-job.ts";

interface Writing {
  /** What error reports name. */
  name: string;
  /** Writes what was counted since the last write. */
  write(): Promise<void>;
  /** Called after each write, also after one that has failed. @returns milliseconds until the next one */
  next(): number;
}

export class PeriodicWriter {
  readonly #writing: Writing;
  readonly #report: MeterHost["report"];
  readonly #job: PeriodicJob;
  /** A database that refuses the counts, for the lack of a right or of the table, is reported once. */
  #isFailing = false;

  constructor(writing: Writing, report: MeterHost["report"]) {
    this.#writing = writing;
    this.#report = report;
    const { name } = writing;
    this.#job = new PeriodicJob({ name, run: () => this.#run() }, (error) => this.#reportOnce(error));
  }

  start(): void {
    this.#job.start();
  }

  async close(): Promise<void> {
    await this.#job.stop();
    try {
      await this.#writing.write();
    } catch (error) {
      this.#reportOnce(error);
    }
  }

  async #run(): Promise<number> {
    let next: number;
    try {
      await this.#writing.write();
      this.#isFailing = false;
    } finally {
      next = this.#writing.next();
    }
    return next;
  }

  #reportOnce(error: unknown): void {
    if (!this.#isFailing) this.#report(error, this.#writing.name);
    this.#isFailing = true;
  }
}
