/** Sends the heartbeats of workers from a thread that they share, and from this thread while that one does not. */
import { Worker as Thread } from "node:worker_threads";
import { packageFile } from "../../base/runtime/packages.ts";
import { clearInterval, clearTimeout, setInterval, setTimeout } from "../../base/runtime/timers.ts";
import { report } from "../../events.ts";

/** Milliseconds before a thread that ended is started again: at first, and at most. */
const firstRestart = 200;
const longestRestart = 30_000;

/** Milliseconds that `stop` waits for the thread to end. The thread keeps nothing alive after that. */
const longestEnd = 1_000;

/** A thread that sends heartbeats. */
export interface HeartbeatThread {
  /** Workers whose threads have the same key share one. @default a thread of its own */
  key?: unknown;
  /**
   * The text of its program. A message `{ add, every, ... }` begins the heartbeats of the worker with this number, `{ remove }`
   * ends them, "stop" ends the thread. It posts `{ of, says }` for a worker: "alive" after the first heartbeat, "lost" when its
   * row is gone; and `{ error }`, a text.
   */
  program: string;
  data: Readonly<Record<string, unknown>>;
  /** What the program has to know of this worker. */
  worker: Readonly<Record<string, unknown>>;
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

type Message = { of: number; says: "alive" | "lost" } | { error: string };

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

/** The heartbeats of one worker. */
export class Heartbeat {
  readonly #settings: HeartbeatSettings;
  readonly #thread: SharedThread | undefined;
  /** What the thread knows this worker by. */
  readonly #number: number | undefined;
  /** Runs until the thread has sent a heartbeat. */
  #interval: NodeJS.Timeout | undefined;
  #sending = Promise.resolve();

  constructor(settings: HeartbeatSettings) {
    this.#settings = settings;
    this.sendHere();
    this.#thread = settings.thread && threadFor(settings.thread);
    this.#number = this.#thread?.add(this);
  }

  /** Resolves when no heartbeat from this thread is under way, and the other one has ended if this worker was its last. */
  async stop(): Promise<void> {
    clearInterval(this.#interval);
    if (this.#number !== undefined) await this.#thread?.remove(this.#number);
    await this.#sending;
  }

  /** What the thread has to know of the worker. */
  get forThread(): object {
    return { ...this.#settings.thread?.worker, every: this.#settings.every };
  }

  /** Sends heartbeats from here until the thread says that it does. */
  sendHere(): void {
    this.#interval ??= setInterval(() => this.#send(), this.#settings.every).unref();
  }

  onMessage(says: "alive" | "lost"): void {
    if (says === "lost") {
      this.#settings.onLost();
    } else {
      clearInterval(this.#interval);
      this.#interval = undefined;
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
}

const threads = new Map<unknown, SharedThread>();

function threadFor(settings: HeartbeatThread): SharedThread {
  const { key = settings } = settings;
  const thread = threads.get(key) ?? new SharedThread(settings, () => threads.delete(key));
  threads.set(key, thread);
  return thread;
}

/** A thread that sends the heartbeats of some workers. It is started again when it ends before the last of them stops. */
class SharedThread {
  readonly #settings: HeartbeatThread;
  readonly #onStop: () => void;
  readonly #heartbeats = new Map<number, Heartbeat>();
  #added = 0;
  #thread: Thread | undefined;
  #restart: NodeJS.Timeout | undefined;
  #restartAfter = firstRestart;

  constructor(settings: HeartbeatThread, onStop: () => void) {
    this.#settings = settings;
    this.#onStop = onStop;
    this.#start();
  }

  /** Returns the number by which `remove` and the thread know it. */
  add(heartbeat: Heartbeat): number {
    this.#added += 1;
    this.#heartbeats.set(this.#added, heartbeat);
    this.#thread?.postMessage({ add: this.#added, ...heartbeat.forThread });
    return this.#added;
  }

  async remove(number: number): Promise<void> {
    if (!this.#heartbeats.delete(number)) return;
    if (this.#heartbeats.size > 0) return this.#thread?.postMessage({ remove: number });
    this.#onStop();
    clearTimeout(this.#restart);
    if (this.#thread) await this.#end(this.#thread);
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
    try {
      this.#thread = this.#newThread(this.#settings);
    } catch (error) {
      report(error, "starting the heartbeat thread");
      this.#startLater();
      return;
    }
    for (const [add, heartbeat] of this.#heartbeats)
      this.#thread.postMessage({ add, ...heartbeat.forThread });
  }

  #newThread({ program, data: workerData }: HeartbeatThread): Thread {
    // The app's loaders and inspectors must not run in this thread. Drivers look for passwords and certificates in the
    // environment.
    const { NODE_OPTIONS: _, ...env } = process.env;
    const thread = new Thread(program, { eval: true, workerData, execArgv: packageLoader(), env });
    thread.unref();
    thread.on("message", (message: Message) => this.#onMessage(message));
    thread.on("error", (error) => report(error, "heartbeat thread"));
    thread.on("exit", () => {
      this.#thread = undefined;
      for (const heartbeat of this.#heartbeats.values()) heartbeat.sendHere();
      this.#startLater();
    });
    return thread;
  }

  #onMessage(message: Message): void {
    if ("error" in message) {
      report(new Error(message.error), "heartbeat thread");
      return;
    }
    if (message.says === "alive") this.#restartAfter = firstRestart;
    this.#heartbeats.get(message.of)?.onMessage(message.says);
  }

  #startLater(): void {
    this.#restart = setTimeout(() => this.#start(), this.#restartAfter).unref();
    this.#restartAfter = Math.min(this.#restartAfter * 2, longestRestart);
  }
}
