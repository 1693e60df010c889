/** Sends a worker's heartbeats from a thread of its own, and from this thread while that one does not. */
import { Worker as Thread } from "node:worker_threads";
import { packageFile } from "../../base/runtime/packages.ts";
import { clearInterval, clearTimeout, setInterval, setTimeout } from "../../base/runtime/timers.ts";
import { report } from "../../events.ts";

/** Milliseconds before a thread that ended is started again: at first, and at most. */
const firstRestart = 200;
const longestRestart = 30_000;

/** Milliseconds that `stop` waits for the thread to end. The thread keeps nothing alive after that. */
const longestEnd = 1_000;

/**
 * The text of a program that sends heartbeats. It posts "alive" after the first one, "lost" when the worker's row is gone,
 * and the message of any error.
 */
export interface HeartbeatThread {
  program: string;
  data: Readonly<Record<string, unknown>>;
}

export interface HeartbeatSettings {
  /** Milliseconds between heartbeats. */
  every: number;
  /** Undefined: this thread sends every heartbeat. */
  thread: HeartbeatThread | undefined;
  /** Sends one heartbeat from this thread. False: the worker's row is gone. */
  send: () => Promise<boolean>;
  /** Called when the worker's row is gone. */
  onLost: () => void;
}

/**
 * The file of the driver, for the thread to load. Reports when there is none: the event loop then sends all heartbeats.
 * @param name the module of the driver
 */
export function driverFile(name: string): string | undefined {
  const file = packageFile(name);
  if (file !== undefined) return file;
  const found = `found no module "${name}" for a thread: heartbeats come from the event loop, and a function that blocks it for longer than the lease makes its worker look dead, so that its tasks run twice`;
  const advice = "Leave the package out of your bundle, and install it where the bundle runs";
  report(new Error(`${found}. ${advice}`), "heartbeat thread");
  return undefined;
}

/** With Yarn's Plug'n'Play packages are in archives, which a thread can read after it has loaded this file. */
function packageLoader(): string[] {
  const file = process.versions.pnp === undefined ? undefined : packageFile("pnpapi");
  return file === undefined ? [] : ["--require", file];
}

export class Heartbeat {
  readonly #settings: HeartbeatSettings;
  #thread: Thread | undefined;
  /** Runs until the thread has sent a heartbeat. */
  #interval: NodeJS.Timeout | undefined;
  #sending = Promise.resolve();
  #restart: NodeJS.Timeout | undefined;
  #restartAfter = firstRestart;

  constructor(settings: HeartbeatSettings) {
    this.#settings = settings;
    this.#start();
  }

  /** Resolves when the thread has ended and no heartbeat is under way. */
  async stop(): Promise<void> {
    clearTimeout(this.#restart);
    clearInterval(this.#interval);
    if (this.#thread) await this.#end(this.#thread);
    await this.#sending;
  }

  /** Asks the thread to end: `terminate()` in the middle of native code would crash the process. */
  async #end(thread: Thread): Promise<void> {
    thread.removeAllListeners();
    // An error that comes now must not be an uncaught exception.
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
    const { every, thread } = this.#settings;
    this.#interval ??= setInterval(() => this.#send(), every).unref();
    if (thread === undefined) return;
    try {
      this.#thread = this.#newThread(thread);
    } catch (error) {
      report(error, "starting the heartbeat thread");
      this.#startLater();
    }
  }

  #send(): void {
    const { send, onLost } = this.#settings;
    this.#sending = send().then(
      (isThere) => {
        if (!isThere) onLost();
      },
      (error: unknown) => report(error, "heartbeat"),
    );
  }

  #newThread({ program, data }: HeartbeatThread): Thread {
    // The app's loaders and inspectors must not run in this thread. Drivers look for passwords and certificates in the
    // environment.
    const { NODE_OPTIONS: _, ...env } = process.env;
    const workerData = { ...data, every: this.#settings.every };
    const thread = new Thread(program, { eval: true, workerData, execArgv: packageLoader(), env });
    thread.unref();
    thread.on("message", (message: string) => this.#onMessage(message));
    thread.on("error", (error) => report(error, "heartbeat thread"));
    thread.on("exit", () => {
      this.#thread = undefined;
      this.#startLater();
    });
    return thread;
  }

  #onMessage(message: string): void {
    if (message === "alive") {
      clearInterval(this.#interval);
      this.#interval = undefined;
      this.#restartAfter = firstRestart;
    } else if (message === "lost") {
      this.#settings.onLost();
    } else {
      report(new Error(message), "heartbeat thread");
    }
  }

  #startLater(): void {
    this.#restart = setTimeout(() => this.#start(), this.#restartAfter).unref();
    this.#restartAfter = Math.min(this.#restartAfter * 2, longestRestart);
  }
}
