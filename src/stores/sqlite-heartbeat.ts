/** Keeps the thread that beats for a worker going. */
import { createRequire } from "node:module";
import { Worker as Thread } from "node:worker_threads";
import { report } from "../events.ts";

/** Milliseconds before a thread that ended is started anew. */
const restartAfter = 200;

interface Beat {
  /** Absolute: the app may change its folder. */
  path: string;
  text: string;
  names: readonly string[];
  workerId: string;
  every: number;
}

/**
 * Starts the thread, and starts it anew whenever it ends: a worker that lives and does not beat would be taken for dead.
 * @returns what stops it.
 */
export async function startHeartbeat(beat: Beat, onLost: () => void): Promise<() => Promise<void>> {
  const driver = createRequire(import.meta.url).resolve("better-sqlite3");
  let thread: Thread;
  let restart: NodeJS.Timeout | undefined;
  const start = () => {
    // Loaders and inspectors of the app are no business of a thread that runs one statement.
    const options = { workerData: { driver, ...beat }, execArgv: [], env: {} };
    thread = new Thread(new URL("./heartbeat-thread.mjs", import.meta.url), options);
    thread.unref();
    thread.on("message", (message) => (message === "lost" ? onLost() : report(message, "heartbeat")));
    thread.on("error", (error) => report(error, "heartbeat thread"));
    thread.on("exit", () => {
      restart = setTimeout(start, restartAfter).unref();
    });
  };
  start();
  return async () => {
    clearTimeout(restart);
    thread.removeAllListeners();
    // Whatever still goes wrong in a thread that is being ended does not matter, and must not be an uncaught exception.
    thread.on("error", () => undefined);
    await thread.terminate();
  };
}
