/**
 * MySQL or MariaDB for tests: DBQ_TEST_MYSQL_URL, else a server on this machine that accepts `root` without a password.
 * Tests never share tables: each one creates a database.
 */
import { type Connection, createConnection, type RowDataPacket } from "mysql2/promise";
import { codeOf, hostOf, isLeftOver, namesLike, newName, type Server } from "./server.ts";

const variable = "DBQ_TEST_MYSQL_URL";
const local = "mysql://root@127.0.0.1:3306/";
/** Milliseconds, for a server that is starting or far away. */
const connectTimeout = 5_000;

let found: Promise<Server> | undefined;

/** Looks for a server once per process. @throws Error when the server in the variable cannot be used */
export function mysqlServer(): Promise<Server> {
  found ??= find();
  return found;
}

async function find(): Promise<Server> {
  const url = process.env[variable];
  const host = url === undefined ? "" : hostOf(variable, url);
  const refusal = await refusalOf(url ?? local);
  if (refusal === undefined) return { url: url ?? local };
  if (url !== undefined) throw new Error(`${variable}: MySQL at ${host} cannot be used: ${refusal}`);
  return {
    reason: `no MySQL or MariaDB: ${variable} is not set, and root gets no answer on 127.0.0.1:3306 (${refusal})`,
  };
}

/** Why tests cannot use this server; undefined when they can. */
async function refusalOf(url: string): Promise<string | undefined> {
  try {
    const connection = await createConnection({ uri: url, connectTimeout });
    await connection.end();
    return undefined;
  } catch (error) {
    return codeOf(error);
  }
}

/** The time zone of an app that uses another one than dbq: it must not matter. */
export const elsewhere = "+05:30";

/** A database, and a connection to it. */
export interface OwnDatabase {
  readonly name: string;
  readonly url: string;
  /** Runs several statements at once. */
  readonly client: Connection;
  drop(): Promise<void>;
}

/** Creates a database. @throws Error when there is no server; call `mysqlServer` first */
export async function newDatabase(): Promise<OwnDatabase> {
  const { url: server, reason } = await mysqlServer();
  if (server === undefined) throw new Error(reason);
  const name = newName();
  const url = new URL(server);
  url.pathname = `/${name}`;
  const client = await createConnection({ uri: withoutDatabase(server), multipleStatements: true });
  await dropLeftOvers(client);
  // Only a connection that a test has left open holds a lock for this long, and the test should fail.
  await client.query(
    `create database ${name}; use ${name}; set time_zone = '${elsewhere}'; set lock_wait_timeout = 10`,
  );
  return {
    name,
    url: url.href,
    client,
    drop: async () => {
      await client.query(`drop database ${name}`);
      await client.end();
    },
  };
}

/** The database named in the URL may not exist. */
function withoutDatabase(server: string): string {
  const url = new URL(server);
  url.pathname = "/";
  return url.href;
}

let cleared: Promise<void> | undefined;

function dropLeftOvers(client: Connection): Promise<void> {
  cleared ??= (async () => {
    const text = "select schema_name as name from information_schema.schemata where schema_name like ?";
    const [rows] = await client.query<RowDataPacket[]>(text, [namesLike]);
    for (const { name } of rows) if (isLeftOver(name)) await client.query(`drop database if exists ${name}`);
  })();
  return cleared;
}
