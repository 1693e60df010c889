// @ts-check
/**
 * A worker's heartbeat on a server, on a thread and a connection of its own: a handler that blocks the event loop does not
 * make its worker look dead. While the worker lives, this connection's session holds the lock that its row names.
 * JavaScript, not TypeScript: a thread is started from a file as it is, under `tsx` and vitest too.
 */
import { parentPort, workerData } from "node:worker_threads";

/**
 * @typedef {{ query(text: string, params: unknown[]): Promise<{ rows: unknown[][], changed: number }>, end(): Promise<void> }} Connected
 * @typedef {{ text: string, names: string[] }} Text
 * @type {{ connector: string, config: object, hosts: { host: string, port: number }[], lock: Text | undefined, beat: Text,
 *   params: Record<string, unknown>, every: number }}
 */
const { connector, config, hosts, lock, beat, params, every } = workerData;
const { session } = params;

/** Milliseconds. Whoever sees that the lock is gone gives this worker 300 to beat. */
const firstRetry = 10;
const longestRetry = 100;

/** Milliseconds: a connection that was cut off is found out before the lease is over. */
const queryTimeout = 4_000;

/** @type {{ connect(config: object, host: object, queryTimeout: number, onEnd: () => void): Promise<Connected> }} */
const { connect } = await import(connector);

/** @type {Connected | undefined} */
let connection;
/** The host that is tried first: who cannot be asked, or cannot do what is asked, is passed over for the next one. */
let first = 0;
let retry = firstRetry;
let told = false;
let failure = "";
let stopped = false;
/** @type {NodeJS.Timeout | undefined} */
let next;

function passOver() {
  first = (first + 1) % hosts.length;
}

/** A host may let everybody in and write for nobody: a standby, a node that is cut off from its cluster. @param {Text} statement */
async function ask({ text, names }) {
  const values = names.map((name) => params[name] ?? null);
  try {
    return await /** @type {Connected} */ (connection).query(text, values);
  } catch (error) {
    passOver();
    throw error;
  }
}

async function opened() {
  let refusal;
  for (const _ of hosts) {
    try {
      const host = /** @type {{ host: string, port: number }} */ (hosts[first]);
      return await connect(config, host, queryTimeout, () => soon(firstRetry));
    } catch (error) {
      passOver();
      refusal = error;
    }
  }
  throw refusal;
}

let sessions = 0;

/**
 * The lock first: a beat says that the session holds it. Each session has its own: the one before may live on at the
 * server's end, which need not have heard that it was cut off.
 */
async function locked() {
  connection = await opened();
  if (lock === undefined) return;
  sessions += 1;
  params.session = `${session}:${sessions}`;
  if (Number((await ask(lock)).rows[0]?.[0]) !== 1)
    throw new Error(`the lock ${params.session} is held already`);
}

/** @param {number} delay */
function soon(delay) {
  clearTimeout(next);
  if (!stopped) next = setTimeout(once, delay);
}

async function once() {
  try {
    if (connection === undefined) await locked();
    if (stopped) return await connection?.end();
    const { changed } = await ask(beat);
    if (changed === 0) parentPort?.postMessage("lost");
    else if (!told) parentPort?.postMessage("beat");
    told = changed > 0;
    [failure, retry] = ["", firstRetry];
    soon(every);
  } catch (error) {
    const broken = connection;
    connection = undefined;
    void broken?.end();
    const message = error instanceof Error ? error.message : String(error);
    // Once, while it stays the same, and not at the first try: a connection that breaks is made anew.
    if (message !== failure && retry >= longestRetry) {
      parentPort?.postMessage(message);
      failure = message;
    }
    soon(retry);
    retry = Math.min(retry * 2, longestRetry);
  }
}

parentPort?.once("message", () => {
  stopped = true;
  clearTimeout(next);
  void connection?.end();
});

await once();
