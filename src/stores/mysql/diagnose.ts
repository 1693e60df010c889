/** Facts about a MySQL or MariaDB server, and what is wrong with them. */
import type { Diagnosis } from "../../store.ts";
import type { Queryable } from "../server/pool.ts";
import { fact } from "../sql/diagnosis.ts";

/** Whether the server is a node of a cluster: row locks stop at the node. */
export async function isCluster(queryable: Queryable): Promise<boolean> {
  const { rows } = await queryable.query("show status like 'wsrep_cluster_size'", []);
  return Number(rows[0]?.[1] ?? 0) > 0;
}

const facts = `select version() as version, database() as name, @@innodb_flush_log_at_trx_commit as flush,
  @@read_only as read_only, @@max_connections as connections, @@max_allowed_packet as packet`;

export async function diagnoseMysql(queryable: Queryable): Promise<Diagnosis[]> {
  const { rows } = await queryable.query(facts, []);
  const [version, database, flush, readOnly, connections, packet] = rows[0] ?? [];
  const isReadOnly = Number(readOnly) === 1;
  return [
    fact(/mariadb/i.test(String(version)) ? "MariaDB" : "MySQL", String(version)),
    fact("database", String(database)),
    fact(
      "flush log at commit",
      Number(flush),
      Number(flush) !== 1,
      "a crash of the server's machine can undo the last commits",
    ),
    fact("read only", isReadOnly, isReadOnly, "nothing can be written here: connect to the primary"),
    fact("max connections", Number(connections)),
    fact("max allowed packet", Number(packet)),
    fact("cluster", await isCluster(queryable)),
  ];
}
