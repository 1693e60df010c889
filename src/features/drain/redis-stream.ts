/** `dbq-ts/drain/redis`: drains tasks into a stream of Redis. */
import { wrong } from "../../base/options/validators.ts";
import { whileConnected } from "./connection.ts";
import { BrokerUnavailableError, type DrainMessage, type DrainTarget } from "./target.ts";

/** What dbq needs of a client of ioredis, versions 5 and 6. */
export interface RedisClient {
  readonly status?: string;
  /** Collects commands for one round trip. */
  pipeline(commands: unknown[][]): RedisPipeline;
}

/** Commands for one round trip. */
export interface RedisPipeline {
  /** Sends them. Resolves with the answer to each; null when there is none. */
  exec(): Promise<[error: Error | null, result?: unknown][] | null>;
}

const limits = { count: 10_000, bytes: 64 * 2 ** 20 };

/**
 * A target for `drain` that adds each task to a stream of Redis, by `XADD key * id … name … data … options …`, where `data` and
 * `options` are JSON. One pipeline for each batch. A stream keeps repetitions: its consumers drop them by the field `id`. The
 * client is yours: close it after the drain.
 * @param client a client of ioredis
 * @param key the stream's key
 * @throws TypeError for a wrong client or key
 */
export function redisStream(client: RedisClient, key: string): DrainTarget {
  if (typeof client?.pipeline !== "function") throw wrong("redisStream", "a client of ioredis", client);
  if (typeof key !== "string" || key === "") throw wrong("redisStream", "the key of a stream", key);
  return {
    name: `redis:${key}`,
    limits,
    send: async (messages) => {
      const commands = messages.map((message) => command(key, message));
      const answers = await whileConnected(client, () => client.pipeline(commands).exec());
      if (answers?.length !== messages.length)
        throw new BrokerUnavailableError("Redis did not answer each command of the pipeline");
      // A stream takes any text, so an error is never about one message: Redis is full, read-only, or the key is none.
      for (const [error] of answers) if (error) throw error;
      return messages.map(() => "sent");
    },
    close: () => Promise.resolve(),
  };
}

function command(key: string, { id, name, data, options }: DrainMessage): unknown[] {
  const json = (value: unknown) => JSON.stringify(value) ?? "null";
  return ["xadd", key, "*", "id", id, "name", name, "data", json(data), "options", json(options)];
}
