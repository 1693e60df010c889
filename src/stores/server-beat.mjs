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

/** Milliseconds. Whoever sees that the lock is gone gives this worker 300 to beat. */
const firstRetry = 10;
const longestRetry = 100;

/** @type {{ connect(config: object, host: object, onEnd: () => void): Promise<Connected> }} */
const { connect } = await import(connector);

/** @type {Connected | undefined} */
let connection;
let retry = firstRetry;
let told = false;
let failure = "";
let stopped = false;
/** @type {NodeJS.Timeout | undefined} */
let next;

/** @param {Text} statement */
const ask = ({ text, names }) =>
  /** @type {Connected} */ (connection).query(
    text,
    names.map((name) => params[name] ?? null),
  );

async function opened() {
  let refusal;
  for (const host of hosts) {
    try {
      return await connect(config, host, () => soon(firstRetry));
    } catch (error) {
      refusal = error;
    }
  }
  throw refusal;
}

/** The lock first: a beat says that the session holds it. */
async function locked() {
  connection = await opened();
  const held = lock === undefined || Number((await ask(lock)).rows[0]?.[0]) === 1;
  // The session before this one may live on for a moment at the server's end.
  if (!held) throw new Error("the session's lock is still held by the session before it");
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
