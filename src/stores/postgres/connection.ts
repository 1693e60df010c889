/** Connections to Postgres, and what their errors mean. */

import type { Socket } from "node:net";
import type { Client, ClientConfig, QueryConfig } from "pg";
import { driverError } from "../../base/runtime/drizzle-internals.ts";
import { importPackage } from "../../base/runtime/packages.ts";
import { clearTimeout, setTimeout } from "../../base/runtime/timers.ts";
import { type Connection, timeouts } from "../server/pool.ts";
import type { Failure } from "../server/run.ts";
import { idleTransactionLimit, readingTimeout, type Use } from "../server/store.ts";
import type { Host, ServerUrl } from "../server/url.ts";
import { plannerSettings } from "./planner.ts";

/** Values as text: the reader of a row knows the types of its columns. */
const asText = { getTypeParser: () => (text: string) => text };

/** The settings of a connection. Most of them make each prepared statement use its index, however small the table is now. */
const plans = [
  "plan_cache_mode=force_generic_plan",
  // A concurrent change shows in the generation, and need not be an error.
  "default_transaction_isolation=read\\ committed",
  // A blocked statement would go on after the client has given up on its answer.
  "lock_timeout=1s",
  // A machine that vanished in a transaction would keep its locks for hours: nothing tells the server.
  `idle_in_transaction_session_timeout=${idleTransactionLimit}s`,
  // A role or a database may have others.
  ...plannerSettings,
]
  .map((setting) => `-c ${setting}`)
  .join(" ");

/** A dashboard must not change anything by mistake, nor keep the server busy. */
const reading = [`default_transaction_read_only=on`, `statement_timeout=${readingTimeout}`]
  .map((setting) => `-c ${setting}`)
  .join(" ");

const settingsFor: Readonly<Record<Use, string | undefined>> = {
  own: plans,
  reading: `${plans} ${reading}`,
  pooled: undefined,
  app: undefined,
};

/** The settings of pg, without the host. A pooler accepts no session settings, and the app's queries need none of ours. */
export function configOf(url: Omit<ServerUrl, "hosts">, use: Use): ClientConfig {
  const { user, password, database, parameters } = url;
  const { sslmode, application_name = "dbq" } = parameters;
  const options = [parameters.options, settingsFor[use]].filter(Boolean).join(" ");
  return {
    user,
    database,
    ...(password === "" ? {} : { password }),
    application_name,
    ...(options === "" ? {} : { options }),
    ...(sslmode === undefined ? {} : { ssl: sslmode !== "disable" && proofOf(sslmode) }),
    keepAlive: true,
    connectionTimeoutMillis: timeouts.connect,
    ...(use === "app" ? {} : { query_timeout: timeouts.query }),
  };
}

/** Whether to verify the server's certificate and its name. */
const proofOf = (sslmode: string) => ({ rejectUnauthorized: /^verify-(full|ca)$/.test(sslmode) });

export async function connectPostgres(config: ClientConfig, host: Host, use: Use): Promise<Connection> {
  const pg = await importPackage<{ default: typeof import("pg") }>("pg");
  const client = new pg.default.Client({ ...config, ...host, ...withKey(config.ssl) });
  // A pooler may not keep prepared statements.
  const named = use !== "pooled";
  let broken = false;
  const end = () => {
    broken = true;
  };
  client.on("error", end);
  client.on("end", end);
  const destroy = () => {
    end();
    streamOf(client).destroy();
  };
  await client.connect().catch((error: Error & { code?: unknown }) => {
    // pg's own errors have no code, by which `toDatabaseError` tells them from mistakes in the program.
    if (failureOf(error) === "permanent") error.code ??= "CONNECT";
    throw error;
  });
  return {
    client,
    query: async (text, values, name) => {
      const prepared = named && name !== undefined ? { name } : {};
      const query = { text, values: [...values], rowMode: "array" as const, types: asText, ...prepared };
      const { rows, rowCount } = await client.query<unknown[]>(query);
      return { rows, changed: rowCount ?? 0, insertId: 0 };
    },
    answers: () =>
      // Not in pg's types.
      client.query({ text: "select 1", query_timeout: timeouts.answer } as QueryConfig).then(
        () => true,
        () => false,
      ),
    refusal: async () => {
      const question = { text: "select pg_is_in_recovery()", query_timeout: timeouts.answer };
      const { rows } = await client.query<{ pg_is_in_recovery: boolean }>(question as QueryConfig);
      return rows[0]?.pg_is_in_recovery === true ? standby() : undefined;
    },
    get broken() {
      return broken;
    },
    hold: (on) => keepAlive(client, on),
    end: async () => {
      end();
      await endOf(client);
    },
    destroy,
  };
}

const standby = () =>
  Object.assign(new Error("a host is a standby, which takes no writes"), { code: "25006" });

const streamOf = (client: unknown) => (client as { connection: { stream: Socket } }).connection.stream;

