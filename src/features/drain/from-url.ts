/** Opens a target by its URL, for `dbq drain --to`. Loads the packages that the app has installed. */
import { show } from "../../base/options/durations.ts";
import { withoutPassword } from "../../base/options/passwords.ts";
import { importPackage, isMissingPackage } from "../../base/runtime/packages.ts";
import { type BullmqQueue, bullmq } from "./bullmq.ts";
import { type RedisClient, redisStream } from "./redis-stream.ts";
import type { DrainTarget } from "./target.ts";

export { drain } from "./drain.ts";

/** A client of ioredis, as this file uses it. */
interface Client extends RedisClient {
  on(event: "error", listener: (error: Error) => void): unknown;
  disconnect(): void;
}

interface Ioredis {
  Redis: new (url: string, options: object) => Client;
}

interface Bullmq {
  Queue: new (name: string, options: object) => BullmqQueue & { close(): Promise<void>; on: Client["on"] };
}

const form = "bullmq:redis://host:port/queue or stream:redis://host:port/key";

/**
 * Opens `bullmq:redis://…/<queue>` or `stream:redis://…/<key>`, also with `rediss:`, a user and a password, `?db=<number>`, and for
 * BullMQ `?prefix=<text>`.
 * @throws TypeError for another URL, and when a package is not installed
 */
export async function openDrainTarget(target: string): Promise<DrainTarget> {
  const [, kind, rest = ""] = /^(bullmq|stream):(rediss?:\/\/.+)$/.exec(target) ?? [];
  const url = URL.canParse(rest) ? new URL(rest) : undefined;
  const name = decodeURIComponent(url?.pathname.slice(1) ?? "");
  if (kind === undefined || url === undefined || name === "")
    throw new TypeError(`expected ${form}, got ${show(withoutPassword(target))}`);
  const { searchParams } = url;
  const [db, prefix] = [searchParams.get("db"), searchParams.get("prefix")];
  url.pathname = db === null ? "" : `/${db}`;
  url.search = "";
  const { Redis } = await installed<Ioredis>("ioredis");
  const client = new Redis(url.href, { maxRetriesPerRequest: null });
  // The drain reports that Redis is away. Without a listener, ioredis would print each of its own failed tries, too.
  client.on("error", () => undefined);
  const end = async () => client.disconnect();
  return kind === "stream"
    ? { ...redisStream(client, name), close: end }
    : await bullmqOver(client, name, prefix, end);
}

async function bullmqOver(
  client: Client,
  name: string,
  prefix: string | null,
  end: () => Promise<void>,
): Promise<DrainTarget> {
  try {
    const { Queue } = await installed<Bullmq>("bullmq");
    const queue = new Queue(name, { connection: client, ...(prefix === null ? {} : { prefix }) });
    queue.on("error", () => undefined);
    return { ...bullmq(queue), close: () => queue.close().then(end, end) };
  } catch (error) {
    await end();
    throw error;
  }
}

/** @throws TypeError when the package is not installed */
async function installed<T>(name: string): Promise<T> {
  try {
    return await importPackage<T>(name);
  } catch (error) {
    if (!isMissingPackage(error)) throw error;
    throw new TypeError(`the package "${name}" is missing: npm install ${name}`, { cause: error });
  }
}
