/** Connections to MySQL and MariaDB, and what their errors mean. */

import type { ConnectionOptions, ResultSetHeader } from "mysql2";
import { driverError } from "../../base/runtime/drizzle-internals.ts";
import { importPackage } from "../../base/runtime/packages.ts";
import { type Connection, type QueryResult, timeouts } from "../server/pool.ts";
import type { Failure } from "../server/run.ts";
import { idleTransactionLimit, readingTimeout, type Use } from "../server/store.ts";
import type { Host, ServerUrl } from "../server/url.ts";

/** Seconds to wait for a row that another transaction holds. */
const lockTimeouts: Readonly<Record<Use, number>> = { own: 1, pooled: 1, reading: 1, app: 5 };

/**
 * The settings of each connection, whatever those of the server and its `init_connect` are: a backslash escapes, as in the
 * parameters that mysql2 writes; a value that does not fit is an error; a search locks only the rows that it finds. A statement
 * outside of a transaction is committed, COMMIT does not begin another transaction, and no statement is refused or cut short
 * because it is about many rows.
 */
const settings = (use: Use) => [
  "set session autocommit = 1, completion_type = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, group_concat_max_len = 16777216",
  `set session sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = ${lockTimeouts[use]}`,
  "set session transaction isolation level read committed",
];

const unknownVariable = 1193;

/** The settings of mysql2, without the host. Without FOUND_ROWS, an UPDATE counts the rows that it changed. */
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

/** Whether to verify the server's certificate and its name. */
function proofOf(mode: string) {
  const verify = /^verify/i.test(mode);
  return { rejectUnauthorized: verify, verifyIdentity: verify };
}

/** The address of a host; a path is that of a socket. */
export const addressOf = ({ host, port }: Host) =>
  host.startsWith("/") ? { socketPath: host } : { host, port };

