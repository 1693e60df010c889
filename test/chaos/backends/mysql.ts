/** Databases on a MySQL or MariaDB server; on a cluster, a database is on all nodes. */
import type { Connection, ResultSetHeader, RowDataPacket } from "mysql2/promise";
import type { Backend } from "./backend.ts";
import { freshName, named } from "./rows.ts";

/** Milliseconds within which a node must answer. */
const patience = 5_000;

/** ER_DB_DROP_RMDIR */
const folderNotEmpty = 1010;

interface Host {
  host: string;
  port: number;
}

interface Parts {
  user: string;
  password: string;
  hosts: Host[];
  database: string;
}

/** `URL` cannot parse a URL with several hosts. */
function partsOf(url: string): Parts {
  const [, user = "", password = "", hosts = "", database = ""] =
    /^\w+:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/]*)\/([^?]*)/.exec(url) ?? [];
  const each = hosts.split(",").map((text) => {
    const [host = "", port = "3306"] = text.split(":");
    return { host, port: Number(port) };
  });
  const [name, secret] = [user, password].map(decodeURIComponent) as [string, string];
  return { user: name, password: secret, hosts: each, database };
}

const withDatabase = (url: string, name: string) => url.replace(/^(\w+:\/\/[^/]*\/)[^?]*/, `$1${name}`);

type Options = Parameters<typeof import("mysql2/promise").createConnection>[0] & object;

/** This process's own observing connections, which are not ended with the others. */
const observers = new Set<string>();

async function connectTo({ host, port }: Host, rest: Options): Promise<Connection> {
  const { createConnection } = await import("mysql2/promise");
  const client = await createConnection({ ...rest, host, port, connectTimeout: patience });
  // The next query reports a lost connection.
  client.on("error", () => undefined);
  observers.add(`${host}:${port}:${client.threadId}`);
  return client;
}

/** Connects to the first host that answers. */
async function connect(url: string): Promise<Connection> {
  const { hosts, ...rest } = partsOf(url);
  const errors: unknown[] = [];
  for (const host of hosts) {
    try {
      return await connectTo(host, rest);
    } catch (error) {
      errors.push(error);
    }
  }
  throw new AggregateError(errors, "no host answers");
}

async function administer(url: string, statement: string): Promise<void> {
  const client = await connect(url);
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

type Act = (client: Connection, id: number) => Promise<unknown>;

// A session that has ended in the meantime is not an error.
const terminate = (url: string) =>
  withSessions(url, (client, id) => client.query(`kill connection ${id}`).catch(() => undefined));

const sessions = (url: string) => withSessions(url, async () => undefined);

/** Acts on each node that answers. @returns the number of sessions */
async function withSessions(url: string, act: Act): Promise<number> {
  const { hosts, database, ...rest } = partsOf(url);
  const found = await Promise.allSettled(hosts.map((host) => withSessionsAt(host, database, rest, act)));
  return found.reduce((sum, result) => sum + (result.status === "fulfilled" ? result.value : 0), 0);
}

async function withSessionsAt(
  { host, port }: Host,
  database: string,
  rest: Options,
  act: Act,
): Promise<number> {
  const client = await connectTo({ host, port }, rest);
  try {
    const [found] = await client.query<RowDataPacket[]>(
      "select id from information_schema.processlist where db = ?",
      [database],
    );
    const ids = found.map(({ id }) => Number(id)).filter((id) => !observers.has(`${host}:${port}:${id}`));
    for (const id of ids) await act(client, id);
    return ids.length;
  } finally {
    await client.end();
  }
}

/**
 * The trigger stores the result of a query in a variable first: as a part of the INSERT, the query would lock the rows
 * that it reads.
 */
const isQuery = (value: string) => value.startsWith("(select");

export const mysql: Backend = {
  kind: "mysql",
  name: "MariaDB",
  async make(near) {
    const name = freshName();
    await administer(near, `create database ${name} character set utf8mb4`);
    return withDatabase(near, name);
  },
  async remove(database) {
    const { database: name } = partsOf(database);
    await terminate(database);
    const drop = administer(withDatabase(database, ""), `drop database if exists ${name}`);
    // MariaDB may leave a trigger's file in the database's folder; the tables are gone all the same.
    await drop.catch((error: { errno?: number }) => {
      if (error.errno !== folderNotEmpty) throw error;
    });
  },
  nameOf: (database) => partsOf(database).database,
  async open(database, patience) {
    const client = await connect(database);
    await client.query("set innodb_lock_wait_timeout = ?", [Math.ceil(patience / 1_000)]);
    // On a cluster, a read waits for what other nodes have committed; MySQL has no such variable.
    await client.query("set wsrep_sync_wait = 1").catch(() => undefined);
    return {
      all: async <T>(text: string) => (await client.query<RowDataPacket[]>(text))[0].map(named<T>),
      run: async (text) => {
        const [result] = await client.query<ResultSetHeader | RowDataPacket[]>(text);
        return Array.isArray(result) ? result.length : result.affectedRows;
      },
      [Symbol.asyncDispose]: () => client.end(),
    };
  },
  app: async (database) => (await import("drizzle-orm/mysql2")).drizzle(database),
  async health(raw) {
    const found = await raw.all<{ MsgText: string }>("check table dbq_tasks, dbq_attempts, dbq_workers");
    const wrong = found.map(({ MsgText }) => MsgText).filter((text) => text !== "OK");
    return { integrity: wrong.join("; ") || "ok", wal: 0 };
  },
  schema: [
    `select table_name, column_name, column_type, column_default, is_nullable, collation_name, extra, generation_expression
      from information_schema.columns where table_schema = database() order by table_name, ordinal_position`,
    `select table_name, index_name, seq_in_index, column_name, collation, non_unique
      from information_schema.statistics where table_schema = database() order by table_name, index_name, seq_in_index`,
  ],
  audit: {
    serial: "bigint auto_increment primary key",
    now: "cast(unix_timestamp(sysdate(3)) * 1000 as signed)",
    millis: (time) => `timestampdiff(microsecond, '1970-01-01', ${time}) div 1000`,
    runBy: (worker) => `run_by = ${worker}`,
    differs: (column) => `not (old.${column} <=> new.${column})`,
    trigger: ({ name, event, table, when = "true", columns, values }, into) => {
      const asked = values.filter(isQuery);
      const used = values.map((value) => (isQuery(value) ? `asked_${asked.indexOf(value)}` : value));
      return [
        `create trigger ${name} after ${event} on ${table} for each row begin
          ${asked.map((_, n) => `declare asked_${n} bigint;`).join("\n")}
          if ${when} then
            ${asked.map((query, n) => `set asked_${n} = ${query};`).join("\n")}
            insert into ${into} (${columns.join(", ")}) values (${used.join(", ")});
          end if;
        end`,
      ];
    },
  },
  lockWorker: (pid) => ["begin", `select 1 from dbq_workers where pid = ${pid} for update nowait`],
  terminate,
  sessions,
};
