/** BullMQ on this machine's Redis, in a new queue that is removed afterwards. */
import { randomUUID } from "node:crypto";
import { type Job, Queue } from "bullmq";
import { Redis } from "ioredis";

export const redis = { host: "127.0.0.1", port: 6379 };

/** Why BullMQ cannot be measured here. */
export async function noRedis(): Promise<string | undefined> {
  const reason = await withRedis(async (client) => {
    await client.ping();
  });
  return reason === undefined ? undefined : `no Redis at ${redis.host}:${redis.port} (${reason.message})`;
}

export interface RedisFacts {
  version: string;
  /** Redis's durability setting. On SQLite, each commit of a contender is on the disk or in the WAL. */
  appendonly: string;
  save: string;
}

export async function redisFacts(): Promise<RedisFacts | undefined> {
  let facts: RedisFacts | undefined;
  await withRedis(async (client) => {
    const version = /redis_version:(\S+)/.exec(await client.info("server"))?.[1] ?? "unknown";
    const setting = async (name: string) => String(((await client.config("GET", name)) as string[])[1] ?? "");
    facts = { version, appendonly: await setting("appendonly"), save: await setting("save") };
  });
  return facts;
}

/** Undefined, or the error. */
async function withRedis(use: (client: Redis) => Promise<void>): Promise<Error | undefined> {
  const client = new Redis({ ...redis, lazyConnect: true, connectTimeout: 1_000, retryStrategy: () => null });
  // The rejection of `connect` only says that the connection is closed.
  let refused: Error | undefined;
  client.on("error", (error: Error) => {
    refused = error;
  });
  try {
    await client.connect();
    await use(client);
    return undefined;
  } catch (error) {
    return refused ?? (error as Error);
  } finally {
    client.disconnect();
  }
}

export interface Data {
  n: number;
  payload: unknown;
}

const prefix = "dbq-bench-";

/** Calls `use` with a new queue, and removes all its keys afterwards. */
export async function withBullmq<T>(use: (queue: Queue<Data>) => Promise<T>): Promise<T> {
  await removeAbandoned();
  const queue = new Queue<Data>(`${prefix}${process.pid}-${randomUUID()}`, { connection: redis });
  try {
    await queue.waitUntilReady();
    return await use(queue);
  } finally {
    await remove(queue);
  }
}

async function remove(queue: Queue<Data>): Promise<void> {
  await queue.obliterate({ force: true, count: 10_000 });
  await queue.close();
}

/** Removes what a killed measurement has left. */
async function removeAbandoned(): Promise<void> {
  await withRedis(async (client) => {
    for await (const keys of client.scanStream({ match: `bull:${prefix}*:meta`, count: 1_000 })) {
      for (const key of keys as string[]) {
        const [, name = "", pid] = new RegExp(`^bull:(${prefix}(\\d+)-.*):meta$`).exec(key) ?? [];
        if (name !== "" && !isAlive(Number(pid))) await remove(new Queue<Data>(name, { connection: redis }));
      }
    }
  });
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

export type BullmqJob = Job<Data>;
