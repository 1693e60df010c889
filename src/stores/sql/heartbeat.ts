/** Keeps the thread that beats for a worker going, and beats in its place while it does not. */
import { Worker as Thread } from "node:worker_threads";
import { report } from "../../events.ts";

/** Milliseconds before a thread that ended is started anew: at first, and at most. */
const firstRestart = 200;
const longestRestart = 30_000;

/** Milliseconds that the end of the thread is waited for; it keeps nothing alive after that. */
const longestEnd = 1_000;

/** A thread that beats: it posts "beat" when it first has, "lost" when the worker's row is gone, else what went wrong. */
export interface Beat {
  /** The thread's program. */
  thread: URL;
  /** What the program is given. */
  data: Readonly<Record<string, unknown>>;
  /** Milliseconds between beats. */
  every: number;
}

export class Heartbeat {
  readonly #beat: Beat;
  readonly #onLost: () => void;
  readonly #beatHere: () => void;
  #thread: Thread | undefined;
  #inPlace: NodeJS.Timeout | undefined;
  #restart: NodeJS.Timeout | undefined;
  #restartAfter = firstRestart;

  /** `beatHere`: one beat from this thread; it reports its own failures. */
  constructor(beat: Beat, onLost: () => void, beatHere: () => void) {
    this.#beat = beat;
    this.#onLost = onLost;
    this.#beatHere = beatHere;
    this.#start();
  }

  /** Asks the thread to end: one that is ended from outside, in the middle of native code, takes the process along. */
  async stop(): Promise<void> {
    clearTimeout(this.#restart);
    clearInterval(this.#inPlace);
    const thread = this.#thread;
    if (!thread) return;
    thread.removeAllListeners();
    // Whatever still goes wrong in it does not matter, and must not be an uncaught exception.
    thread.on("error", () => undefined);
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, longestEnd).unref();
      thread.once("exit", () => {
        clearTimeout(late);
        resolve();
      });
      thread.postMessage("stop");
    });
  }

  #start(): void {
    // Until the thread says that it beats.
    this.#inPlace ??= setInterval(this.#beatHere, this.#beat.every).unref();
    try {
      this.#thread = this.#newThread();
    } catch (error) {
      report(error, "starting the heartbeat thread");
      this.#startLater();
    }
  }

  #newThread(): Thread {
    const { thread: program, data, every } = this.#beat;
    // Loaders and inspectors of the app are no business of a thread that runs one statement. Drivers look for passwords
    // and certificates in the environment.
    const { NODE_OPTIONS: _, ...env } = process.env;
    const options = { workerData: { ...data, every }, execArgv: [], env };
    const thread = new Thread(program, options);
    thread.unref();
    thread.on("message", (message: string) => this.#heard(message));
    thread.on("error", (error) => report(error, "heartbeat thread"));
    thread.on("exit", () => {
      this.#thread = undefined;
      this.#startLater();
    });
    return thread;
  }

  #heard(message: string): void {
    if (message === "beat") {
      clearInterval(this.#inPlace);
      this.#inPlace = undefined;
      this.#restartAfter = firstRestart;
    } else if (message === "lost") {
      this.#onLost();
    } else {
      report(new Error(message), "heartbeat thread");
    }
  }

  #startLater(): void {
    this.#restart = setTimeout(() => this.#start(), this.#restartAfter).unref();
    this.#restartAfter = Math.min(this.#restartAfter * 2, longestRestart);
  }
}
