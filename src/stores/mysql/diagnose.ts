/** Facts about a MySQL or MariaDB server, and what is wrong with them. */
import type { Diagnosis } from "../../store.ts";
import type { Queryable } from "../server/pool.ts";
import { connectionsFact, fact } from "../sql/diagnosis.ts";

/** Whether the server is a node of a cluster: row locks stop at the node. */
export async function isCluster(queryable: Queryable): Promise<boolean> {
  const { rows } = await queryable.query("show status like 'wsrep_cluster_size'", []);
  return Number(rows[0]?.[1] ?? 0) > 0;
}

const facts = `select version() as version, database() as name, @@innodb_flush_log_at_trx_commit as flush,
  @@read_only as read_only, @@max_connections as most, @@max_allowed_packet as packet,
  (select count(*) from information_schema.processlist where user = substring_index(user(), '@', 1)) as own_connections`;

export async function diagnoseMysql(queryable: Queryable): Promise<Diagnosis[]> {
  const { rows } = await queryable.query(facts, []);
  const [version, database, flush, readOnly, most, packet, ours] = rows[0] ?? [];
  const { rows: status } = await queryable.query("show status like 'threads_connected'", []);
  const connections = Number(status[0]?.[1]);
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
    connectionsFact(connections, Number(most), "raise max_connections"),
    // Sessions have no name here.
    fact("connections of this user", Number(ours)),
    fact("max connections", Number(most)),
    fact("max allowed packet", Number(packet)),
    fact("cluster", await isCluster(queryable)),
  ];
}
