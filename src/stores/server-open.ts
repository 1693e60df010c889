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
import { askedOf, drizzleOf, type ServerDrizzle } from "./server-drizzle.ts";
import { type Asked, type Connection, Hosts, ServerPool } from "./server-pool.ts";
import { type Host, readServerUrl, type ServerUrl } from "./server-url.ts";

/** @default */
const connections = 5;

/** What connections need, plain data. */
export interface ServerSettings {
  config: object;
  hosts: readonly Host[];
}

/** How a server's driver is used. */
export interface ServerDriver {
  defaults: { port: number; user: string };
  /** What the driver is told, the host apart. Plain data: the heartbeat's thread is given it too. */
  config(url: Omit<ServerUrl, "hosts">, sessions: boolean): object;
  connect(config: object, host: Host, sessions: boolean): Promise<Connection>;
  /** Drizzle over a connection of the driver's. */
  drizzleOver(client: unknown): Promise<ServerDrizzle>;
  teller(pool: ServerPool): Teller | undefined;
  /** Of the client under an app's Drizzle database, where they can be had. */
  settingsOf(client: unknown): ServerSettings | undefined;
  /** The program that connects for the heartbeat, and the question by which its session takes the lock named `session`. */
  connector: URL;
  lock: Compiled;
  /** Whether a lock can be seen from every connection to a server that wants this strategy. */
  seesLocks(strategy: Strategy): boolean;
}

/** @throws DatabaseError that says what is wrong with the server; TypeError for a wrong URL */
export function openUrl(
  kind: ServerKind,
  driver: ServerDriver,
  url: string,
  options: ServerOptions,
): Promise<Store> {
  const { hosts, ...read } = readServerUrl(url, driver.defaults);
  const config = driver.config(read, options.sessions ?? true);
  return openConnections(kind, driver, { config, hosts }, options);
}

/**
 * Opens a store on the app's own Drizzle database. Where its driver's settings can be had, dbq has connections of its own
 * beside the app's; else it asks through Drizzle, and then nobody tells it of what others write.
 * @throws DatabaseError that says what is wrong with the server; TypeError when it is no such database
 */
export function openDatabase(
  kind: ServerKind,
  driver: ServerDriver,
  db: object,
  options: ServerOptions,
): Promise<Store> {
  const theirs = drizzleOf(db, kind.drizzle);
  const settings =
    (options.sessions ?? true) ? driver.settingsOf((db as { $client?: unknown }).$client) : undefined;
  if (settings) return openConnections(kind, driver, settings, options, theirs);
  const asked = askedOf(theirs, kind.drizzle);
  const nothing = async () => undefined;
  const pool = {
    name: "the app's database",
    use: <T>(fn: (inside: Asked) => Promise<T>) => fn(asked),
    close: nothing,
  };
  const transact: ServerReach["transact"] = (fn) => theirs.transaction(fn);
  return serverStore(
    kind,
    { pool, transact, teller: undefined, beat: () => undefined, close: nothing },
    options,
  );
}

/** `theirs`: the app's own database, whose transactions it then is that `transaction` begins. */
async function openConnections(
  kind: ServerKind,
  driver: ServerDriver,
  { config, hosts }: ServerSettings,
  options: ServerOptions,
  theirs?: ServerDrizzle,
): Promise<Store> {
  const { sessions = true, poolSize = connections } = options;
  const connect = (host: Host) => driver.connect(config, host, sessions);
  const preference = new Hosts(hosts);
  const [pool, apps] = [
    new ServerPool(connect, preference, poolSize),
    new ServerPool(connect, preference, poolSize),
  ];
  const spoilt = (error: unknown) => ["lost", "elsewhere"].includes(kind.steps.failureOf(error));
  const { beatInSession } = kind.operations.optimistic.statements;
  return await serverStore(
    kind,
    {
      pool,
      teller: sessions ? driver.teller(pool) : undefined,
      transact: (fn) =>
        theirs?.transaction(fn) ??
        apps.use(async ({ client }) => await (await driver.drizzleOver(client)).transaction(fn), spoilt),
      beat: (workerId, every, strategy) => {
        const session =
          sessions && driver.seesLocks(strategy) ? `dbq:${randomBytes(8).toString("hex")}` : null;
        const data = {
          ...{ connector: driver.connector.href, config, hosts: preference.inOrder },
          ...{
            lock: session === null ? undefined : driver.lock,
            beat: kind.steps.compiler.compile(beatInSession),
          },
          params: { workerId, session },
        };
        return { thread: new URL("./server-beat.mjs", import.meta.url), data, every };
      },
      close: () => apps.close(),
    },
    options,
  );
}
