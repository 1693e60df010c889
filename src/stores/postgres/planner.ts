/** The settings of Postgres' planner that dbq's statements depend on, which a role or a database may have changed. */
import type { Diagnosis } from "../../store.ts";
import type { Queryable } from "../server/pool.ts";
import { fact } from "../sql/diagnosis.ts";

/** Claims and the counts of health read indexes in nested loops. Without these, each reads whole tables. */
const needed = ["enable_nestloop", "enable_indexscan", "enable_indexonlyscan"];

/** These plans suit a table as large as at the last ANALYZE, which a queue rarely is. JIT takes longer than such a statement. */
const unwanted = ["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit"];

/** What dbq sets on its own connections. */
export const plannerSettings = [
  ...needed.map((name) => `${name}=on`),
  ...unwanted.map((name) => `${name}=off`),
  // To start the processes of a parallel plan takes longer than a statement of dbq: 60 ms on a busy machine.
  "max_parallel_workers_per_gather=0",
];

/** Postgres compiles a statement from this cost on. A plan that a switch forbids costs far more, and is used where it is the only one. */
const defaultJitCost = 100_000;

/** The settings of this session, and those that the role and the database have for others. The most specific is the last. */
const asked = `select name, setting, null as given from pg_settings where name like 'enable\\_%' or name like 'jit%'
  union all select setting.key, setting.value, given.place from (
    select unnest(setconfig) as text, (setrole <> 0)::int * 2 + (setdatabase <> 0)::int as place
    from pg_db_role_setting
    where setdatabase in (0, (select oid from pg_database where datname = current_database()))
      and setrole in (0, (select oid from pg_roles where rolname = session_user))) as given
  cross join lateral (select split_part(given.text, '=', 1) as key, split_part(given.text, '=', 2) as value) as setting
  order by 3 nulls first`;

/** A problem where a setting slows down this session; a fact where dbq's own connections override it. */
export async function plannerFacts(queryable: Queryable): Promise<Diagnosis[]> {
  const { rows } = await queryable.query(asked, []);
  const read = (isOfSession: boolean) =>
    new Map(
      rows.flatMap(([name, value, given]) =>
        (given === null) === isOfSession ? [[String(name), String(value)] as const] : [],
      ),
    );
  const [session, others] = [read(true), read(false)];
  const facts = needed.flatMap((name) => {
    if (session.get(name) === "off")
      return [fact(name, "off", true, `claims and health read whole tables: ${remedy(name, "on")}`)];
    return others.get(name) === "off" ? [fact(name, overridden)] : [];
  });
  return [...facts, ...jitFacts(session)];
}

const overridden = "off for this role, and on for dbq's own connections";

const remedy = (name: string, value: string) => `alter role … set ${name} = ${value}`;

function jitFacts(session: ReadonlyMap<string, string>): Diagnosis[] {
  const above = Number(session.get("jit_above_cost"));
  const isForced = [...session].some(([name, value]) => name.startsWith("enable_") && value === "off");
  if (session.get("jit") !== "on" || above < 0 || (above >= defaultJitCost && !isForced)) return [];
  const why = "the server compiles each claim, which takes longer than the claim";
  return [fact("jit", "on", true, `${why}: ${remedy("jit", "off")}`)];
}
