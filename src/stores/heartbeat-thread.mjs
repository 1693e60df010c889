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

// A short wait inside SQLite, then a longer one outside: a thread that is ended inside of native code takes the process along.
const client = new Database(path, { timeout: 5, fileMustExist: true });
// A beat that a power cut undoes has lost nothing.
client.pragma("synchronous = normal");
const beat = client.prepare(text);
const retryAfter = 20;

let told = false;
/** @type {NodeJS.Timeout | undefined} */
let next;

function once() {
  try {
    const values = names.map((name) => (name === "now" ? Date.now() : workerId));
    const { changes } = beat.run(...values);
    if (changes === 0) parentPort?.postMessage("lost");
    else if (!told) parentPort?.postMessage("beat");
    told = changes > 0;
    next = setTimeout(once, every);
  } catch (error) {
    const { code = "", message = String(error) } = /** @type {Partial<NodeJS.ErrnoException>} */ (error);
    const busy = code.startsWith("SQLITE_BUSY");
    // As text: the class of a driver's error does not survive the way between threads.
    if (!busy) parentPort?.postMessage(message);
    next = setTimeout(once, busy ? retryAfter : every);
  }
}

once();

parentPort?.once("message", () => {
  clearTimeout(next);
  client.close();
});