/** Ends a client, by force when its host does not answer. */
export async function endOf(client: Client): Promise<void> {
  keepAlive(client, true);
  const late = setTimeout(() => streamOf(client).destroy(), timeouts.connect);
  await client.end().catch(() => undefined);
  clearTimeout(late);
}

/** Sets whether an open connection keeps the process alive. Not in pg's types. */
export function keepAlive(client: unknown, on: boolean): void {
  const socket = client as { ref(): void; unref(): void };
  if (on) socket.ref();
  else socket.unref();
}

/** The settings of the app's own pool or client, and of the environment; undefined when dbq cannot connect in the same way. */
export function settingsOf(client: unknown, use: Use): { config: ClientConfig; hosts: Host[] } | undefined {
  const { stream } = ((client as Partial<AppPool>).options ?? {}) as { stream?: unknown };
  const parsed = parametersOf(client as Partial<AppPool & AppClient>);
  if (parsed === undefined || Array.isArray(parsed.host) || stream !== undefined) return;
  const { user, password, database, host, port, ssl, options } = parsed;
  const parameters = options === undefined ? {} : { options };
  const config = configOf({ user, password: "", database, parameters }, use);
  const secret = password ? { password } : {};
  return { config: { ...config, ...secret, ...withKey(ssl) }, hosts: [{ host, port }] };
}

/** A copy with its key, which pg makes non-enumerable in the object that it is given. */
function withKey(ssl: ClientConfig["ssl"]): Pick<ClientConfig, "ssl"> {
  if (typeof ssl !== "object" || ssl === null) return ssl === undefined ? {} : { ssl: ssl ?? false };
  return { ssl: { ...ssl, ...("key" in ssl ? { key: ssl.key } : {}) } };
}

export function isOne(client: unknown): boolean {
  return (client as Partial<AppClient> | undefined)?.connectionParameters !== undefined;
}

/** As pg has parsed them. Not in pg's types. */
interface Parameters extends Pick<ClientConfig, "ssl" | "options"> {
  user: string;
  password?: Exclude<ClientConfig["password"], undefined> | null;
  database: string;
  host: string;
  port: number;
}

interface AppClient {
  connectionParameters: Parameters;
}

/** A pool keeps only the options that it was given: its clients parse them. */
interface AppPool {
  Client: new (options: object) => AppClient;
  options: object;
}

function parametersOf(client: Partial<AppPool & AppClient>): Parameters | undefined {
  const { connectionParameters, Client, options } = client;
  if (connectionParameters !== undefined || Client === undefined || options === undefined)
    return connectionParameters;
  return new Client(options).connectionParameters;
}

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const transient = new Set(["40001", "40P01", "53300", "57P03", "57014"]);
/** It was idle, or took too long: the server has ended the connection. */
const transactionEnded = new Set(["25P03", "25P04"]);
const lockTimedOut = "55P03";
const elsewhere = new Set(["25006", "26000"]);
/** The function of the server that refuses a prepared statement whose columns have got other types since. */
const outdatedPlan = "RevalidateCachedQuery";
/** Of disk, memory or other resources; an error of the server's system. */
const exhausted = /^5[38]/;
/** Data, constraints, triggers, checks of views, RAISE, and what is too large for an index or a row. */
const refused = /^(09|22|23|27|38|39|44|45|54|P0|40002)/;
/** The functions of the server that RAISE whatever code a trigger gives, and check rows against policies and views. */
const refusing = new Set(["exec_stmt_raise", "ExecWithCheckOptions"]);

export function failureOf(thrown: unknown): Failure {
  const error = driverError(thrown);
  const {
    code,
    message = "",
    constraint,
    constraint_name: constraintOfPostgresJs,
    routine = "",
  } = error as Partial<Record<"message" | "constraint" | "constraint_name" | "routine", string>> & {
    code?: unknown;
  };
  // The app's pool had no free connection: no statement was sent.
  if (message === "timeout exceeded when trying to connect") return "transient";
  // A value or a row that dbq refuses, whatever its message says, such as "options: timeout: …".
  if (error instanceof TypeError) return "permanent";
  if (typeof code !== "string")
    return /connection terminated|timeout|Client has encountered/i.test(message) ? "lost" : "permanent";
  if (transient.has(code) || (constraint ?? constraintOfPostgresJs) === "dbq_tasks_unique")
    return "transient";
  if (code === lockTimedOut) return "locked";
  if (elsewhere.has(code) || routine === outdatedPlan) return "elsewhere";
  if (transactionEnded.has(code)) return "lost";
  // Codes of Postgres, the system, the resolver of names, and postgres.js.
  if (/^08|^57P0|^E[A-Z]+$|^EAI_AGAIN$|^CONNECTION_(CLOSED|DESTROYED)$/.test(code)) return "lost";
  if (exhausted.test(code)) return "exhausted";
  return refused.test(code) || refusing.has(routine) ? "refused" : "permanent";
}
