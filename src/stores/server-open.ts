/** Opens a store by the URL of a server, over connections of its own. */
import { randomBytes } from "node:crypto";
import type { Store } from "../store.ts";
import type { Compiled } from "./compile.ts";
import {
  type ServerKind,
  type ServerOptions,
  type ServerReach,
  type Strategy,
  serverStore,
  type Teller,
} from "./server.ts";
import type { ServerDrizzle } from "./server-drizzle.ts";
import { type Connection, ServerPool } from "./server-pool.ts";
import { type Host, readServerUrl, type ServerUrl } from "./server-url.ts";

/** @default */
const connections = 5;

/** How a server's driver is used. */
export interface ServerDriver {
  defaults: { port: number; user: string };
  /** What the driver is told, the host apart. Plain data: the heartbeat's thread is given it too. */
  config(url: Omit<ServerUrl, "hosts">, sessions: boolean): object;
  connect(config: object, host: Host, sessions: boolean): Promise<Connection>;
  /** Drizzle over a connection of the driver's. */
  drizzleOver(client: unknown): Promise<ServerDrizzle>;
  teller(pool: ServerPool, connect: (host: Host) => Promise<Connection>): Teller | undefined;
  /** The program that connects for the heartbeat, and the question by which its session takes the lock named `session`. */
  connector: URL;
  lock: Compiled;
  /** Whether a lock can be seen from every connection to a server that wants this strategy. */
  seesLocks(strategy: Strategy): boolean;
}

/** @throws DatabaseError that says what is wrong with the server; TypeError for a wrong URL */
export async function openUrl(
  kind: ServerKind,
  driver: ServerDriver,
  url: string,
  options: ServerOptions,
): Promise<Store> {
  const { hosts, ...read } = readServerUrl(url, driver.defaults);
  const { sessions = true, poolSize = connections } = options;
  const config = driver.config(read, sessions);
  const connect = (host: Host) => driver.connect(config, host, sessions);
  const [pool, apps] = [new ServerPool(connect, hosts, poolSize), new ServerPool(connect, hosts, poolSize)];
  const { beatInSession } = kind.operations.optimistic.statements;
  const reach: ServerReach = {
    pool,
    teller: sessions ? driver.teller(pool, connect) : undefined,
    transact: (fn) =>
      apps.use(
        async ({ client }) => await (await driver.drizzleOver(client)).transaction(fn),
        (error) => ["lost", "elsewhere"].includes(kind.steps.failureOf(error)),
      ),
    beat: (workerId, every, strategy) => {
      const session = sessions && driver.seesLocks(strategy) ? `dbq:${randomBytes(8).toString("hex")}` : null;
      const data = {
        ...{ connector: driver.connector.href, config, hosts: pool.hosts },
        ...{
          lock: session === null ? undefined : driver.lock,
          beat: kind.steps.compiler.compile(beatInSession),
        },
        params: { workerId, session },
      };
      return { thread: new URL("./server-beat.mjs", import.meta.url), data, every };
    },
    close: () => apps.close(),
  };
  return await serverStore(kind, reach, options);
}
