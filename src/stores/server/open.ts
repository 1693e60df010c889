/** Opens a store on a server: by its URL, or on the app's own Drizzle database. */
import { randomBytes } from "node:crypto";
import { show } from "../../base/options/durations.ts";
import { systemClock } from "../../base/runtime/clock.ts";
import type { FullStore } from "../../features/store.ts";
import { driverFile, type HeartbeatThread } from "../sql/heartbeat.ts";
import { inCallback, watchTransactions } from "./callbacks.ts";
import { drizzleOf, queryableOf, type ServerDrizzle } from "./drizzle.ts";
import { heartbeatProgram } from "./embedded.ts";
import { Hosts, type Queryable, ServerPool } from "./pool.ts";
import { isSpoilt } from "./run.ts";
import { usePool } from "./shared-pools.ts";
import {
  type ServerKind,
  type ServerOptions,
  type ServerReach,
  type ServerSettings,
  serverStore,
  type Use,
} from "./store.ts";
import { type Host, readServerUrl } from "./url.ts";

/**
 * Connections that operations share: a worker's cycles take one, enqueues and reads the other. While the other one is idle,
 * a second cycle may take it.
 */
const defaultPoolSize = 2;

/** Connections of `queue.transaction`, each of which an app's callback may hold for long. */
const transactionPoolSize = 5;

/** Connections of a store for reads: a slow page keeps no other from being shown. */
const readingPoolSize = 2;
const readingPool = { idleLimit: 10_000 };

/**
 * `waitLimit`, in milliseconds: an app that begins a transaction inside of another one may wait for itself.
 * `trust`, in milliseconds: a ping before each transaction would cost a round trip. `idleLimit`: between an app's
 * transactions the connections are left to others.
 */
const appPool = { waitLimit: 60_000, trust: 1_000, idleLimit: 10_000 };

/** @throws DatabaseError that says what is wrong with the server; TypeError for a wrong URL */
export function openUrl(kind: ServerKind, url: string, options: ServerOptions): Promise<FullStore> {
  const { hosts, ...rest } = readServerUrl(url, kind.urlDefaults);
  const [config, appConfig] = [kind.configOf(rest, useOf(options)), kind.configOf(rest, "app")];
  const reading = { config: kind.configOf(rest, readingUse(options)), hosts };
  return openConnections(kind, { config, hosts, appConfig }, options, reading);
}

/** A pooler accepts no session settings. */
const readingUse = ({ sessions = true }: ServerOptions): Use => (sessions ? "reading" : "pooled");

const useOf = ({ sessions = true }: ServerOptions): Use => (sessions ? "own" : "pooled");

/**
 * Opens a store on the app's own Drizzle database. When its driver's settings can be had, dbq makes connections of its own;
 * else it sends its statements through Drizzle, and receives no notifications.
 * @throws DatabaseError that says what is wrong with the server; TypeError for another kind of database, or for a single
 * connection that dbq would have to share with the app's transactions
 */
export function openDatabase(kind: ServerKind, db: object, options: ServerOptions): Promise<FullStore> {
  const appDb = drizzleOf(db, kind.drizzle);
  const client = (db as { $client?: unknown }).$client;
  if (client === undefined)
    throw new TypeError(`expected a Drizzle database over a driver of ${kind.drizzle.name}, got ${show(db)}`);
  const settings = kind.settingsOf(client, useOf(options));
  const reading = kind.settingsOf(client, readingUse(options));
  if (settings && reading) return openConnections(kind, settings, options, reading, appDb);
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
    pool: { name: "the app's database", use: (fn) => fn(queryable), hasIdle: () => false },
    listener: undefined,
    heartbeatThread: () => undefined,
    transact: (fn) => appDb.transaction(fn),
    transacting: appDb,
    reader: undefined,
    close: async () => undefined,
  };
}

/**
 * `reading`: the settings for people who look. `appDb`: the app's own database, where there is one: `queue.transaction` then
 * begins its transactions on it.
 */
async function openConnections(
  kind: ServerKind,
  settings: ServerSettings,
  options: ServerOptions,
  reading: ServerSettings,
  appDb?: ServerDrizzle,
): Promise<FullStore> {
  const { sessions = true, poolSize } = options;
  const { config, hosts, appConfig = config } = settings;
  const preference = new Hosts(hosts);
  if (appDb) watchTransactions(appDb);
  const connectAs = (config: object, use: Use) => (host: Host) => kind.connect(config, host, use);
  const size = poolSize ?? defaultPoolSize;
  const target = targetOf(kind, { config, hosts }, options);
  const { pool, release } = usePool(target && `${target} ${size}`, () => {
    return new ServerPool(connectAs(config, useOf(options)), preference, size);
  });
  const apps = new ServerPool(
    connectAs(appConfig, "app"),
    preference,
    poolSize ?? transactionPoolSize,
    appPool,
  );
  const own = randomBytes(8).toString("hex");
  const reach: ServerReach = {
    pool,
    listener: sessions ? kind.listenerOver(pool) : undefined,
    heartbeatThread: (workerId, strategy) => {
      const lock = sessions && kind.seesLocks(strategy);
      const key = `${target ?? own} ${lock}`;
      return heartbeatThread(kind, { config, hosts: preference.inOrder }, { key, workerId, lock });
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
    reader: () => openReader(kind, reading, options),
    close: async () => {
      await release();
      await apps.close();
    },
  };
  return await serverStore(kind, reach, options);
}

/** What names the connections that several queues may share; undefined: this one has connections of its own. */
function targetOf(
  { driver }: ServerKind,
  { config, hosts }: ServerSettings,
  options: ServerOptions,
): string | undefined {
  if (options.sharesPool !== true || !isPlain(config)) return undefined;
  return JSON.stringify([driver, useOf(options), config, hosts]);
}

/** The same database over a few connections that only read. Nobody tells it of changes. */
async function openReader(
  kind: ServerKind,
  { config, hosts }: ServerSettings,
  options: ServerOptions,
): Promise<FullStore> {
  const use = readingUse(options);
  const connect = (host: Host) => kind.connect(config, host, use);
  const pool = new ServerPool(connect, new Hosts(hosts), readingPoolSize, readingPool);
  const refuse = () => Promise.reject(new TypeError("a store for reads has no transactions"));
  const reach: ServerReach = {
    pool,
    listener: undefined,
    heartbeatThread: () => undefined,
    transact: refuse,
    transacting: pool,
    reader: undefined,
    close: () => pool.close(),
  };
  return await serverStore(kind, reach, { ...options, migrate: false });
}

/**
 * The thread that sends the heartbeats of all workers with this `key`. `lock`: whether its session holds a lock, whose end shows
 * other processes that these workers have died.
 */
function heartbeatThread(
  kind: ServerKind,
  { config, hosts }: ServerSettings,
  { key, workerId, lock }: { key: string; workerId: string; lock: boolean },
): HeartbeatThread | undefined {
  if (!isPlain(config)) return undefined;
  const driver = driverFile(kind.driver);
  if (driver === undefined) return undefined;
  const { beatInSession } = kind.operations.optimistic(systemClock).texts.statements;
  const data = {
    connector: kind.connector,
    driver,
    config,
    hosts,
    lock: lock ? kind.lock : undefined,
    session: lock ? `dbq:${randomBytes(8).toString("hex")}` : null,
  };
  const worker = { workerId, heartbeat: kind.steps.compiler.compile(beatInSession) };
  return { key, program: heartbeatProgram, data, worker };
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
