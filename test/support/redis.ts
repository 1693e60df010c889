/**
 * Redis for tests: `redis-server` of this machine, started on a free port for one test file, which may restart it; else
 * DBQ_TEST_REDIS_URL, for tests that restart nothing.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { Redis } from "ioredis";
import { codeOf, type Server } from "./server.ts";

const variable = "DBQ_TEST_REDIS_URL";

/** A Redis of one test file, without files. */
export interface OwnRedis {
  readonly url: string;
  readonly port: number;
  /** Kills it: what it held is gone, unless it was started with `appendonly`. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** The URL that tests may use when they restart nothing, or why there is none. */
export async function redisServer(): Promise<Server> {
  const url = process.env[variable];
  if (url !== undefined) {
    const client = new Redis(url, { lazyConnect: true, retryStrategy: null });
    client.on("error", () => undefined);
    try {
      await client.connect();
      return { url };
    } catch (error) {
      throw new Error(`${variable}: Redis cannot be used: ${codeOf(error)}`);
    } finally {
      client.disconnect();
    }
  }
  return hasRedisServer() ? { url: "redis://127.0.0.1" } : { reason: missing };
}

const missing = `no Redis: ${variable} is not set, and there is no redis-server to start`;

/** What tests need that restart their Redis. */
export const restartableRedis = (): Server =>
  hasRedisServer() ? { url: "redis://127.0.0.1" } : { reason: "there is no redis-server to start" };

function hasRedisServer(): boolean {
  return spawnSync("redis-server", ["--version"]).status === 0;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}

/** Starts one. @param settings of redis.conf, such as `--appendonly yes` */
export async function newRedis(...settings: string[]): Promise<OwnRedis> {
  const port = await freePort();
  let child: ChildProcess | undefined;
  const start = async () => {
    const fixed = ["--port", String(port), "--bind", "127.0.0.1", "--save", ""];
    child = spawn("redis-server", [...fixed, ...settings], { stdio: ["ignore", "pipe", "inherit"] });
    for await (const line of child.stdout as AsyncIterable<Buffer>)
      if (/ready to accept connections/i.test(String(line))) break;
  };
  const kill = async () => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  await start();
  return { url: `redis://127.0.0.1:${port}`, port, start, kill };
}
