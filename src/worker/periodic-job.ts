/** Work that a worker repeats: one run at a time, and each run says when the next one is due. */
import { inRootContext } from "../base/runtime/root-context.ts";

/** Something done again and again, one run at a time: the run says when the next one is due. */
export class PeriodicJob {
  readonly #run: () => Promise<number>;
  readonly #report: (error: unknown) => void;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #again = false;
  #stopped = true;
  /** Milliseconds until the next run, at most. */
  #longest = Number.POSITIVE_INFINITY;
  /** When the next run is due, on the clock of `performance.now()`. */
  #due = 0;

  constructor(run: () => Promise<number>, report: (error: unknown) => void) {
    this.#run = run;
    this.#report = report;
  }

  start(): void {
    this.#stopped = false;
    this.now();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  /** Runs in this tick's end, or once more after the run that is under way. */
  now(): void {
    if (this.#stopped) return;
    if (this.#running) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    this.#running = inRootContext(() =>
      new Promise((resolve) => setImmediate(resolve)).then(() => this.#once()),
    );
  }

  /** Runs within this many milliseconds, after the run that is under way. */
  within(delay: number): void {
    this.#longest = Math.min(this.#longest, delay);
    if (!this.#stopped && !this.#running && this.#due > performance.now() + delay) this.#runIn(delay);
  }

  #runIn(delay: number): void {
    clearTimeout(this.#timer);
    this.#due = performance.now() + delay;
    this.#timer = setTimeout(() => this.now(), delay).unref();
  }

  async #once(): Promise<void> {
    this.#again = false;
    this.#longest = Number.POSITIVE_INFINITY;
    let next = 1_000;
    try {
      if (!this.#stopped) next = await this.#run();
    } catch (error) {
      this.#report(error);
    }
    this.#running = undefined;
    if (this.#stopped) return;
    if (this.#again) this.now();
    else this.#runIn(Math.min(next, this.#longest));
  }
}
