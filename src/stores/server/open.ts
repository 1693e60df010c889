/** Opens a store by the URL of a server, over connections of its own. */
import { randomBytes } from "node:crypto";
import { show } from "../../base/options/durations.ts";
import type { Store } from "../../store.ts";
import type { Compiled } from "../sql/compile.ts";
import { drizzleOf, queryableOf, type ServerDrizzle } from "./drizzle.ts";
import { type Connection, Hosts, type Queryable, ServerPool } from "./pool.ts";
import {
  type Listener,
  type ServerKind,
  type ServerOptions,
  type ServerReach,
  type Strategy,
  serverStore,
} from "./store.ts";
import { type Host, readServerUrl, type ServerUrl } from "./url.ts";

/** @default */
const connections = 5;

/**
 * Milliseconds that a transaction of the app's waits for a connection: those that others hold may be waiting for it, where
 * one is begun inside of another.
 */
const transactionPatience = 60_000;

/** Milliseconds. A ping before each transaction would cost a round trip. */
const transactionTrust = 1_000;

/** What connections need. */
export interface ServerSettings {
  config: object;
  /** For what the app does in `queue.transaction`, where that is not done by a database of its own. */
  appConfig?: object;
  hosts: readonly Host[];
}

/**
 * What a connection is for: dbq's own questions, the same through a pooler which gives one session to many, or what an app
 * does in `queue.transaction`.
 */
export type Use = "own" | "pooled" | "app";

/** How a server's driver is used. */
export interface ServerDriver {
  defaults: { port: number; user: string };
  /** What the driver is told, the host apart. Plain data: the heartbeat's thread is given it, too. */
  config(url: Omit<ServerUrl, "hosts">, use: Use): object;
  connect(config: object, host: Host, use: Use): Promise<Connection>;
  /** Drizzle over a connection of the driver's. */
  drizzleOver(client: unknown): Promise<ServerDrizzle>;
  notifier(pool: ServerPool): Listener | undefined;
  /** Of the client under an app's Drizzle database, where they can be had. */
  settingsOf(client: unknown, use: Use): ServerSettings | undefined;
  /** Whether this client is one connection, which the app's transactions share with all that is asked beside them. */
  isOne(client: unknown): boolean;
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
  const config = driver.config(read, useOf(options));
  return openConnections(kind, driver, { config, hosts, appConfig: driver.config(read, "app") }, options);
}

const useOf = ({ sessions = true }: ServerOptions): Use => (sessions ? "own" : "pooled");

/**
 * Opens a store on the app's own Drizzle database. Where its driver's settings can be had, dbq has connections of its own
 * beside the app's; else it asks through Drizzle, and then nobody tells it of what others write.
 * @throws DatabaseError that says what is wrong with the server; TypeError when it is no such database, or one connection
 * that dbq would have to share with the app's transactions
 */
export function openDatabase(
  kind: ServerKind,
  driver: ServerDriver,
  db: object,
  options: ServerOptions,
): Promise<Store> {
  const theirs = drizzleOf(db, kind.drizzle);
  const client = (db as { $client?: unknown }).$client;
  if (client === undefined)
    throw new TypeError(`expected a Drizzle database over a driver of ${kind.drizzle.name}, got ${show(db)}`);
  const settings = driver.settingsOf(client, useOf(options));
  if (settings) return openConnections(kind, driver, settings, options, theirs);
  // What dbq writes would be rolled back with whatever transaction the app has open on it.
  if (driver.isOne(client))
    throw new TypeError(
      `expected a Drizzle database over a pool: dbq cannot have connections of its own to where this ${kind.drizzle.name} connection leads`,
    );
  const asked = queryableOf(theirs, kind.drizzle);
  const nothing = async () => undefined;
  const pool = {
    name: "the app's database",
    use: <T>(fn: (inside: Queryable) => Promise<T>) => fn(asked),
    close: nothing,
  };
  const transact: ServerReach["transact"] = (fn) => theirs.transaction(fn);
  return serverStore(
    kind,
    { pool, transact, notifier: undefined, beat: () => undefined, close: nothing },
    options,
  );
}

/** `theirs`: the app's own database, whose transactions it then is that `transaction` begins. */
async function openConnections(
  kind: ServerKind,
  driver: ServerDriver,
  { config, hosts, appConfig = config }: ServerSettings,
  options: ServerOptions,
  theirs?: ServerDrizzle,
): Promise<Store> {
  const { sessions = true, poolSize = connections } = options;
  const by = (settings: object, use: Use) => (host: Host) => driver.connect(settings, host, use);
  const preference = new Hosts(hosts);
  const [pool, apps] = [
    new ServerPool(by(config, useOf(options)), preference, poolSize),
    new ServerPool(by(appConfig, "app"), preference, poolSize, {
      patience: transactionPatience,
      trust: transactionTrust,
    }),
  ];
  const spoilt = (error: unknown) => ["lost", "elsewhere"].includes(kind.steps.failureOf(error));
  const { beatInSession } = kind.operations.optimistic().texts.statements;
  return await serverStore(
    kind,
    {
      pool,
      notifier: sessions ? driver.notifier(pool) : undefined,
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
        if (!isPlain(config)) return undefined;
        return { thread: new URL("./heartbeat-thread.mjs", import.meta.url), data, every };
      },
      close: () => apps.close(),
    },
    options,
  );
}

/** Whether a thread can be given it: a password or a check of certificates may be a function. */
function isPlain(config: object): boolean {
  try {
    structuredClone(config);
    return true;
  } catch {
    return false;
  }
}
