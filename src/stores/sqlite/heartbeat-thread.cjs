// @ts-check
/**
 * Sends a worker's heartbeats from a thread of its own: a handler that blocks the event loop does not make its worker look
 * dead. CommonJS, since the thread runs this text (`embedded.ts`) by itself: in a bundle of an app there is no such file. It
 * loads only the driver, by its path.
 */
const { statSync } = require("node:fs");
const { parentPort, workerData } = require("node:worker_threads");

/** @type {{ driver: string, path: string, inodes: { file?: bigint, log?: bigint }, pragmas: string[], text: string, names: string[] }} */
const { driver, path, inodes, pragmas, text, names } = workerData;
const Database = require(driver);

/** Milliseconds. A process that suspects this worker waits 200 for a heartbeat, once the file can be written again. */
const retryAfter = { busy: 20, failed: 50 };

/** The worker: this thread has one. @type {{ add: number, workerId: string, every: number }} */
let worker;
let isAlive = false;
let failure = "";
/** @type {NodeJS.Timeout | undefined} */
let next;
/** @typedef {{ client: import("better-sqlite3").Database, beat: import("better-sqlite3").Statement }} Open */
/** @type {Open | undefined} */
let open;

/** @param {string} file */
const inodeOf = (file) => statSync(file, { bigint: true, throwIfNoEntry: false })?.ino;

/** Whether the file or its log is not at its path: a process that opens the path now must find this worker silent. */
const isMoved = () =>
  inodeOf(path) !== inodes.file || (inodes.log !== undefined && inodeOf(`${path}-wal`) !== inodes.log);

/** @returns {Open} */
function opened() {
  // A short wait inside SQLite, then a longer one outside: ending a thread in the middle of native code crashes the process.
  const client = new Database(path, { timeout: 5, fileMustExist: true });
  try {
    for (const pragma of pragmas) client.pragma(pragma);
    // A power cut may undo a heartbeat.
    client.pragma("synchronous = normal");
    return { client, beat: client.prepare(text) };
  } catch (error) {
    client.close();
    throw error;
  }
}

/** @param {"alive" | "lost"} says */
const say = (says) => parentPort?.postMessage({ of: worker.add, says });

function sendOnce() {
  const { workerId, every } = worker;
  try {
    // Before it opens the file, too: it would begin another log.
    if (isMoved()) {
      next = setTimeout(sendOnce, every);
      return;
    }
    open ??= opened();
    const values = names.map((name) => (name === "now" ? Date.now() : workerId));
    const { changes } = open.beat.run(...values);
    if (changes === 0) say("lost");
    else if (!isAlive) say("alive");
    isAlive = changes > 0;
    failure = "";
    next = setTimeout(sendOnce, every);
  } catch (error) {
    const { code = "", message = String(error) } = /** @type {Partial<NodeJS.ErrnoException>} */ (error);
    const busy = code.startsWith("SQLITE_BUSY");
    // As text, since the class of an error is lost between threads. Once, while the error stays the same.
    if (!busy && message !== failure) parentPort?.postMessage({ error: message });
    if (!busy) failure = message;
    next = setTimeout(sendOnce, Math.min(every, busy ? retryAfter.busy : retryAfter.failed));
  }
}

parentPort?.once("message", (added) => {
  worker = added;
  sendOnce();
  parentPort?.once("message", () => {
    clearTimeout(next);
    open?.client.close();
  });
});
