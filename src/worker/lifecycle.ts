/**
 * The starts and stops of a worker, a drain or a Manager: they run one after another, a stop gives what runs some time to
 * end, and then the steps of the start are undone.
 */
import { after, limited, performance, sleep, type Timer } from "../base/runtime/timers.ts";

/** What runs between a start and its stop. */
export interface Running {
  /** Begins nothing from now on. */
  stopClaiming(): void;
  /** Resolves when nothing runs any more, or after `abandon`. */
  drained(): Promise<void>;
  /** Ends what runs: the grace is over. */
  interrupt(): void;
  /** Gives up what has not ended although it was interrupted. */
  abandon(): void;
}

/** Several as one. */
export const together = (all: readonly Running[]): Running => ({
  stopClaiming: () => {
    for (const each of all) each.stopClaiming();
  },
  drained: async () => {
    await Promise.all(all.map((each) => each.drained()));
  },
  interrupt: () => {
    for (const each of all) each.interrupt();
  },
  abandon: () => {
    for (const each of all) each.abandon();
  },
});

export interface LifecycleOptions {
  /** Names what starts and stops in error reports, such as "the worker". */
  of: string;
  /** Milliseconds between `interrupt` and `abandon`; also the limit of each step that undoes the start. */
  finalMs: number;
  report(error: unknown, where: string): void;
}

export class Lifecycle {
  readonly #options: LifecycleOptions;
  /** The last start or stop that was asked for. */
  #last: { kind: "start" | "stop"; done: Promise<void>; over: boolean } = stopped();
  #running: Running | undefined;
  /** In the order of the start. */
  #steps: (() => unknown)[] = [];
  /** When the grace of the current stop ends, on the clock of `performance.now()`. */
  #graceEnds = Number.POSITIVE_INFINITY;
  #timer: Timer | undefined;

  constructor(options: LifecycleOptions) {
    this.#options = options;
  }

  /** Whether a start was asked for last, not a stop. */
  get isWanted(): boolean {
    return this.#last.kind === "start";
  }

  // ---- start ---------------------------------------------------------------------------------

  /** Repeated calls share the pending start. One that fails is undone, and the next call tries again. */
  start(act: () => Promise<void>): Promise<void> {
    return this.#next("start", async () => {
      try {
        await this.#try(act);
      } catch (error) {
        if (this.isWanted) this.#last = stopped();
        throw error;
      }
    });
  }

  /** Undoes the start, and starts again until that succeeds or a stop is asked for. No caller waits for it. */
  restart(act: () => Promise<void>, pauseMs: number): void {
    this.#append("start", async () => {
      await this.#undo();
      while (this.isWanted) {
        try {
          return await this.#try(act);
        } catch (error) {
          this.#options.report(error, `starting ${this.#options.of} again`);
          await sleep(pauseMs);
        }
      }
    });
  }

  /** For a start: a stop ends this. */
  runs(running: Running): void {
    this.#running = running;
  }

  /** For a start: a stop takes these steps, the last one first. */
  onStop(...steps: (() => unknown)[]): void {
    this.#steps.push(...steps);
  }

  async #try(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      await this.#undo();
      throw error;
    }
  }

  // ---- one after another ---------------------------------------------------------------------

  /** Repeated calls share the pending start or stop. */
  #next(kind: "start" | "stop", act: () => Promise<void>): Promise<void> {
    if (this.#last.kind !== kind) this.#append(kind, act);
    return this.#last.done;
  }

  #append(kind: "start" | "stop", act: () => Promise<void>): void {
    const done = this.#last.done.catch(() => undefined).then(act);
    const last = { kind, done, over: false };
    this.#last = last;
    const end = () => {
      last.over = true;
    };
    done.then(end, end);
  }

  // ---- stop ----------------------------------------------------------------------------------

  /**
   * Begins nothing new, lets what runs end within `grace` milliseconds, and undoes the start. Repeated calls share the
   * pending stop, and the shortest grace counts.
   * @param act does what else belongs to the stop around `end`, which stops
   */
  async stop(grace: number, act = (end: () => Promise<void>) => end()): Promise<void> {
    if (!this.isWanted && this.#last.over) return;
    const done = this.#next("stop", () => act(() => this.#end()));
    this.#graceEnds = Math.min(this.#graceEnds, performance.now() + grace);
    this.#startGrace();
    await done;
  }

  #startGrace(): void {
    const running = this.#running;
    if (!running) return;
    running.stopClaiming();
    this.#timer?.clear();
    const left = this.#graceEnds - performance.now();
    const end = () => {
      running.interrupt();
      this.#timer = after(this.#options.finalMs, () => running.abandon());
    };
    if (left <= 0) end();
    else this.#timer = after(left, end);
  }

  async #end(): Promise<void> {
    this.#startGrace();
    await this.#running?.drained();
    this.#running = undefined;
    this.#timer?.clear();
    await this.#undo();
    this.#graceEnds = Number.POSITIVE_INFINITY;
  }

  /** Each step has a time limit, so that a locked database cannot block a stop. */
  async #undo(): Promise<void> {
    this.#running = undefined;
    for (const step of this.#steps.splice(0).reverse()) {
      try {
        await limited(this.#options.finalMs, step);
      } catch (error) {
        this.#options.report(error, `stopping ${this.#options.of}`);
      }
    }
  }
}

function stopped() {
  return { kind: "stop" as const, done: Promise.resolve(), over: true };
}
