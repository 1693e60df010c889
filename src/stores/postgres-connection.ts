/** Connections to Postgres, and what their errors mean. */
import type { Socket } from "node:net";
import type { ClientConfig } from "pg";
import type { Connection } from "./server-pool.ts";
import { type Failure, thrownBy } from "./server-run.ts";
import { type Host, readServerUrl, type ServerUrl } from "./server-url.ts";

/** Milliseconds. A host that was cut off sends no word: without a limit, its connections would wait for it for a quarter of an hour. */
const connectTimeout = 5_000;
const queryTimeout = 30_000;

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
  ...["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit"].map(
    (name) => `${name}=off`,
  ),
]
  .map((setting) => `-c ${setting}`)
  .join(" ");

/** What pg needs to know, without the host. A pooler in between takes no settings for a session. */
export function configOf(url: Omit<ServerUrl, "hosts">, sessions: boolean): ClientConfig {
  const { user, password, database, parameters } = url;
  const { sslmode, application_name = "dbq" } = parameters;
  const options = [parameters.options, sessions ? plans : undefined].filter(Boolean).join(" ");
  return {
    user,
    database,
    ...(password === "" ? {} : { password }),
    application_name,
    ...(options === "" ? {} : { options }),
    ...(sslmode === undefined || sslmode === "disable"
      ? {}
      : { ssl: { rejectUnauthorized: sslmode === "verify-full" || sslmode === "verify-ca" } }),
    keepAlive: true,
    connectionTimeoutMillis: connectTimeout,
    query_timeout: queryTimeout,
  };
}

/** `named`: whether statements may be prepared under names, which a pooler in between may not carry over. */
export async function connectPostgres(config: ClientConfig, host: Host, named: boolean): Promise<Connection> {
  const pg = await import("pg");
  const client = new pg.default.Client({ ...config, ...host });
  let broken = false;
  const end = () => {
    broken = true;
  };
  client.on("error", end);
  client.on("end", end);
  await client.connect();
  return {
    client,
    query: async (text, values, name) => {
      const prepared = named && name !== undefined ? { name } : {};
      const query = { text, values: [...values], rowMode: "array" as const, types: asText, ...prepared };
      const { rows, rowCount } = await client.query<unknown[]>(query);
      return { rows, changed: rowCount ?? 0, insertId: 0 };
    },
    get broken() {
      return broken;
    },
    hold: (on) => keeping(client, on),
    end: async () => {
      end();
      keeping(client, true);
      await client.end().catch(() => undefined);
    },
    destroy: () => {
      end();
      (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
    },
  };
}

/** Whether an open connection keeps the process alive. Its types do not have these. */
export function keeping(client: unknown, on: boolean): void {
  const socket = client as { ref(): void; unref(): void };
  if (on) socket.ref();
  else socket.unref();
}

/** The settings of an app's own pool or client of pg; not those of another driver's. */
export function settingsOf(client: unknown): { config: ClientConfig; hosts: Host[] } | undefined {
  const { connectionParameters, options } = client as { connectionParameters?: object; options?: object };
  const theirs = (connectionParameters ?? options) as
    | (ClientConfig & { Client?: unknown; max?: unknown })
    | undefined;
  if (
    theirs === undefined ||
    !("query" in (client as object)) ||
    Array.isArray((theirs as { host?: unknown }).host)
  )
    return;
  const { user, password, database, ssl, connectionString } = theirs;
  if (typeof password === "function") return undefined;
  const url =
    connectionString === undefined
      ? undefined
      : readServerUrl(connectionString, { port: 5432, user: "postgres" });
  const { hosts = [{ host: theirs.host ?? "127.0.0.1", port: theirs.port ?? 5432 }] } = url ?? {};
  const own = configOf(
    {
      user: user ?? url?.user ?? process.env.PGUSER ?? "postgres",
      password: password ?? url?.password ?? process.env.PGPASSWORD ?? "",
      database: database ?? url?.database ?? process.env.PGDATABASE ?? "postgres",
      parameters: {
        ...url?.parameters,
        ...(theirs.options === undefined ? {} : { options: theirs.options }),
      },
    },
    true,
  );
  return { config: ssl === undefined ? own : { ...own, ssl }, hosts: [...hosts] };
}

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const passing = new Set(["40001", "40P01", "55P03", "53300", "57P03", "57014"]);
const elsewhere = new Set(["25006", "26000"]);

export function failureOf(thrown: unknown): Failure {
  const error = thrownBy(thrown);
  const {
    code,
    message = "",
    constraint,
    constraint_name: constraintOfPostgresJs,
  } = error as { code?: unknown; message?: string; constraint?: string; constraint_name?: string };
  if (typeof code !== "string")
    return /connection terminated|timeout|Client has encountered/i.test(message) ? "lost" : "final";
  if (passing.has(code) || (constraint ?? constraintOfPostgresJs) === "dbq_tasks_unique") return "passing";
  if (elsewhere.has(code)) return "elsewhere";
  return /^08|^57P0|^E[A-Z]+$/.test(code) ? "lost" : "final";
}
