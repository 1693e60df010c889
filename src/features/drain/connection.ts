/** Sends to Redis only while the client is connected. */
import { BrokerUnavailableError } from "./target.ts";

/** The parts of a Redis client that tell whether it is connected: of ioredis, or of the one that BullMQ wraps. */
interface Connected {
  readonly status?: unknown;
  once?(event: "close", listener: () => void): unknown;
  off?(event: "close", listener: () => void): unknown;
}

/**
 * Sends over an open connection, and throws when it closes. The client itself would keep commands without an answer until
 * Redis is back. The drain does not wait for that, because it sends the same ids again.
 * @throws BrokerUnavailableError
 */
export async function whileConnected<T>(client: object, send: () => Promise<T>): Promise<T> {
  const connection: Connected = client;
  const { status } = connection;
  if (status !== undefined && status !== "ready")
    throw new BrokerUnavailableError(`the connection to Redis is not ready: it is ${String(status)}`);
  let onClose: () => void = () => undefined;
  const closed = new Promise<never>((_, reject) => {
    onClose = () => reject(new BrokerUnavailableError("the connection to Redis closed before it answered"));
    connection.once?.("close", onClose);
  });
  try {
    return await Promise.race([send(), closed]);
  } finally {
    connection.off?.("close", onClose);
  }
}
