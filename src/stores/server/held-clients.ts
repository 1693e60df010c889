/**
 * The app's connection, while dbq runs a transaction on it. pg's pool takes its own listener for errors off a client that it
 * hands out. If the server then ends the connection, the error event without a listener would end the process.
 */
import { afterTransactionEnds, clientUnder, sessionOf } from "../../base/runtime/drizzle-internals.ts";

interface Emitter {
  on(event: "error", listener: () => void): unknown;
  off(event: "error", listener: () => void): unknown;
}

/** postgres.js and PGlite have functions or objects without events. */
const isEmitter = (client: unknown): client is Emitter =>
  typeof (client as Partial<Emitter> | undefined)?.on === "function" &&
  typeof (client as Partial<Emitter>).off === "function";

/** The transaction's next statement rejects with the same error, so that its caller has it. */
const ignore = () => undefined;

/** What takes the listener off the client of a session. */
const holds = new WeakMap<object, () => void>();

/**
 * Listens for the errors of a transaction's connection, until COMMIT or ROLLBACK has succeeded. After a failure of both the
 * connection is of no more use, and its last error may still come. Call it at the beginning of each transaction.
 */
export function holdClient(tx: object): void {
  const client = clientUnder(tx);
  if (!isEmitter(client)) return;
  const session = sessionOf(tx);
  if (!holds.has(session)) afterTransactionEnds(session, () => holds.get(session)?.());
  // On an app's single connection, one session has many transactions.
  holds.get(session)?.();
  client.on("error", ignore);
  let holding = true;
  holds.set(session, () => {
    if (holding) client.off("error", ignore);
    holding = false;
  });
}
