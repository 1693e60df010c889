/** Facts about a Postgres server, and what is wrong with them. */
import type { Diagnosis } from "../../store.ts";
import type { Queryable } from "../server/pool.ts";
import { connectionsFact, fact } from "../sql/diagnosis.ts";
import { plannerFacts } from "./planner.ts";

/** Seconds. */
const oldSnapshot = 600;

/** `dbq_tasks_claim` and `dbq_tasks_group`. */
const indexesOfClaims = 2;

/** @param table `dbq_tasks`, with its schema if one was named */
const factsOf = (
  table: string,
) => `select current_setting('server_version') as version, current_database() as database,
  current_schema() as schema, current_setting('synchronous_commit') as commit, pg_is_in_recovery()::text as recovery,
  current_setting('max_connections') as most,
  (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections,
  (select count(*) from pg_stat_activity
    where application_name in ('dbq', current_setting('application_name'))) as own_connections,
  (select max(extract(epoch from now() - xact_start))::bigint from pg_stat_activity where backend_xmin is not null) as oldest,
  (select count(*) from pg_inherits where inhparent = to_regclass('${table}')) as partitions,
  (select count(*) from pg_index where indrelid = to_regclass('${table}') and indisvalid
    and pg_get_indexdef(indexrelid) like '%(id + 0)%') as claims`;

/** @param own the schema that was named for the tables */
export async function diagnosePostgres(queryable: Queryable, own?: string): Promise<Diagnosis[]> {
  const { rows } = await queryable.query(factsOf(own === undefined ? "dbq_tasks" : `"${own}".dbq_tasks`), []);
  const [
    version = null,
    database = null,
    first = null,
    commit = null,
    recovery,
    most,
    connections,
    ours,
    oldest,
    partitions,
    claims,
  ] = (rows[0] ?? []).map((value) => (value === null ? null : String(value)));
  const isStandby = recovery === "true";
  const age = Number(oldest ?? 0);
  return [
    fact("Postgres", version),
    fact("database", database),
    fact("schema", own ?? first),
    fact("synchronous commit", commit, commit === "off", "a crash of the server can undo the last commits"),
    fact("standby", isStandby, isStandby, "nothing can be written here: connect to the primary"),
    connectionsFact(Number(connections), Number(most), "raise max_connections, or put a pooler in between"),
    fact("connections of dbq", Number(ours)),
    fact("max connections", Number(most)),
    fact(
      "indexes of claims",
      Number(claims),
      Number(claims) < indexesOfClaims,
      'each claim sorts all pending tasks of its function: generate a migration with your drizzle-kit, or run "dbq migrate"',
    ),
    ...(Number(partitions) > 0 ? [fact("tables of finished tasks by day", Number(partitions))] : []),
    fact(
      "oldest snapshot",
      age,
      age > oldSnapshot,
      "a transaction older than ten minutes keeps dead rows from being removed",
    ),
    ...(await plannerFacts(queryable)),
  ];
}
