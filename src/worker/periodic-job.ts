import { type Clock, systemClock } from "../base/runtime/clock.ts";
import { inRootContext } from "../base/runtime/root-context.ts";
import { clearTimeout, performance, setImmediate, setTimeout } from "../base/runtime/timers.ts";
import type { WithParts } from "../base/tasks/part.ts";
import type { TaskDefinition } from "../base/tasks/registry.ts";
import type { TaskRecord } from "../task.ts";
import type { Running } from "./lifecycle.ts";

/** Milliseconds until the next run after one that threw. */
const afterFailure = 1_000;

/** No timer runs longer: after a clock jump or a lost notification the next run is at most this late. */
export const longestSleep = 60_000;

/** Periodic background work. */
export interface Job {
  /** Names it in error reports, such as "promoting due tasks". */
  readonly name: string;
  /** @returns milliseconds until the next run */
  run(): Promise<number>;
  /** Milliseconds until the next run after one that threw. @default 1_000 */
  readonly afterFailure?: number;
  /**
   * Called each time that the maintenance has looked at what is due: once a second, and after wake-ups. The seam for a job
   * that would have to ask the same again.
   * @param found `parts`: what looks of features have found there
   * @returns milliseconds until the next run, at most; undefined: as before
   */
  dueIn?(found: WithParts): number | undefined;
  /** The work that a run began and that still goes on. A stop waits for it within its grace, as for tasks. */
  readonly running?: Running;
}

/** What a feature's job may need from the worker that runs it. */
export interface JobHost {
  readonly workerId: string;
  /** The app's code that it runs; undefined: a drain and a Manager run none. */
  readonly code?: HostedCode | undefined;
  /** Tasks became pending. `hasEnded`: or tasks were ended. */
  onWork(hasEnded?: boolean): void;
  /** Reports an error that stops only a part of the job, or changes nothing: a hook threw. */
  report(error: unknown, where: string): void;
}

/** The functions of a worker. */
export interface HostedCode {
  /** Undefined: the worker does not run the tasks of this function in this queue. */
  definitionOf(queueName: string, func: string): TaskDefinition | undefined;
  /** Its option `context`. */
  readonly context: unknown;
  /** Runs at once, beside the slots, the tasks that a feature claims for this worker. */
  takeOn(claim: () => Promise<readonly TaskRecord[]>): Promise<void>;
}

/** Runs a job again and again, one run at a time. A run that throws is reported, and the next one comes a second later. */
export class PeriodicJob {
  readonly #job: Job;
  readonly #report: (error: unknown, where: string) => void;
  readonly #clock: Clock;
  #ignoreSteps = () => {};
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #again = false;
  #stopped = true;
  /** Milliseconds until the next run, at most. */
  #longest = Number.POSITIVE_INFINITY;
  /** When the next run is due, on the clock of `performance.now()`. */
  #due = 0;

  /** @param clock after each step of it, the job runs @default the host's */
  constructor(job: Job, report: (error: unknown, where: string) => void, clock: Clock = systemClock) {
    this.#job = job;
    this.#report = report;
    this.#clock = clock;
  }

  start(): void {
    this.#stopped = false;
    this.#ignoreSteps = this.#clock.onStep(() => this.now());
    this.now();
  }

  /** Resolves when the run that is under way has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#ignoreSteps();
    clearTimeout(this.#timer);
    await this.#running;
  }

  /** Runs at the end of this tick, or once more after the run that is under way. */
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

  /** Runs sooner, if what is due says so. */
  hear(found: WithParts): void {
    const delay = this.#job.dueIn?.(found);
    if (delay !== undefined) this.within(delay);
  }

  /** Runs within this many milliseconds, counted from the end of the run that is under way. */
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
    let next = this.#job.afterFailure ?? afterFailure;
    try {
      if (!this.#stopped) next = await this.#job.run();
    } catch (error) {
      this.#report(error, this.#job.name);
    }
    this.#running = undefined;
    if (this.#stopped) return;
    if (this.#again) this.now();
    else this.#runIn(Math.min(next, this.#longest));
  }
}
