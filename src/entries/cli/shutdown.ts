/** Ends `dbq worker`: after signals, after an uncaught exception, and when its database file has gone. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Worker } from "../../index.ts";
import { logError } from "./database.ts";
import { jsonNote, note } from "./output.ts";
import { longestTimer } from "./parse.ts";
import { span } from "./text.ts";
import { isWatched, type ShutdownOptions, signals } from "./watch.ts";

/**
 * Milliseconds in which a second signal counts as the same one. `npm run` and `npx` pass on a Ctrl-C that the terminal has
 * already sent to the worker. Where the script's shell replaces itself by the command (bash), the worker gets the signal
 * twice, 1 ms apart. So does the process above a worker with `--watch`.
 */
const sameSignal = process.env.npm_command === undefined && !isWatched ? 0 : 50;

/** Milliseconds that `close` gets before the process exits after an uncaught exception. */
const mostClosing = 5_000;

/** The worker's events at the end of an attempt. */
export const attemptEnds = [
  "completed",
  "failed",
  "retrying",
  "cancelled",
  "snoozed",
  "interrupted",
  "lost",
] as const;

export class Shutdown {
  readonly #worker: Worker;
  readonly #options: ShutdownOptions;
  readonly #close: (() => Promise<void>) | undefined;
  #exiting: Promise<void> | undefined;
  readonly #finished: Promise<void>;
  #settle: (stopping: Promise<void>) => void = () => undefined;
  #isStopping = false;
  #signals = 0;
  #lastSignalAt = Number.NEGATIVE_INFINITY;
  readonly #running = new Set<number>();
  /** Running tasks whose code has thrown an uncaught exception. */
  readonly #culprits = new Set<number>();

  /** @param close called and awaited on the exits that do not wait for the worker to stop */
  constructor(worker: Worker, options: ShutdownOptions, close?: () => Promise<void>) {
    this.#worker = worker;
    this.#options = options;
    this.#close = close;
    this.#finished = new Promise((resolve) => {
      this.#settle = (stopping) => {
        this.#isStopping = true;
        resolve(stopping);
      };
    });
    worker.on("started", ({ id }) => this.#running.add(id));
    for (const event of attemptEnds) worker.on(event, ({ id }) => this.#hasEnded(id));
  }

  /** Resolves when the worker has stopped. */
  get finished(): Promise<void> {
    return this.#finished;
  }

  /** The first signal stops the worker with grace, the second one stops it now, the third one exits at once. */
  listen(): void {
    for (const signal of signals) process.on(signal, () => this.#onSignal(signal));
    // The command that watches this one was killed: nobody would start this worker again.
    if (isWatched) process.once("disconnect", () => this.#onSignal("SIGTERM"));
  }

  #onSignal(signal: (typeof signals)[number]): void {
    const now = performance.now();
    if (now - this.#lastSignalAt < sameSignal) return;
    this.#lastSignalAt = now;
    this.#signals += 1;
    if (this.#signals > 2) process.exit(1);
    this.#stop(signal, this.#signals === 1 ? this.#options.grace : 0);
  }

  #stop(signal: string, grace: number): void {
    const running = this.#worker.inflight;
    const reason = `${signal}: stopping${this.#signals === 1 ? "" : " now"}`;
    const rest = grace === 0 ? "handed back" : `given ${span(grace)} to finish, a second signal stops now`;
    this.#log(running === 0 ? reason : `${reason}; ${running} running: ${rest}`, { signal, running, grace });
    this.#settle(this.#worker.stop({ grace }));
  }

  #log(text: string, about: object = {}): void {
    if (this.#options.json) jsonNote({ time: new Date(), event: "stopping", message: text, ...about });
    else note(text);
  }

  /**
   * After an uncaught exception the process may be in any state: it claims no more, gives the other tasks the grace to
   * finish, and exits with code 1. A task that has thrown is left as in a crash: another worker rescues it and charges a
   * retry, so a task that always throws ends as failed. Handed back, it would run for ever.
   * @param culprit the task whose code has thrown, where that is known
   */
  crash(culprit: number | undefined): void {
    process.exitCode = 1;
    this.#log("after an uncaught exception this worker claims no more tasks, and exits with code 1");
    if (culprit !== undefined) this.#culprits.add(culprit);
    this.#exitIfAlone();
    setTimeout(() => this.#exit(), Math.min(this.#options.grace, longestTimer));
    this.#settle(this.#worker.stop({ grace: Number.POSITIVE_INFINITY }));
  }

  /** Stops with exit code 0 when the worker is idle. */
  untilIdle(): void {
    const end = (stopping: () => Promise<void>) => {
      if (!this.#isStopping) this.#settle(stopping());
    };
    const stop = () => {
      this.#log("no task of its queues is left to run: stopping");
      return this.#worker.stop({ grace: this.#options.grace });
    };
    void this.#worker.idle().then(
      () => end(stop),
      (error: unknown) => end(() => Promise.reject(error)),
    );
  }

  /** Stops now, with exit code 1: the database file has been moved, replaced or deleted. */
  leave(): void {
    process.exitCode = 1;
    this.#log(
      "the database file is no longer at its path: stopping; other workers on that file rescue its tasks",
    );
    this.#settle(this.#worker.stop({ grace: 0 }));
  }

  #hasEnded(id: number): void {
    this.#running.delete(id);
    this.#culprits.delete(id);
    this.#exitIfAlone();
  }

  /** Exits when only tasks that have thrown are left. */
  #exitIfAlone(): void {
    if (this.#culprits.size === 0) return;
    if ([...this.#running].every((id) => this.#culprits.has(id))) this.#exit();
  }

  /** Exits with code 1, at once where there is nothing to close. The task that has thrown runs until then. */
  #exit(): void {
    const close = this.#close;
    if (close === undefined) process.exit(1);
    this.#exiting ??= Promise.race([close(), sleep(mostClosing)])
      .catch((error: unknown) => logError(error, "closing", this.#options.json))
      .then(() => process.exit(1));
  }
}
