/** Opens a store on a server: by its URL, or on the app's own Drizzle database. */
import { randomBytes } from "node:crypto";
import { show } from "../../base/options/durations.ts";
import type { Store } from "../../store.ts";
import { driverFile, type HeartbeatThread } from "../sql/heartbeat.ts";
import { inCallback, watchTransactions } from "./callbacks.ts";
import { drizzleOf, queryableOf, type ServerDrizzle } from "./drizzle.ts";
import { heartbeatProgram } from "./embedded.ts";
import { Hosts, type Queryable, ServerPool } from "./pool.ts";
import { isSpoilt } from "./run.ts";
import {
  type ServerKind,
  type ServerOptions,
  type ServerReach,
  type ServerSettings,
  serverStore,
  type Use,
} from "./store.ts";
import { type Host, readServerUrl } from "./url.ts";

/** Connections that operations share. */
const defaultPoolSize = 5;

/**
 * `waitLimit`, in milliseconds: an app that begins a transaction inside of another one may wait for itself.
 * `trust`, in milliseconds: a ping before each transaction would cost a round trip.
 */
const appPool = { waitLimit: 60_000, trust: 1_000 };

/** @throws DatabaseError that says what is wrong with the server; TypeError for a wrong URL */
export function openUrl(kind: ServerKind, url: string, options: ServerOptions): Promise<Store> {
  const { hosts, ...rest } = readServerUrl(url, kind.urlDefaults);
  const [config, appConfig] = [kind.configOf(rest, useOf(options)), kind.configOf(rest, "app")];
  return openConnections(kind, { config, hosts, appConfig }, options);
}

const useOf = ({ sessions = true }: ServerOptions): Use => (sessions ? "own" : "pooled");

/**
 * Opens a store on the app's own Drizzle database. When its driver's settings can be had, dbq makes connections of its own;
 * else it sends its statements through Drizzle, and receives no notifications.
 * @throws DatabaseError that says what is wrong with the server; TypeError for another kind of database, or for a single
 * connection that dbq would have to share with the app's transactions
 */
export function openDatabase(kind: ServerKind, db: object, options: ServerOptions): Promise<Store> {
  const appDb = drizzleOf(db, kind.drizzle);
  const client = (db as { $client?: unknown }).$client;
  if (client === undefined)
    throw new TypeError(`expected a Drizzle database over a driver of ${kind.drizzle.name}, got ${show(db)}`);
  const settings = kind.settingsOf(client, useOf(options));
  if (settings) return openConnections(kind, settings, options, appDb);
  // The app's open transaction on it would take dbq's writes with it when it rolls back.
  if (kind.isOne(client))
    throw new TypeError(
      `expected a Drizzle database over a pool: dbq cannot have connections of its own to where this ${kind.drizzle.name} connection leads`,
    );
  const own = { execute: appDb.execute.bind(appDb), transaction: watchTransactions(appDb) };
  return serverStore(kind, reachThrough(appDb, queryableOf(own, kind.drizzle)), options);
}

function reachThrough(appDb: ServerDrizzle, queryable: Queryable): ServerReach {
  return {
    pool: { name: "the app's database", use: (fn) => fn(queryable) },
    listener: undefined,
    heartbeatThread: () => undefined,
    transact: (fn) => appDb.transaction(fn),
    transacting: appDb,
    close: async () => undefined,
  };
}

/** `appDb`: the app's own database, where there is one: `queue.transaction` then begins its transactions on it. */
async function openConnections(
  kind: ServerKind,
  settings: ServerSettings,
  options: ServerOptions,
  appDb?: ServerDrizzle,
): Promise<Store> {
  const { sessions = true, poolSize = defaultPoolSize } = options;
  const { config, hosts, appConfig = config } = settings;
  const preference = new Hosts(hosts);
  if (appDb) watchTransactions(appDb);
  const connectAs = (config: object, use: Use) => (host: Host) => kind.connect(config, host, use);
  const pool = new ServerPool(connectAs(config, useOf(options)), preference, poolSize);
  const apps = new ServerPool(connectAs(appConfig, "app"), preference, poolSize, appPool);
  const reach: ServerReach = {
    pool,
    listener: sessions ? kind.listenerOver(pool) : undefined,
    heartbeatThread: (workerId, strategy) => {
      const lock = sessions && kind.seesLocks(strategy);
      return heartbeatThread(kind, { config, hosts: preference.inOrder }, workerId, lock);
    },
    transact: (fn) =>
      appDb?.transaction(fn) ??
      apps.use(
        async ({ client }) => {
          const db = await kind.drizzleOver(client);
          return await db.transaction((tx) => inCallback(apps, () => fn(tx)));
        },
        (error) => isSpoilt(kind.steps.failureOf(error)),
      ),
    transacting: appDb ?? apps,
    close: async () => {
      await pool.close();
      await apps.close();
    },
  };
  return await serverStore(kind, reach, options);
}

/** `lock`: whether the thread's session holds a lock, whose end shows other processes that the worker has died. */
function heartbeatThread(
  kind: ServerKind,
  { config, hosts }: ServerSettings,
  workerId: string,
  lock: boolean,
): HeartbeatThread | undefined {
  if (!isPlain(config)) return undefined;
  const driver = driverFile(kind.driver);
  if (driver === undefined) return undefined;
  const { beatInSession } = kind.operations.optimistic().texts.statements;
  const session = lock ? `dbq:${randomBytes(8).toString("hex")}` : null;
  const data = {
    connector: kind.connector,
    driver,
    config,
    hosts,
    lock: lock ? kind.lock : undefined,
    heartbeat: kind.steps.compiler.compile(beatInSession),
    params: { workerId, session },
  };
  return { program: heartbeatProgram, data };
}

/** Whether the settings can be sent to a thread: a password, or the check of a certificate, may be a function. */
function isPlain(config: object): boolean {
  try {
    structuredClone(config);
    return true;
  } catch {
    return false;
  }
}
