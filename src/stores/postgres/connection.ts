/** Connections to Postgres, and what their errors mean. */
import type { Socket } from "node:net";
import type { Client, ClientConfig, QueryConfig } from "pg";
import { type Connection, timeouts } from "../server/pool.ts";
import { driverError, type Failure } from "../server/run.ts";
import type { Use } from "../server/store.ts";
import type { Host, ServerUrl } from "../server/url.ts";

/** Rows as arrays of text: what a column is, its reader knows. */
const asText = { getTypeParser: () => (text: string) => text };

/**
 * For the plans of prepared statements, which are made once: whatever the table's size was then, each question goes by its
 * index.
 */
const plans = [
  "plan_cache_mode=force_generic_plan",
  // What was moved by another meanwhile is seen by its generation, and need not be an error.
  "default_transaction_isolation=read\\ committed",
  // Who waits on the server for longer is not seen to be waiting, and goes on when his answer was given up on.
  "lock_timeout=1s",
  ...["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit"].map(
    (name) => `${name}=off`,
  ),
]
  .map((setting) => `-c ${setting}`)
  .join(" ");

/**
 * What pg needs to know, without the host. A pooler in between takes no settings for a session, and an app's questions are
 * none of ours.
 */
export function configOf(url: Omit<ServerUrl, "hosts">, use: Use): ClientConfig {
  const { user, password, database, parameters } = url;
  const { sslmode, application_name = "dbq" } = parameters;
  const options = [parameters.options, use === "own" ? plans : undefined].filter(Boolean).join(" ");
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

/** What a server has to prove: an authority's word for it and its name, or nothing. */
const proofOf = (sslmode: string) => ({ rejectUnauthorized: /^verify-(full|ca)$/.test(sslmode) });

export async function connectPostgres(config: ClientConfig, host: Host, use: Use): Promise<Connection> {
  const pg = await import("pg");
  const client = new pg.default.Client({ ...config, ...host, ...withKey(config.ssl) });
  // A pooler in between may not carry over what is prepared under a name.
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
    // What pg finds wrong by itself has no code, as a mistake of the program has none.
    if (failureOf(error) === "final") error.code ??= "CONNECT";
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
      // Its types do not have it.
      client.query({ text: "select 1", query_timeout: timeouts.answer } as QueryConfig).then(
        () => true,
        () => false,
      ),
    get broken() {
      return broken;
    },
    hold: (on) => keeping(client, on),
    end: async () => {
      end();
      await endOf(client);
    },
    destroy,
  };
}

const streamOf = (client: unknown) => (client as { connection: { stream: Socket } }).connection.stream;

/** A host that was cut off says no goodbye. */
export async function endOf(client: Client): Promise<void> {
  keeping(client, true);
  const late = setTimeout(() => streamOf(client).destroy(), timeouts.connect);
  await client.end().catch(() => undefined);
  clearTimeout(late);
}

/** Whether an open connection keeps the process alive. Its types do not have these. */
export function keeping(client: unknown, on: boolean): void {
  const socket = client as { ref(): void; unref(): void };
  if (on) socket.ref();
  else socket.unref();
}

/** Where pg leads an app's own pool or client, by its settings and the environment; undefined where only that knows. */
export function settingsOf(client: unknown, use: Use): { config: ClientConfig; hosts: Host[] } | undefined {
  const { stream } = ((client as Partial<TheirPool>).options ?? {}) as { stream?: unknown };
  const theirs = parametersOf(client as Partial<TheirPool & TheirClient>);
  if (theirs === undefined || Array.isArray(theirs.host) || stream !== undefined) return;
  const { user, password, database, host, port, ssl, options } = theirs;
  const parameters = options === undefined ? {} : { options };
  const config = configOf({ user, password: "", database, parameters }, use);
  const secret = password ? { password } : {};
  return { config: { ...config, ...secret, ...withKey(ssl) }, hosts: [{ host, port }] };
}

/** A copy of its own: pg hides the key of what it is given, so that a copy of that lacks it. */
function withKey(ssl: ClientConfig["ssl"]): Pick<ClientConfig, "ssl"> {
  if (typeof ssl !== "object" || ssl === null) return ssl === undefined ? {} : { ssl: ssl ?? false };
  return { ssl: { ...ssl, ...("key" in ssl ? { key: ssl.key } : {}) } };
}

export function isOne(client: unknown): boolean {
  return (client as Partial<TheirClient> | undefined)?.connectionParameters !== undefined;
}

/** As pg has understood them. Its types do not have these. */
interface Parameters extends Pick<ClientConfig, "ssl" | "options"> {
  user: string;
  password?: Exclude<ClientConfig["password"], undefined> | null;
  database: string;
  host: string;
  port: number;
}

interface TheirClient {
  connectionParameters: Parameters;
}

/** It knows no more than what it was given: its clients know where that leads. */
interface TheirPool {
  Client: new (options: object) => TheirClient;
  options: object;
}

function parametersOf(theirs: Partial<TheirPool & TheirClient>): Parameters | undefined {
  const { connectionParameters, Client, options } = theirs;
  if (connectionParameters !== undefined || Client === undefined || options === undefined)
    return connectionParameters;
  return new Client(options).connectionParameters;
}

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const passing = new Set(["40001", "40P01", "53300", "57P03", "57014"]);
const lockTimedOut = "55P03";
const elsewhere = new Set(["25006", "26000"]);

export function failureOf(thrown: unknown): Failure {
  const error = driverError(thrown);
  const {
    code,
    message = "",
    constraint,
    constraint_name: constraintOfPostgresJs,
  } = error as { code?: unknown; message?: string; constraint?: string; constraint_name?: string };
  // Of an app's pool which has no connection to give: nothing was asked.
  if (message === "timeout exceeded when trying to connect") return "passing";
  if (typeof code !== "string")
    return /connection terminated|timeout|Client has encountered/i.test(message) ? "lost" : "final";
  if (passing.has(code) || (constraint ?? constraintOfPostgresJs) === "dbq_tasks_unique") return "passing";
  if (code === lockTimedOut) return "held";
  if (elsewhere.has(code)) return "elsewhere";
  // By words of Postgres, the system, the resolver of names, postgres.js.
  return /^08|^57P0|^E[A-Z]+$|^EAI_AGAIN$|^CONNECTION_(CLOSED|DESTROYED)$/.test(code) ? "lost" : "final";
}
