// @ts-check
/**
 * A worker's heartbeat, on a thread of its own: a handler that blocks the event loop does not make its worker look dead.
 * JavaScript, not TypeScript: a thread is started from a file as it is, under `tsx` and vitest too. It loads the driver alone.
 */
import { statSync } from "node:fs";
import { createRequire } from "node:module";
import { parentPort, workerData } from "node:worker_threads";

/** @type {{ driver: string, path: string, pragmas: string[], text: string, names: string[], workerId: string, every: number }} */
const { driver, path, pragmas, text, names, workerId, every } = workerData;
const Database = createRequire(import.meta.url)(driver);

/** Milliseconds: whoever suspects this worker gives it 200 to beat, once anybody can write again. */
const retryAfter = { busy: 20, failed: 50 };

let told = false;
let failure = "";
/** @type {NodeJS.Timeout | undefined} */
let next;
/** @typedef {{ client: import("better-sqlite3").Database, beat: import("better-sqlite3").Statement, file: bigint | undefined }} Open */
/** @type {Open | undefined} */
let open;

/** The file at the path; undefined where there is none. */
const fileThere = () => statSync(path, { bigint: true, throwIfNoEntry: false })?.ino;

/** @returns {Open} */
function opened() {
  // A short wait inside SQLite, then a longer one outside: a thread that is ended inside of native code takes the process along.
  const client = new Database(path, { timeout: 5, fileMustExist: true });
  try {
    for (const pragma of pragmas) client.pragma(pragma);
    // A beat that a power cut undoes has lost nothing.
    client.pragma("synchronous = normal");
    return { client, beat: client.prepare(text), file: fileThere() };
  } catch (error) {
    client.close();
    throw error;
  }
}

function once() {
  try {
    open ??= opened();
    // In a file that was moved nobody works any more: whoever opens it must find this worker silent.
    if (open.file !== fileThere()) {
      next = setTimeout(once, every);
      return;
    }
    const values = names.map((name) => (name === "now" ? Date.now() : workerId));
    const { changes } = open.beat.run(...values);
    if (changes === 0) parentPort?.postMessage("lost");
    else if (!told) parentPort?.postMessage("beat");
    told = changes > 0;
    failure = "";
    next = setTimeout(once, every);
  } catch (error) {
    const { code = "", message = String(error) } = /** @type {Partial<NodeJS.ErrnoException>} */ (error);
    const busy = code.startsWith("SQLITE_BUSY");
    // As text: the class of a driver's error does not survive the way between threads. Once, while it stays the same.
    if (!busy && message !== failure) parentPort?.postMessage(message);
    if (!busy) failure = message;
    next = setTimeout(once, Math.min(every, busy ? retryAfter.busy : retryAfter.failed));
  }
}

once();

parentPort?.once("message", () => {
  clearTimeout(next);
  open?.client.close();
});
