// @ts-check
/**
 * A worker's heartbeat, on a thread of its own: a handler that blocks the event loop does not make its worker look dead.
 * JavaScript, not TypeScript: a thread is started from a file as it is, under `tsx` and vitest too. It loads the driver alone.
 */
import { createRequire } from "node:module";
import { parentPort, workerData } from "node:worker_threads";

/** @type {{ driver: string, path: string, text: string, names: string[], workerId: string, every: number }} */
const { driver, path, text, names, workerId, every } = workerData;
const Database = createRequire(import.meta.url)(driver);

// This thread may wait inside SQLite: nobody else runs on it.
const client = new Database(path, { timeout: 5_000, fileMustExist: true });
// A beat that a power cut undoes has lost nothing.
client.pragma("synchronous = normal");
const beat = client.prepare(text);

let told = false;

function once() {
  try {
    const values = names.map((name) => (name === "now" ? Date.now() : workerId));
    const { changes } = beat.run(...values);
    if (changes === 0) parentPort?.postMessage("lost");
    else if (!told) parentPort?.postMessage("beat");
    told = changes > 0;
  } catch (error) {
    // As text: the class of a driver's error does not survive the way between threads.
    parentPort?.postMessage(error instanceof Error ? error.message : String(error));
  }
}

once();
setInterval(once, every);
