// @ts-check
/**
 * Sends a worker's heartbeats to a server, from a thread and a connection of its own: a handler that blocks the event loop
 * does not make its worker look dead. While the worker lives, this connection's session holds the lock that its row names.
 * CommonJS, since the thread runs this text (`embedded.ts`) by itself: in a bundle of an app there is no such file.
 */
const { parentPort, workerData } = require("node:worker_threads");

/**
 * @typedef {{ query(text: string, params: unknown[]): Promise<{ rows: unknown[][], changed: number }>, end(): Promise<void> }} Connected
 * @typedef {{ text: string, names: string[] }} Text
 * @type {{ connector: string, driver: string, config: object, hosts: { host: string, port: number }[], lock: Text | undefined, heartbeat: Text,
 *   params: Record<string, unknown>, every: number }}
 */
const { connector, driver, config, hosts, lock, heartbeat, params, every } = workerData;
const { session } = params;

/** Milliseconds. A process that sees that the lock is gone waits 300 for a heartbeat. */
const firstRetry = 10;
const longestRetry = 100;

/** Milliseconds. Short enough to notice a connection that was cut off before the lease ends. */
const queryTimeout = 4_000;

/**
 * The exports of the connector, which is the text of a CommonJS module.
 * @type {{ connectWith?: (driver: unknown) => (config: object, host: object, queryTimeout: number, onEnd: () => void) => Promise<Connected> }}
 */
const exported = {};
new Function("exports", connector)(exported);
const connect = /** @type {Required<typeof exported>} */ (exported).connectWith(require(driver));

/** @type {Connected | undefined} */
let connection;
/** The index of the host to try first. A host that cannot be reached, or refuses a statement, loses this place to the next. */
let first = 0;
let retry = firstRetry;
let isAlive = false;
let failure = "";
let stopped = false;
/** @type {NodeJS.Timeout | undefined} */
let next;

function passOver() {
  first = (first + 1) % hosts.length;
}

/** A standby, or a node that is cut off from its cluster, accepts connections and refuses writes. @param {Text} statement */
async function query({ text, names }) {
  const values = names.map((name) => params[name] ?? null);
  try {
    return await /** @type {Connected} */ (connection).query(text, values);
  } catch (error) {
    passOver();
    throw error;
  }
}

async function connected() {
  let refusal;
  for (const _ of hosts) {
    try {
      const host = /** @type {{ host: string, port: number }} */ (hosts[first]);
      return await connect(config, host, queryTimeout, () => scheduleNext(firstRetry));
    } catch (error) {
      passOver();
      refusal = error;
    }
  }
  throw refusal;
}

let sessions = 0;

/**
 * Takes the lock before the first heartbeat, which writes its name into the worker's row. Each session has a lock of its own:
 * the server may keep the session before it, when it has not noticed that the connection was cut off.
 */
async function openSession() {
  connection = await connected();
  if (lock === undefined) return;
  sessions += 1;
  params.session = `${session}:${sessions}`;
  if (Number((await query(lock)).rows[0]?.[0]) !== 1)
    throw new Error(`the lock ${params.session} is held already`);
}

/** @param {number} delay */
function scheduleNext(delay) {
  clearTimeout(next);
  if (!stopped) next = setTimeout(sendOnce, delay);
}

async function sendOnce() {
  try {
    if (connection === undefined) await openSession();
    if (stopped) return await connection?.end();
    const { changed } = await query(heartbeat);
    if (changed === 0) parentPort?.postMessage("lost");
    else if (!isAlive) parentPort?.postMessage("alive");
    isAlive = changed > 0;
    [failure, retry] = ["", firstRetry];
    scheduleNext(every);
  } catch (error) {
    const broken = connection;
    connection = undefined;
    void broken?.end();
    const message = error instanceof Error ? error.message : String(error);
    // Once, while it stays the same, and not after the first failure: a new connection usually succeeds.
    if (message !== failure && retry >= longestRetry) {
      parentPort?.postMessage(message);
      failure = message;
    }
    scheduleNext(retry);
    retry = Math.min(retry * 2, longestRetry);
  }
}

parentPort?.once("message", () => {
  stopped = true;
  clearTimeout(next);
  void connection?.end();
});

sendOnce();
