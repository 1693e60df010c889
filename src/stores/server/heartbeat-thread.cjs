// @ts-check
/**
 * Sends the heartbeats of a process's workers to a server, from a thread and one connection: a handler that blocks the event
 * loop does not make its worker look dead. While the process lives, this connection's session holds the lock that the rows of
 * these workers name. CommonJS, since the thread runs this text (`embedded.ts`) by itself: in a bundle of an app there is no
 * such file.
 */
const { parentPort, workerData } = require("node:worker_threads");

/**
 * @typedef {{ query(text: string, params: unknown[]): Promise<{ rows: unknown[][], changed: number }>, end(): Promise<void>, leave(): import("node:net").Socket }} Connected
 * `leave` returns its socket, whose end is then no news
 * @typedef {{ text: string, names: string[] }} Text
 * @typedef {{ add: number, workerId: string, every: number, heartbeat: Text, due: number, isAlive: boolean, isHeld: boolean, session?: string | null }} Beating
 * `due`: when its next heartbeat is sent, by `performance.now()`; `session`: the lock that its row names
 * @type {{ connector: string, driver: string, config: object, hosts: { host: string, port: number }[], lock: Text | undefined,
 *   session: string | null }}
 */
const { connector, driver, config, hosts, lock, session } = workerData;

/** Milliseconds. A process that sees that the lock is gone waits 300 for a heartbeat. */
const firstRetry = 10;
const longestRetry = 100;

/** Milliseconds. Short enough to notice a connection that was cut off before the lease ends. */
const queryTimeout = 4_000;

/**
 * The exports of the connector, which is the text of a CommonJS module.
 * @type {{ connectWith?: (driver: unknown) => (config: object, host: object, queryTimeout: number, onEnd: () => void) => Promise<Connected>,
 *   isHeld?: (error: unknown) => boolean }}
 */
const exported = {};
new Function("exports", connector)(exported);
const { connectWith, isHeld } = /** @type {Required<typeof exported>} */ (exported);
const connect = connectWith(require(driver));

/** By their numbers. Those whose rows were held come last, so that no other worker waits behind them. @type {Map<number, Beating>} */
const workers = new Map();

/** @type {Connected | undefined} */
let connection;
/** The name of the lock that the connection holds. @type {string | null} */
let lockName = null;
/** The index of the host to try first. A host that cannot be reached, or refuses a statement, loses this place to the next. */
let first = 0;
let retry = firstRetry;
let failure = "";
let isSending = false;
let stopped = false;
/** @type {NodeJS.Timeout | undefined} */
let next;

function passOver() {
  first = (first + 1) % hosts.length;
}

/**
 * A standby, or a node that is cut off from its cluster, accepts connections and refuses writes.
 * @param {Text} statement @param {object} [of] its other parameters
 */
async function query({ text, names }, of) {
  const params = /** @type {Record<string, unknown>} */ ({ ...of, session: lockName });
  const values = names.map((name) => params[name] ?? null);
  try {
    return await /** @type {Connected} */ (connection).query(text, values);
  } catch (error) {
    if (!isHeld(error)) passOver();
    throw error;
  }
}

async function connected() {
  let refusal;
  for (const _ of hosts) {
    try {
      const host = /** @type {{ host: string, port: number }} */ (hosts[first]);
      return await connect(config, host, queryTimeout, () => sendAll(firstRetry));
    } catch (error) {
      passOver();
      refusal = error;
    }
  }
  throw refusal;
}

let sessions = 0;

/**
 * Takes the lock before the first heartbeats, which write its name into the workers' rows. Each session has a lock of its own:
 * the server may keep the session before it, when it has not noticed that the connection was cut off.
 */
async function openSession() {
  connection = await connected();
  if (lock !== undefined) {
    sessions += 1;
    lockName = `${session}:${sessions}`;
    if (Number((await query(lock)).rows[0]?.[0]) !== 1)
      throw new Error(`the lock ${lockName} is held already`);
  }
  sendAll(0);
}

/** @param {number} delay milliseconds */
function sendAll(delay) {
  for (const worker of workers.values()) worker.due = 0;
  scheduleNext(delay);
}

/** @param {number} least milliseconds to wait, also for a heartbeat that is due */
function scheduleNext(least) {
  clearTimeout(next);
  if (stopped || workers.size === 0) return;
  const due = Math.min(...[...workers.values()].map((worker) => worker.due));
  next = setTimeout(sendDue, Math.max(least, due - performance.now()));
}

async function sendDue() {
  if (isSending) return;
  isSending = true;
  let pause = 0;
  try {
    if (connection === undefined) await openSession();
    if (stopped) return await connection?.end();
    for (const worker of [...workers.values()]) {
      if (workers.has(worker.add) && worker.due <= performance.now()) await send(worker);
    }
    [failure, retry] = ["", firstRetry];
  } catch (error) {
    pause = retry;
    onFailure(error);
  } finally {
    isSending = false;
  }
  scheduleNext(pause);
}

/**
 * Ends a connection without a word to the server, and drops what the network has not carried yet. After an outage, the server
 * would otherwise take a heartbeat and an end of the connection that are long past.
 * @param {Connected} broken
 */
function reset(broken) {
  const socket = broken.leave();
  // Only a TCP socket can be reset: not one of TLS, nor a file.
  try {
    socket.resetAndDestroy();
  } catch {
    socket.destroy();
  }
}

/** @param {unknown} error */
function onFailure(error) {
  const broken = connection;
  connection = undefined;
  if (broken) reset(broken);
  const message = messageOf(error);
  // Once, while it stays the same, and not after the first failure: a new connection usually succeeds.
  if (message !== failure && retry >= longestRetry) {
    parentPort?.postMessage({ error: message });
    failure = message;
  }
  retry = Math.min(retry * 2, longestRetry);
}

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));

/** @param {Beating} worker */
async function send(worker) {
  try {
    const { workerId, session } = worker;
    const { changed } = await query(worker.heartbeat, { workerId, anew: session === lockName ? 0 : 1 });
    if (changed > 0) worker.session = lockName;
    if (changed === 0) parentPort?.postMessage({ of: worker.add, says: "lost" });
    else if (!worker.isAlive) parentPort?.postMessage({ of: worker.add, says: "alive" });
    worker.isAlive = changed > 0;
    worker.isHeld = false;
    worker.due = performance.now() + worker.every;
  } catch (error) {
    if (!isHeld(error)) throw error;
    putOff(worker, error);
  }
}

/** Another transaction holds this worker's row: the connection is sound, and the others need it. @param {Beating} worker @param {unknown} error */
function putOff(worker, error) {
  if (!worker.isHeld) parentPort?.postMessage({ error: `worker ${worker.workerId}: ${messageOf(error)}` });
  worker.isHeld = true;
  worker.due = performance.now() + Math.min(worker.every, longestRetry);
  if (workers.delete(worker.add)) workers.set(worker.add, worker);
}

function stop() {
  stopped = true;
  clearTimeout(next);
  void connection?.end();
  parentPort?.close();
}

parentPort?.on("message", (message) => {
  if (message === "stop") return stop();
  if ("remove" in message) return void workers.delete(message.remove);
  workers.set(message.add, { ...message, due: 0, isAlive: false, isHeld: false });
  scheduleNext(0);
});
