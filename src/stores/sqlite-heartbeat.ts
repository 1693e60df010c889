/** Starts the thread that beats for a worker. */
import { createRequire } from "node:module";
import { Worker as Thread } from "node:worker_threads";
import { report } from "../events.ts";

/** @returns what stops it. */
export async function startHeartbeat(
  beat: { path: string; text: string; names: readonly string[]; workerId: string; every: number },
  onLost: () => void,
): Promise<() => Promise<void>> {
  const driver = createRequire(import.meta.url).resolve("better-sqlite3");
  const thread = new Thread(new URL("./heartbeat-thread.mjs", import.meta.url), {
    workerData: { driver, ...beat },
    // Loaders and inspectors of the app are no business of a thread that runs one statement.
    execArgv: [],
    env: {},
  });
  thread.unref();
  thread.on("message", (message) => (message === "lost" ? onLost() : report(message, "heartbeat")));
  thread.on("error", (error) => report(error, "heartbeat thread"));
  return async () => {
    thread.removeAllListeners();
    await thread.terminate();
  };
}
