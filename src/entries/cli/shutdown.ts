/** How `dbq worker` ends: by signals, which it promises to hear, or by an exception that nobody caught. */
import type { Worker } from "../../index.ts";
import { note } from "./output.ts";
import { span } from "./text.ts";

const signals = ["SIGTERM", "SIGINT"] as const;

/**
 * `npm run` and `npx` pass on a Ctrl-C that the terminal has sent to the worker too: under them a signal comes twice,
 * 1 ms apart, where the script's shell replaces itself by the command (bash). Milliseconds.
 */
const sameSignal = process.env.npm_command === undefined ? 0 : 50;

/** The longest delay that `setTimeout` takes, in milliseconds: 24 days. */
const longestTimer = 2_147_483_647;

/** What a worker tells when an attempt has ended, however. */
export const endings = [
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
  readonly #grace: number;
  readonly #finished: Promise<void>;
  #settle: (stopping: Promise<void>) => void = () => undefined;
  #signals = 0;
  #last = Number.NEGATIVE_INFINITY;
  readonly #running = new Set<number>();
  readonly #culprits = new Set<number>();

  /** @param grace milliseconds */
  constructor(worker: Worker, grace: number) {
    this.#worker = worker;
    this.#grace = grace;
    this.#finished = new Promise((resolve) => {
      this.#settle = resolve;
    });
    worker.on("started", ({ id }) => this.#running.add(id));
    for (const event of endings) worker.on(event, ({ id }) => this.#hasEnded(id));
  }

  /** Resolves when the worker has stopped. */
  get finished(): Promise<void> {
    return this.#finished;
  }

  /** The first signal stops the worker gracefully, a second one now; a third one ends the process as it is. */
  listen(): void {
    for (const signal of signals) process.on(signal, () => this.#onSignal(signal));
  }

  #onSignal(signal: (typeof signals)[number]): void {
    const now = performance.now();
    if (now - this.#last < sameSignal) return;
    this.#last = now;
    this.#signals += 1;
    if (this.#signals === 1) this.#stop(`${signal}: stopping`, this.#grace);
    else if (this.#signals === 2) this.#stop(`${signal}: stopping now`, 0);
    else process.exit(1);
  }

  #stop(why: string, grace: number): void {
    const { inflight } = this.#worker;
    const rest = grace === 0 ? "handed back" : `given ${span(grace)} to finish, a second signal stops now`;
    note(inflight === 0 ? why : `${why}; ${inflight} running: ${rest}`);
    this.#settle(this.#worker.stop({ grace }));
  }

  /**
   * After an exception that nobody caught the process is not to be trusted any more: it claims nothing, gives the
   * others the grace to finish, and ends with code 1. Tasks that threw are left as any crash leaves them: rescued and
   * charged, so that one which does this each time ends as failed, instead of being handed back for ever.
   * @param culprit the task whose code threw, where that is known
   */
  crash(culprit: number | undefined): void {
    process.exitCode = 1;
    note("the process is not to be trusted any more: it claims no more tasks and ends with exit code 1");
    if (culprit !== undefined) this.#culprits.add(culprit);
    this.#exitIfAlone();
    setTimeout(() => process.exit(1), Math.min(this.#grace, longestTimer));
    this.#settle(this.#worker.stop({ grace: Number.POSITIVE_INFINITY }));
  }

  /** The database is gone from under it: whoever started it may start it anew, on what is there now. */
  leave(): void {
    process.exitCode = 1;
    note("the database is not at its path any more: stopping, what is running is left to whoever has it now");
    this.#settle(this.#worker.stop({ grace: 0 }));
  }

  #hasEnded(id: number): void {
    this.#running.delete(id);
    this.#culprits.delete(id);
    this.#exitIfAlone();
  }

  /** Nothing runs but tasks that threw. */
  #exitIfAlone(): void {
    if (this.#culprits.size === 0) return;
    if ([...this.#running].every((id) => this.#culprits.has(id))) process.exit(1);
  }
}
