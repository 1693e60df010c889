/**
 * Postgres for tests: DBQ_TEST_POSTGRES_URL, else a server on this machine, else one that the run of the tests starts
 * (`embedded-postgres.ts`). Tests never share tables: each place is a schema of its own.
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
/** Milliseconds, for a server that is on its way up or far away. */
const connectionTimeout = 5_000;

let found: Promise<Server> | undefined;

/** Looks once in a process. @throws Error when the server that was asked for cannot be used */
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

/** Asks the run of the tests for a server of its own: the first to ask waits until it has started. */
async function started(): Promise<Server> {
  const none = `no Postgres: ${variable} is not set, none answers on 127.0.0.1:5432`;
  const port = process.env.DBQ_TEST_POSTGRES_PORT;
  if (port === undefined) return { reason: `${none}, and nobody here starts one` };
  const socket = connect(Number(port), "127.0.0.1");
  await once(socket, "connect");
  const answer = JSON.parse(await text(socket)) as Server;
  return answer.reason === undefined
    ? answer
    : { reason: `${none}, and none can be started: ${answer.reason}` };
}

/** A schema, and a connection that sees nothing else. */
export interface Schema {
  readonly name: string;
  /** Whoever connects by it is in this schema. */
  readonly url: string;
  readonly client: Client;
  drop(): Promise<void>;
}

/** A new schema. @throws Error when there is no server: ask `postgresServer` before */
export async function newSchema(): Promise<Schema> {
  const { url: server, reason } = await postgresServer();
  if (server === undefined) throw new Error(reason);
  return await newSchemaIn(server, dropLeftOvers);
}

/**
 * The same in a database of its own, unless this user may make none: whenever anybody makes a schema, Postgres makes all
 * plans of its database anew.
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
  // What holds a lock for so long is a connection that a test has left open: it should say so.
  await client.query(`create schema ${name}; set search_path = ${name}; set lock_timeout = '10s'`);
  return {
    name,
    url: inSchema(server, name, await isSuperuser(client)),
    client,
    drop: async () => {
      await client.query(`drop schema ${name} cascade`);
      await client.end();
    },
  };
}

async function isSuperuser(client: Client): Promise<boolean> {
  const { rows } = await client.query("select current_setting('is_superuser') = 'on' as yes");
  return rows[0]?.yes === true;
}

/**
 * Tests ask nothing of a disk: a commit does not wait for it, which is most of the time that a commit takes. A deadlock is
 * found in a moment, not in a second, where the server lets us say so.
 */
function inSchema(server: string, name: string, superuser: boolean): string {
  // The time zone of a session must not matter.
  const settings = [`search_path=${name}`, "synchronous_commit=off", "timezone=Asia/Kolkata"];
  if (superuser) settings.push("deadlock_timeout=20ms");
  const url = new URL(server);
  url.searchParams.set("options", settings.map((setting) => `-c ${setting}`).join(" "));
  // Drivers agree on %20 alone.
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
