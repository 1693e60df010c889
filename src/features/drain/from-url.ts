/** Opens a target by its URL, for `dbq drain --to`. Loads the packages that the app has installed. */
import { type EventEmitter, once } from "node:events";
import { show } from "../../base/options/durations.ts";
import { withoutPassword } from "../../base/options/passwords.ts";
import { importPackage, isMissingPackage } from "../../base/runtime/packages.ts";
import { limited } from "../../base/runtime/timers.ts";
import { type BullmqQueue, bullmq } from "./bullmq.ts";
import { type RedisClient, redisStream } from "./redis-stream.ts";
import { BrokerUnavailableError, type DrainTarget } from "./target.ts";

export { drain } from "./drain.ts";

/** A client of ioredis, as this file uses it. */
type Client = RedisClient & EventEmitter & { disconnect(): void; ping(): Promise<unknown> };

/** An answer of Redis that is an error names its command. */
type RedisError = Error & { command?: { name?: string } };

interface Ioredis {
  Redis: new (url: string, options: object) => Client;
}

interface Bullmq {
  Queue: new (name: string, options: object) => BullmqQueue & { close(): Promise<void>; on: Client["on"] };
}

/** A target that was opened by its URL. */
export interface OpenedTarget extends DrainTarget {
  /** Whether Redis answers, has accepted the password, and has the database of the URL. Never throws. */
  isUsable(): Promise<boolean>;
}

const form = "bullmq:redis://host:port/queue or stream:redis://host:port/key";

/**
 * Opens `bullmq:redis://…/<queue>` or `stream:redis://…/<key>`, also with `rediss:`, a user and a password, `?db=<number>`, and for
 * BullMQ `?prefix=<text>`. Resolves when it is connected, or when the first try to connect has failed.
 * @param report called with each error of the connection that is not the same as the last one
 * @throws TypeError for another URL, and when a package is not installed
 */
export async function openDrainTarget(
  target: string,
  report: (error: unknown, where: string) => void,
): Promise<OpenedTarget> {
  const [, kind, rest = ""] = /^(bullmq|stream):(rediss?:\/\/.+)$/.exec(target) ?? [];
  const url = URL.canParse(rest) ? new URL(rest) : undefined;
  const name = decodeURIComponent(url?.pathname.slice(1) ?? "");
  if (kind === undefined || url === undefined || name === "")
    throw new TypeError(`expected ${form}, got ${show(withoutPassword(target))}`);
  const { db, prefix } = parametersOf(url, kind);
  url.pathname = db === null ? "" : `/${db}`;
  url.search = "";
  const { Redis } = await installed<Ioredis>("ioredis");
  const client = new Redis(url.href, { maxRetriesPerRequest: null });
  const check = watched(client, (error) => report(error, `connecting to Redis at ${url.host}`));
  const end = async () => client.disconnect();
  const opened =
    kind === "stream"
      ? { ...redisStream(client, name), close: end }
      : await bullmqOver(client, name, prefix, end);
  await limited(firstTryMs, () => once(client, "ready")).catch(() => undefined);
  const send: DrainTarget["send"] = async (...sent) => {
    check();
    return await opened.send(...sent);
  };
  const isUsable = async () => {
    try {
      check();
      // Redis answers in order: by then it has refused the database, if it does.
      await limited(firstTryMs, () => client.ping());
      check();
      return true;
    } catch {
      return false;
    }
  };
  return { ...opened, send, isUsable };
}

/** Milliseconds to wait for the first try to connect. */
const firstTryMs = 2_000;

/** @throws TypeError for a parameter that the target has not */
function parametersOf({ searchParams }: URL, kind: string): { db: string | null; prefix: string | null } {
  const known = kind === "stream" ? ["db"] : ["db", "prefix"];
  for (const name of searchParams.keys())
    if (!known.includes(name))
      throw new TypeError(`${kind}: there is no parameter ?${name}=; there is ?${known.join("= and ?")}=`);
  const db = searchParams.get("db");
  if (db !== null && !/^\d+$/.test(db))
    throw new TypeError(`${kind}: ?db=: expected the number of a database of Redis, got ${show(db)}`);
  return { db, prefix: searchParams.get("prefix") };
}

/**
 * Reports the errors of the connection. Without a listener, ioredis would print each of its own failed tries.
 * @returns a check that throws unless Redis is connected, and has selected the database that the URL names: where it has no
 *   such database, ioredis goes on with number 0
 */
function watched(client: Client, report: (error: Error) => void): () => void {
  let last: RedisError | undefined;
  client.on("error", (error: RedisError) => {
    if (error.message !== last?.message) report(error);
    last = error;
  });
  client.on("close", () => {
    if (last?.command?.name === "select") last = undefined;
  });
  return () => {
    const cause = last;
    if (client.status !== "ready")
      throw new BrokerUnavailableError(`the connection to Redis is not ready: it is ${client.status}`, {
        cause,
      });
    if (cause?.command?.name === "select")
      throw new BrokerUnavailableError("Redis does not have the database that ?db= names", { cause });
    last = undefined;
  };
}

async function bullmqOver(
  client: Client,
  name: string,
  prefix: string | null,
  end: () => Promise<void>,
): Promise<DrainTarget> {
  try {
    const { Queue } = await installed<Bullmq>("bullmq");
    const queue = newQueue(Queue, name, { connection: client, ...(prefix === null ? {} : { prefix }) });
    queue.on("error", () => undefined);
    return { ...bullmq(queue), close: () => queue.close().then(end, end) };
  } catch (error) {
    await end();
    throw error;
  }
}

/** @throws TypeError for a name that BullMQ refuses */
function newQueue(Queue: Bullmq["Queue"], name: string, options: object): InstanceType<Bullmq["Queue"]> {
  try {
    return new Queue(name, options);
  } catch (cause) {
    throw new TypeError(`bullmq: the queue ${show(name)} cannot be opened: ${(cause as Error).message}`, {
      cause,
    });
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
