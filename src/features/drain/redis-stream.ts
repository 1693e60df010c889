/** `dbq-ts/drain/redis`: drains tasks into a stream of Redis. */
import { wrong } from "../../base/options/validators.ts";
import { whileConnected } from "./connection.ts";
import type { DrainMessage, DrainTarget } from "./target.ts";

/** What dbq needs of a client of ioredis, versions 5 and 6. */
export interface RedisClient {
  readonly status?: string;
  /** Runs a script in Redis. */
  eval(script: string, keyCount: number, ...keysAndArguments: string[]): Promise<unknown>;
}

const limits = { count: 10_000, bytes: 64 * 2 ** 20 };

/**
 * Adds all messages by one command. A pipeline of ioredis 5.11 has a command and three promises for each message, of which a
 * drain left 0.9 KB a message in V8's old generation until a full collection. This command leaves a sixth of that.
 */
const addAll = `
for i = 1, #ARGV, 4 do
  redis.call("XADD", KEYS[1], "*", "id", ARGV[i], "name", ARGV[i + 1], "data", ARGV[i + 2], "options", ARGV[i + 3])
end`;

/**
 * A target for `drain` that adds each task to a stream of Redis, by `XADD key * id … name … data … options …`, where `data` and
 * `options` are JSON. One script adds all messages of a batch. A stream keeps repetitions: its consumers drop them by the field
 * `id`. The client is yours: close it after the drain.
 * @param client a client of ioredis
 * @param key the stream's key
 * @throws TypeError for a wrong client or key
 */
export function redisStream(client: RedisClient, key: string): DrainTarget {
  if (typeof client?.eval !== "function") throw wrong("redisStream", "a client of ioredis", client);
  if (typeof key !== "string" || key === "") throw wrong("redisStream", "the key of a stream", key);
  return {
    name: `redis:${key}`,
    limits,
    send: async (messages) => {
      // A stream takes any text, so an error is never about one message: Redis is full, read-only, or the key is none.
      await whileConnected(client, () => client.eval(addAll, 1, key, ...messages.flatMap(textsOf)));
      return messages.map(() => "sent");
    },
    close: () => Promise.resolve(),
  };
}

/** The values of the fields of a message, in their order. */
function textsOf({ id, name, data, options }: DrainMessage): string[] {
  const json = (value: unknown) => JSON.stringify(value) ?? "null";
  return [id, name, json(data), json(options)];
}
