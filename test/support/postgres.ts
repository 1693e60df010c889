/**
 * Postgres for tests: DBQ_TEST_POSTGRES_URL, else a server on this machine, else one that the test run starts
 * (`embedded-postgres.ts`). Tests never share tables: each one creates a schema.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { Client } from "pg";
import { codeOf, hostOf, isLeftOver, namesLike, newName, type Server } from "./server.ts";

const variable = "DBQ_TEST_POSTGRES_URL";
const local = [
  "postgres://postgres@127.0.0.1:5432/postgres",
  "postgres://postgres:postgres@127.0.0.1:5432/postgres",
];
/** Milliseconds, for a server that is starting or far away. */
const connectionTimeout = 5_000;

let found: Promise<Server> | undefined;

/** Looks for a server once per process. @throws Error when the server in the variable cannot be used */
export function postgresServer(): Promise<Server> {
  found ??= find();
  return found;
}

async function find(): Promise<Server> {
  const url = process.env[variable];
  if (url !== undefined) {
    const host = hostOf(variable, url);
    const refusal = await refusalOf(url);
    if (refusal !== undefined) throw new Error(`${variable}: Postgres at ${host} cannot be used: ${refusal}`);
    return { url };
  }
  for (const candidate of local) if ((await refusalOf(candidate)) === undefined) return { url: candidate };
  return await started();
}

/** Why tests cannot use this server; undefined when they can. */
async function refusalOf(url: string): Promise<string | undefined> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: connectionTimeout });
  try {
    await client.connect();
    const { rows } = await client.query("select has_database_privilege(current_database(), 'create') as may");
    return rows[0]?.may ? undefined : "its user may not create schemas";
  } catch (error) {
    return codeOf(error);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Asks the test run for a server; the first to ask waits until it has started. */
async function started(): Promise<Server> {
  const none = `no Postgres: ${variable} is not set, none answers on 127.0.0.1:5432`;
  const port = process.env.DBQ_TEST_POSTGRES_PORT;
  if (port === undefined) return { reason: `${none}, and this run starts no server` };
  const socket = connect(Number(port), "127.0.0.1");
  await once(socket, "connect");
  const answer = JSON.parse(await text(socket)) as Server;
  return answer.reason === undefined
    ? answer
    : { reason: `${none}, and none can be started: ${answer.reason}` };
}

/** A schema, and a connection that sees only this schema. */
export interface Schema {
  readonly name: string;
  /** A connection by this URL uses this schema. */
  readonly url: string;
  readonly client: Client;
  drop(): Promise<void>;
}

/** Creates a schema. @throws Error when there is no server; call `postgresServer` first */
export async function newSchema(): Promise<Schema> {
  const { url: server, reason } = await postgresServer();
  if (server === undefined) throw new Error(reason);
  return await newSchemaIn(server, dropLeftOvers);
}

/**
 * Creates a schema in a new database, if the user may create one: each new schema makes Postgres discard all plans of
 * its database.
 */
export async function newSchemaAlone(): Promise<Schema> {
  const { url: server, reason } = await postgresServer();
  if (server === undefined) throw new Error(reason);
  const admin = new Client({ connectionString: server });
  await admin.connect();
  const name = newName();
  const made = await admin.query(`create database ${name}`).catch((error: { code?: string }) => {
    if (error.code !== "42501") throw error;
  });
  const url = new URL(server);
  if (made) url.pathname = `/${name}`;
  const schema = await newSchemaIn(url.href, dropOldDatabases);
  const drop = async () => {
    await schema.drop();
    if (made) await admin.query(`drop database ${name}`);
    await admin.end();
  };
  return { ...schema, drop };
}

async function newSchemaIn(server: string, prepare: (client: Client) => Promise<void>): Promise<Schema> {
  const name = newName();
  const client = new Client({ connectionString: server });
  await client.connect();
  await prepare(client);
  // Only a connection that a test has left open holds a lock for this long, and the test should fail.
  await client.query(`create schema ${name}; set search_path = ${name}; set lock_timeout = '10s'`);
  return {
    name,
    url: inSchema(server, name, await isSuperuser(client)),
    client,
    drop: async () => {
      await client.query(`drop schema if exists ${name} cascade`);
      await client.end();
    },
  };
}

async function isSuperuser(client: Client): Promise<boolean> {
  const { rows } = await client.query("select current_setting('is_superuser') = 'on' as yes");
  return rows[0]?.yes === true;
}

/**
 * Commits do not wait for the disk, which takes most of a commit's time and does not matter in tests. Where the server
 * allows it, a deadlock is detected at once and not after a second.
 */
function inSchema(server: string, name: string, superuser: boolean): string {
  // The time zone of a session must not matter.
  const settings = [`search_path=${name}`, "synchronous_commit=off", "timezone=Asia/Kolkata"];
  if (superuser) settings.push("deadlock_timeout=20ms");
  const url = new URL(server);
  url.searchParams.set("options", settings.map((setting) => `-c ${setting}`).join(" "));
  // Drivers agree only on %20 for a space.
  url.search = url.search.replaceAll("+", "%20");
  return url.href;
}

let cleared: Promise<void> | undefined;

function dropLeftOvers(client: Client): Promise<void> {
  cleared ??= (async () => {
    const text = "select nspname as name from pg_namespace where nspname like $1";
    const { rows } = await client.query<{ name: string }>(text, [namesLike]);
    for (const { name } of rows)
      if (isLeftOver(name)) await client.query(`drop schema if exists ${name} cascade`);
  })();
  return cleared;
}

async function dropOldDatabases(client: Client): Promise<void> {
  const text = "select datname as name from pg_database where datname like $1";
  const { rows } = await client.query<{ name: string }>(text, [namesLike]);
  for (const { name } of rows)
    if (isLeftOver(name)) await client.query(`drop database if exists ${name} with (force)`);
}
