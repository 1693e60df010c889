/** Databases for single measurements: created before and dropped after each. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { Server, Variant } from "../benchmark.ts";
import type { Run, Timed } from "../warm-up.ts";
import { type Asking, type Connection, withConnection } from "./connection.ts";

const variables: Record<Server, string> = {
  postgres: "DBQ_TEST_POSTGRES_URL",
  mariadb: "DBQ_TEST_MYSQL_URL",
};

const usual: Record<Server, string> = {
  postgres: "postgres://postgres@127.0.0.1:5432/postgres",
  mariadb: "mysql://root@127.0.0.1:3306/",
};

/** An existing database, to which nothing is written. */
function serverUrl(server: Server): string {
  return process.env[variables[server]] ?? usual[server];
}

export function withServerConnection<T>(
  server: Server,
  use: (connection: Connection) => Promise<T>,
): Promise<T> {
  return withConnection(serverUrl(server), use);
}

/** Why nothing can be measured on this server. */
export function noServer(server: Server): () => Promise<string | undefined> {
  return async () => {
    try {
      await withServerConnection(server, async (connection) => await connection.rows("select 1"));
      return undefined;
    } catch (error) {
      const { host } = new URL(serverUrl(server));
      return `no ${server} at ${host}: ${(error as Error).message || (error as NodeJS.ErrnoException).code}`;
    }
  };
}

/** The prefix of all databases of this machine's benchmarks; the process id and a random part follow. */
const ours = `dbq_bench_${hostname()
  .toLowerCase()
  .replaceAll(/[^a-z0-9]/g, "")
  .slice(0, 20)}_`;

/** Calls `use` with the URL of a new, empty database. */
export async function withDatabase<T>(server: Server, use: (url: string) => Promise<T>): Promise<T> {
  const name = `${ours}${process.pid}_${randomBytes(4).toString("hex")}`;
  await withServerConnection(server, ({ rows }) => rows(`create database ${name}`));
  try {
    const url = new URL(serverUrl(server));
    url.pathname = `/${name}`;
    return await use(url.href);
  } finally {
    await withServerConnection(server, ({ rows }) => drop(server, name, rows));
  }
}

const names: Record<Server, string> = {
  postgres: "select datname from pg_database",
  mariadb: "select schema_name from information_schema.schemata",
};

/** Drops the databases that killed measurements have left. */
export async function dropAbandoned(server: Server): Promise<void> {
  await withServerConnection(server, async ({ rows }) => {
    for (const [value] of await rows(names[server])) {
      const name = String(value);
      const pid = /^(\d+)_[0-9a-f]{8}$/.exec(name.slice(ours.length))?.[1];
      if (name.startsWith(ours) && pid !== undefined && !isAlive(Number(pid))) await drop(server, name, rows);
    }
  });
}

async function drop(server: Server, name: string, rows: Asking): Promise<void> {
  if (server === "postgres") await allGone(name, rows);
  // Remaining connections belong to the measurement.
  await rows(`drop database if exists ${name}${server === "postgres" ? " with (force)" : ""}`);
}

/** Peers close some of their connections after they have stopped, and report one that is cut off as an error. */
async function allGone(name: string, rows: Asking): Promise<void> {
  const connected = `select 1 from pg_stat_activity where datname = '${name}' limit 1`;
  for (const start = performance.now(); performance.now() - start < 2_000; ) {
    if ((await rows(connected)).length === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

export interface ServerRun<V extends Variant> extends Run<V> {
  readonly url: string;
}

/** Runs each measurement in a new database. */
export function onServer<V extends Variant>(
  server: Server,
  timed: (run: ServerRun<V>) => Promise<number>,
): Timed<V> {
  return (run) => withDatabase(server, (url) => timed({ ...run, url }));
}