export async function connectMysql(config: ConnectionOptions, host: Host, use: Use): Promise<Connection> {
  const { createConnection } = await importPackage<typeof import("mysql2/promise")>("mysql2/promise");
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
  let mostBytes: number | undefined;
  const query = async (sql: string, values: readonly unknown[]): Promise<QueryResult> => {
    if (lengthOf(values) >= large) {
      mostBytes ??= Number((await query("select @@max_allowed_packet", [])).rows[0]?.[0]);
      refuseTooLarge(Buffer.byteLength(client.format(sql, [...values])), mostBytes);
    }
    const options = { sql, values: [...values], rowsAsArray: true, timeout: timeouts.query };
    const [result] = await client.query(options).catch((error: { code?: string }) => {
      // The next query would wait behind this one, without a limit of its own.
      if (error.code === "PROTOCOL_SEQUENCE_TIMEOUT") destroy();
      throw error;
    });
    return answerOf(result);
  };
  const { stream } = (client as unknown as { connection: unknown }).connection as {
    stream: { ref(): void; unref(): void };
  };
  await prepare(query, use).catch((error: unknown) => {
    // Nothing else would ever end this connection.
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
    refusal: async () => {
      const { rows } = await query("select @@global.read_only", []);
      return Number(rows[0]?.[0]) === 0 ? undefined : readOnly();
    },
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

/** UTF-16 units of a statement's values from which its size is compared with the server's limit: it costs a query once. */
const large = 2 ** 18;

export const lengthOf = (values: readonly unknown[]): number =>
  values.reduce((sum: number, value) => sum + (typeof value === "string" ? value.length : 0), 0);

/**
 * The server ends the connection instead of answering a statement that is too large. That would look like an answer that was
 * lost, and the statement would be sent again and again.
 */
function refuseTooLarge(bytes: number, mostBytes: number): void {
  if (bytes < mostBytes) return;
  const problem = `the statement takes ${bytes} bytes, and the server's max_allowed_packet is ${mostBytes}`;
  throw Object.assign(new Error(problem), { errno: 1153, code: "ER_NET_PACKET_TOO_LARGE" });
}

const readOnly = () => Object.assign(new Error("a host is read-only"), { errno: 1290 });

/** MySQL limits only queries, and counts milliseconds; MariaDB counts seconds. Each refuses the other's. */
const limits = [
  `set session max_execution_time = ${readingTimeout}`,
  `set session max_statement_time = ${readingTimeout / 1_000}`,
];

/** @throws the server's error when it refuses a setting */
async function prepare(query: Connection["query"], use: Use): Promise<void> {
  for (const setting of settings(use)) await query(setting, []);
  if (use === "reading") {
    await query("set session transaction read only", []);
    for (const limit of limits) await query(limit, []).catch(unlessUnknown);
  }
  // Only MariaDB has this. A machine that vanished in a transaction would keep its locks for hours: nothing tells the server.
  if (use !== "app")
    await query(`set session idle_transaction_timeout = ${idleTransactionLimit}`, []).catch(unlessUnknown);
  // Only MariaDB has these. In a cluster, a node answers once it has the commits of the others; and it does not repeat a
  // statement whose commit failed, after INSERT … RETURNING has returned the ids of the first try.
  await query("set session wsrep_sync_wait = 7, wsrep_retry_autocommit = 0", []).catch(unlessUnknown);
}

function unlessUnknown(error: { errno?: number }): void {
  if (error.errno !== unknownVariable) throw error;
}

export function answerOf(result: unknown): QueryResult {
  if (Array.isArray(result)) return { rows: result, changed: 0, insertId: 0 };
  const { affectedRows, insertId } = result as ResultSetHeader;
  return { rows: [], changed: affectedRows, insertId };
}

interface AppConfig {
  host?: string;
  port?: number;
  socketPath?: string;
  user?: string;
  password?: string;
  database?: string;
  ssl?: ConnectionOptions["ssl"];
  /** With any of these, dbq cannot connect as the app does. */
  stream?: unknown;
  passwordSha1?: unknown;
  authPlugins?: unknown;
  authSwitchHandler?: unknown;
}

/** The settings of the app's own pool or connection; undefined when dbq cannot connect in the same way. */
export function settingsOf(client: unknown): { config: ConnectionOptions; hosts: Host[] } | undefined {
  const { pool, connection, config } = client as Record<
    "pool" | "connection" | "config",
    { config?: object } | undefined
  >;
  const outer = (pool?.config ?? connection?.config ?? config) as
    | (AppConfig & { connectionConfig?: AppConfig })
    | undefined;
  const app = outer?.connectionConfig ?? outer;
  const { stream, passwordSha1, authPlugins, authSwitchHandler } = app ?? {};
  if (!app?.database || (stream ?? passwordSha1 ?? authPlugins ?? authSwitchHandler)) return undefined;
  const { host = "127.0.0.1", port = 3306, socketPath, user = "root", password = "", database, ssl } = app;
  const own = configOf({ user, password, database, parameters: {} });
  return { config: ssl ? { ...own, ssl } : own, hosts: [{ host: socketPath ?? host, port }] };
}

export function isOne(client: unknown): boolean {
  return typeof client === "object" && client !== null && "beginTransaction" in client;
}

/** https://mariadb.com/kb/en/mariadb-error-code-reference/, https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html */
const transient = new Set([1213, 1020, 1040, 1203, 3572]);
/** KILL QUERY or `max_statement_time` ended the statement. */
const interrupted = new Set([1317, 1969]);
/** A table was altered meanwhile, or a group of servers undid the transaction at its COMMIT. */
const undone = new Set([1412, 1615, 3101]);
const lockTimedOut = 1205;
/** The server is read-only, or a node that is cut off from its cluster. */
const elsewhere = new Set([1290, 1792, 1836, 1047]);
/** The server is shutting down or has ended the connection; an error at COMMIT. */
const lost = new Set([1053, 1180, 1927, 3169, 4031]);

/** Of disk or memory. */
const exhausted = new Set([3, 1021, 1026, 1030, 1037, 1038, 1041, 1114, 1135]);
/** Values and rows that it refuses under other states: they do not fit, break a constraint, or exceed `max_allowed_packet`. */
const refused = new Set([1118, 1153, 1265, 1301, 1364, 1366, 1406, 3140, 3819, 4025, 4038]);
/** Data, constraints, checks of views, and SIGNAL. */
const refusedStates = /^(22|23|44|45)/;

export function failureOf(thrown: unknown): Failure {
  const error = driverError(thrown);
  const {
    errno = 0,
    code,
    fatal,
    sqlState = "",
  } = error as { errno?: number; code?: unknown; fatal?: boolean; sqlState?: string };
  if (transient.has(errno) || interrupted.has(errno) || undone.has(errno)) return "transient";
  if (isDuplicate(error)) return "transient";
  if (errno === lockTimedOut) return "locked";
  if (elsewhere.has(errno)) return "elsewhere";
  if (lost.has(errno) || (typeof code === "string" && /^PROTOCOL_|^E[A-Z]{4,}$|^EAI_AGAIN$/.test(code)))
    return "lost";
  if (exhausted.has(errno)) return "exhausted";
  if (refused.has(errno) || refusedStates.test(sqlState)) return "refused";
  // A refusal to connect is final: a wrong password, or no such database.
  return fatal === true && errno === 0 ? "lost" : "permanent";
}

/** Whether the index of unique keys refused a row. */
export function isDuplicate(error: unknown): boolean {
  const { errno, message = "" } = error as { errno?: number; message?: string };
  return errno === 1062 && message.includes("dbq_tasks_unique");
}
