/** Drizzle on MySQL and MariaDB; and facts about a server. */
import type { Connection as PromiseConnection } from "mysql2/promise";
import type { Diagnosis } from "../../store.ts";
import { arrays, type DrizzleKind, type ServerDrizzle } from "../server/drizzle.ts";
import type { Queryable } from "../server/pool.ts";
import { endedTransaction } from "../server/within.ts";
import { answerOf } from "./connection.ts";

export const mysqlDrizzle: DrizzleKind = {
  name: "MySQL or MariaDB",
  database: "MySqlDatabase",
  transaction: "MySqlTransaction",
  parameter: /\?/,
  answer: (result) => {
    const { rows, ...rest } = answerOf((result as [unknown])[0]);
    return { ...rest, rows: arrays(rows as readonly object[]) };
  },
};

export async function mysqlDrizzleOver(client: unknown): Promise<ServerDrizzle> {
  const { drizzle } = await import("drizzle-orm/mysql2");
  return drizzle(client as PromiseConnection) as unknown as ServerDrizzle;
}

/** The transactions of apps that were seen open, by their handles. */
const open = new WeakSet<ServerDrizzle>();

/** A handle that was never seen open is asked for: its end was not seen either. */
export async function checkOpen(tx: ServerDrizzle, asked: Queryable): Promise<void> {
  if (open.has(tx)) return;
  if ((await isInTransaction(asked)) === false) throw endedTransaction();
  open.add(tx);
}

/** Whether the app has said BEGIN itself on the one connection that its database has, as far as the server tells. */
export async function hasBegun(asked: Queryable): Promise<boolean> {
  return (await isInTransaction(asked)) === true;
}

/** MariaDB says so; MySQL has no such variable. */
async function isInTransaction(asked: Queryable): Promise<boolean | undefined> {
  try {
    return Number((await asked.query("select @@in_transaction as open", [])).rows[0]?.[0]) === 1;
  } catch (error) {
    if ((error as { errno?: number }).errno === 1193) return undefined;
    throw error;
  }
}

/** Whether row locks stop at this node, because others are written to as well. */
export async function isCluster(asked: Queryable): Promise<boolean> {
  const { rows } = await asked.query("show status like 'wsrep_cluster_size'", []);
  return Number(rows[0]?.[1] ?? 0) > 0;
}

export async function diagnoseMysql(asked: Queryable): Promise<Diagnosis[]> {
  const text = `select version(), database(), @@innodb_flush_log_at_trx_commit, @@read_only, @@max_connections, @@max_allowed_packet`;
  const [version, database, flush, readOnly, connections, packet] =
    (await asked.query(text, [])).rows[0] ?? [];
  const warn = (wrong: boolean, warning: string) => (wrong ? { warning } : {});
  return [
    { name: /mariadb/i.test(String(version)) ? "MariaDB" : "MySQL", value: String(version) },
    { name: "database", value: String(database) },
    {
      name: "flush log at commit",
      value: Number(flush),
      ...warn(Number(flush) !== 1, "a crash of the server's machine can undo the last commits"),
    },
    {
      name: "read only",
      value: Number(readOnly) === 1,
      ...warn(Number(readOnly) === 1, "nothing can be written here: connect to the primary"),
    },
    { name: "max connections", value: Number(connections) },
    { name: "max allowed packet", value: Number(packet) },
    { name: "cluster", value: await isCluster(asked) },
  ];
}
