/** Connections to MySQL and MariaDB, and what their errors mean. */
import type { ConnectionOptions, ResultSetHeader } from "mysql2";
import { type Connection, type QueryResult, timeouts } from "../server/pool.ts";
import { driverError, type Failure } from "../server/run.ts";
import type { Use } from "../server/store.ts";
import type { Host, ServerUrl } from "../server/url.ts";

/** Seconds that a row is waited for which others hold: by dbq's own questions, and by an app's. */
const lockTimeouts = { own: 1, pooled: 1, app: 5 };

/**
 * Said to each new connection. Backslashes escape, as the driver writes its parameters; what does not fit is an error; rows
 * that a search passed over are not locked.
 */
const settings = (use: Use) => [
  `set session sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = ${lockTimeouts[use]}`,
  "set session transaction isolation level read committed",
];

const unknownVariable = 1193;

/** What mysql2 needs to know, without the host. Without FOUND_ROWS, a change counts what it changed. */
export function configOf({
  user,
  password,
  database,
  parameters,
}: Omit<ServerUrl, "hosts">): ConnectionOptions {
  const mode = parameters.sslmode ?? parameters["ssl-mode"] ?? "disable";
  return {
    ...{ user, password, database, connectTimeout: timeouts.connect },
    ...(/^disabled?$/i.test(mode) ? {} : { ssl: proofOf(mode) }),
    charset: "utf8mb4",
    timezone: "Z",
    flags: ["-FOUND_ROWS"],
    enableKeepAlive: true,
  };
}

/** What a server has to prove: an authority's word for it, and its name. */
function proofOf(mode: string) {
  const verify = /^verify/i.test(mode);
  return { rejectUnauthorized: verify, verifyIdentity: verify };
}

/** Where a host is: a path is that of a socket. */
export const addressOf = ({ host, port }: Host) =>
  host.startsWith("/") ? { socketPath: host } : { host, port };

export async function connectMysql(config: ConnectionOptions, host: Host, use: Use): Promise<Connection> {
  const { createConnection } = await import("mysql2/promise");
  const client = await createConnection({ ...config, ...addressOf(host) });
  let broken = false;
  const end = () => {
    broken = true;
  };
  const destroy = () => {
    end();
    client.destroy();
  };
  client.on("error", end);
  client.on("end", end);
  const query = async (sql: string, values: readonly unknown[]) => {
    const question = { sql, values: [...values], rowsAsArray: true, timeout: timeouts.query };
    const [result] = await client.query(question).catch((error: { code?: string }) => {
      // What is asked next would wait behind this one, without a limit of its own.
      if (error.code === "PROTOCOL_SEQUENCE_TIMEOUT") destroy();
      throw error;
    });
    return answerOf(result);
  };
  const { stream } = (client as unknown as { connection: unknown }).connection as {
    stream: { ref(): void; unref(): void };
  };
  await prepare(query, use).catch((error: unknown) => {
    // The server holds it open, and nobody else would ever end it.
    destroy();
    throw error;
  });
  return {
    client,
    query,
    answers: () =>
      client.query({ sql: "select 1", timeout: timeouts.answer }).then(
        () => true,
        () => false,
      ),
    get broken() {
      return broken;
    },
    hold: (on) => (on ? stream.ref() : stream.unref()),
    end: async () => {
      end();
      stream.ref();
      await client.end().catch(() => undefined);
    },
    destroy,
  };
}

/** @throws what the server says against a setting */
async function prepare(query: Connection["query"], use: Use): Promise<void> {
  for (const setting of settings(use)) await query(setting, []);
  // Of MariaDB alone: in a cluster, a node answers when it knows what the others have committed; and it does not repeat what
  // it cannot commit by itself, when INSERT … RETURNING has told the ids of its first try.
  await query("set session wsrep_sync_wait = 7, wsrep_retry_autocommit = 0", []).catch(
    (error: { errno?: number }) => {
      if (error.errno !== unknownVariable) throw error;
    },
  );
}

export function answerOf(result: unknown): QueryResult {
  if (Array.isArray(result)) return { rows: result, changed: 0, insertId: 0 };
  const { affectedRows, insertId } = result as ResultSetHeader;
  return { rows: [], changed: affectedRows, insertId };
}

interface TheirConfig {
  host?: string;
  port?: number;
  socketPath?: string;
  user?: string;
  password?: string;
  database?: string;
  ssl?: ConnectionOptions["ssl"];
  /** What dbq cannot do as the app does. */
  stream?: unknown;
  passwordSha1?: unknown;
  authPlugins?: unknown;
  authSwitchHandler?: unknown;
}

/** The settings of an app's own pool or connection of mysql2; undefined where only that knows where it leads. */
export function settingsOf(client: unknown): { config: ConnectionOptions; hosts: Host[] } | undefined {
  const { pool, connection, config } = client as Record<
    "pool" | "connection" | "config",
    { config?: object } | undefined
  >;
  const outer = (pool?.config ?? connection?.config ?? config) as
    | (TheirConfig & { connectionConfig?: TheirConfig })
    | undefined;
  const theirs = outer?.connectionConfig ?? outer;
  const { stream, passwordSha1, authPlugins, authSwitchHandler } = theirs ?? {};
  if (!theirs?.database || (stream ?? passwordSha1 ?? authPlugins ?? authSwitchHandler)) return undefined;
  const { host = "127.0.0.1", port = 3306, socketPath, user = "root", password = "", database, ssl } = theirs;
  const own = configOf({ user, password, database, parameters: {} });
  return { config: ssl ? { ...own, ssl } : own, hosts: [{ host: socketPath ?? host, port }] };
}

export function isOne(client: unknown): boolean {
  return typeof client === "object" && client !== null && "beginTransaction" in client;
}

/** https://mariadb.com/kb/en/mariadb-error-code-reference/, https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html */
const passing = new Set([1213, 1020, 1040, 1203, 3572]);
const lockTimedOut = 1205;
/** Read-only, or a node that takes no part in its cluster. */
const elsewhere = new Set([1290, 1792, 1836, 1047]);
/** The server is ending, or ended this connection; an error at COMMIT. */
const lost = new Set([1053, 1180, 1927, 3169, 4031]);

export function failureOf(thrown: unknown): Failure {
  const error = driverError(thrown);
  const { errno = 0, code, fatal } = error as { errno?: number; code?: unknown; fatal?: boolean };
  if (passing.has(errno) || isDuplicate(error)) return "passing";
  if (errno === lockTimedOut) return "held";
  if (elsewhere.has(errno)) return "elsewhere";
  if (lost.has(errno) || (typeof code === "string" && /^PROTOCOL_|^E[A-Z]{4,}$|^EAI_AGAIN$/.test(code)))
    return "lost";
  // A refusal at the door is final: a wrong password, a database that is not there.
  return fatal === true && errno === 0 ? "lost" : "final";
}

/** Refused by the unique index of keys. */
export function isDuplicate(error: unknown): boolean {
  const { errno, message = "" } = error as { errno?: number; message?: string };
  return errno === 1062 && message.includes("dbq_tasks_unique");
}
