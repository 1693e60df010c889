/** The statements about limits, groups and what counts for them. Each is written once for all databases. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { columnsOf, listed } from "../../../stores/sql/columns.ts";
import type { Dialect, Params } from "../../../stores/sql/dialect.ts";
import { hasNumber, largestId } from "../../../stores/sql/exact-ids.ts";
import { candidatesOf } from "../../../stores/sql/queries.ts";
import { candidateColumns, taskVersionColumns } from "../../../stores/sql/rows.ts";
import {
  before,
  claimable,
  claimed,
  clockOf,
  held,
  isDue,
  itemColumns,
  itemOf,
  keyAtClaim,
  oneRow,
  type Statement,
  stateChange,
  still,
} from "../../../stores/sql/statements.ts";

export const limitColumns = columnsOf("dbq_limits").filter((column) => column !== "claims");

/** The columns that a claim reads of tasks that a limit may be about. */
export const steeredColumns = [...candidateColumns, "put_off_by"] as const;

const isScope = (d: Dialect, p: Readonly<Record<string, unknown>>) =>
  sql`${d.same("scope", p.scope)} and ${d.same("name", p.name)} and ${d.same("group_key", p.group)}`;

/** Of rows that only hold the state of a rate, nothing has to be known before a claim. */
const says =
  "(concurrency is not null or rate_limit is not null or paused_at is not null or throttled_until is not null)";

/** The rows of groups whose rate and throttle have had no effect for so long, and that say nothing else. */
const isSpent = (d: Dialect, p: Readonly<Record<string, unknown>>) => {
  const age = before(d, p);
  return sql`scope = 'group' and concurrency is null and rate_limit is null and paused_at is null
        and (throttled_until is null or throttled_until < ${age}) and (tat is null or tat < (${d.millis(age)}) * 1000)`;
};

function spentStatements(d: Dialect) {
  return {
    spent: (p) => sql`
      select name, group_key from dbq_limits where ${isSpent(d, p)} order by name, group_key ${d.atMost(p.limit)}`,

    deleteSpent: (p) => sql`
      delete from dbq_limits where ${isScope(d, p)} and ${isSpent(d, p)}`,
  } satisfies Record<string, Statement>;
}

function rowStatements(d: Dialect) {
  const limit = listed(d, "dbq_limits", limitColumns);
  return {
    limits: () => sql`
      select ${limit} from dbq_limits where ${sql.raw(says)} order by scope, name, group_key`,

    limit: (p) => sql`
      select ${limit} from dbq_limits where ${isScope(d, p)}`,

    /** No row: another claim has it, or there is none. */
    lockLimit: (p) => sql`
      select ${limit} from dbq_limits where ${isScope(d, p)} ${d.skipLocked}`,

    /** The states of the rates of some groups of one function. */
    groupLimits: (p) => sql`
      select ${limit} from dbq_limits
      where scope = 'group' and ${d.same("name", p.name)}
        and group_key in (select ${itemOf("group")} from ${d.objects(p.groups, itemColumns(["group"]))})`,

    addLimit: (p) => sql`
      insert into dbq_limits (scope, name, group_key) values (${p.scope}, ${p.name}, ${p.group}) ${d.keepExisting("claims")}`,

    /** An earlier arrival time is kept: a new rate must not forgive what the old one has let start. */
    setLimit: (p) => sql`
      update dbq_limits set concurrency = ${d.integer(p.concurrency)}, rate_limit = ${d.integer(p.rateLimit)},
        rate_per = ${d.integer(p.ratePer)}, rate_burst = ${d.integer(p.rateBurst)}
      where ${isScope(d, p)}`,

    /** Of a function, of its code or of one of its groups: the states of all of its groups. */
    capState: (p) => sql`
      update dbq_limits set tat = ${d.integer(p.tat)} where ${isScope(d, p)} and tat > ${d.integer(p.tat)}`,

    capStates: (p) => sql`
      update dbq_limits set tat = ${d.integer(p.tat)}
      where scope = 'group' and ${d.same("name", p.name)} and tat > ${d.integer(p.tat)}`,

    pauseLimit: (p) => sql`
      update dbq_limits set paused_at = ${d.now(p)} where ${isScope(d, p)} and paused_at is null`,

    resumeLimit: (p) => sql`
      update dbq_limits set paused_at = null where ${isScope(d, p)} and paused_at is not null`,

    throttleLimit: (p) => sql`
      update dbq_limits set throttled_until = ${d.plus(d.now(p), d.integer(p.delay))}
      where ${isScope(d, p)} and (throttled_until is null or throttled_until < ${d.plus(d.now(p), d.integer(p.delay))})`,

    adoptTimes: (p) => sql`
      update dbq_limits set throttled_until = ${d.time(d.integer(p.throttledUntil))}, paused_at = ${d.time(d.integer(p.pausedAt))}
      where ${isScope(d, p)}`,

    setState: (p) => sql`
      update dbq_limits set tat = ${d.integer(p.tat)}, claims = claims + 1 where ${isScope(d, p)}`,

    /** In a Galera cluster: of two transactions on different nodes that write a row, one is refused. */
    touchLimit: (p) => sql`
      update dbq_limits set claims = claims + 1 where ${isScope(d, p)}`,
  } satisfies Record<string, Statement>;
}

/** Who knows which version of the limits. */
function versionStatements(d: Dialect) {
  return {
    lockVersion: () => sql`select value from dbq_settings where name = 'limits' ${d.locked}`,

    setVersion: (p) => sql`update dbq_settings set value = ${p.value} where name = 'limits'`,

    /** Waits for the claims that are under way. */
    lockWorkers: () => sql`select id from dbq_workers order by id ${d.locked}`,

    tellWorkers: (p) => sql`update dbq_workers set limits_version = ${d.integer(p.version)}`,

    /** What a worker's next claim must know, and the time. */
    mustKnow: (p) => sql`
      select limits_version, ${d.millis(d.now(p))} from dbq_workers where id = ${p.workerId}`,
  } satisfies Record<string, Statement>;
}

/** Which groups have pending tasks, and which tasks have none. */
function groupStatements(d: Dialect) {
  const { group, pendingIn, running, skips } = d.steered;
  const task = listed(d, "dbq_tasks", steeredColumns, { json: !d.locks, unstarted: true });
  const next = (p: Readonly<Record<string, unknown>>, after: unknown) => sql`
      (select ${group} from ${d.tasks} where ${pendingIn(p.queueName)} and ${d.same("func", p.func)}
        and ${group} > ${after} order by ${group} ${sql.raw("limit 1")})`;
  /** The next groups of a function that have pending tasks, and how many rows were read of each: one, if the database skips. */
  const nextGroups = (used: (p: Params) => SQL): ((p: Params) => SQL) =>
    skips
      ? (p) => sql`
      with recursive found (name, n) as (
        select ${next(p, p.after)}, 1
        union all
        select ${next(p, sql.raw("found.name"))}, n + 1 from found where name is not null and n < ${d.integer(p.limit)})
      select name, 1, ${used(p)} from found where name is not null`
      : (p) => sql`
      select name, n, ${used(p)} from (select name, count(*) as n from (
        select ${group} as name from ${d.tasks}
        where ${pendingIn(p.queueName)} and ${d.same("func", p.func)} and ${group} > ${p.after}
        order by ${group} ${d.atMost(p.limit)}) as pending_tasks group by name) as found order by name`;
  return {
    nextGroups: nextGroups(() => sql.raw("null")),

    /** The same, and how many tasks of each group run. */
    nextGroupsInUse: nextGroups(
      (p) =>
        sql`(select count(*) from ${d.tasks} where ${running} and ${d.same("func", p.func)} and ${group} = found.name)`,
    ),

    now: clockOf(d),

    lastId: () => sql`select max(id) from ${d.tasks} where id <= ${sql.raw(largestId)}`,

    newest: (p) => sql`
      select id, queue_name, func, group_key from ${d.tasks} where id > ${d.integer(p.after)} and ${hasNumber} order by id ${d.atMost(p.limit)}`,

    /** Of the first tasks of a function, those without a group. */
    ungrouped: (p) => sql`
      select * from (
        select ${task} from ${d.tasks}
        where ${claimable(d, p, p.queueName, p.func)}
        order by ${d.byPriority} ${d.atMost(p.depth)}) as near
      where group_key is null ${d.atMost(p.limit)}`,
  } satisfies Record<string, Statement>;
}

/** What counts for limits. */
function usageStatements(d: Dialect) {
  const { group, running, putOff, putOffBy, uses } = d.steered;
  const version = listed(d, "dbq_tasks", taskVersionColumns);
  return {
    /** How many tasks of each of these groups of a function run: one look into the index for each. */
    inUseOf: (p) => sql`
      select ${itemOf("group")}, (select count(*) from ${d.tasks} where ${running} and ${d.same("func", p.func)} and ${group} = ${itemOf("group")}) as n
      from ${d.objects(p.groups, itemColumns(["group"]))}`,

    /** How many tasks without a group run, of a function. */
    inUseUngrouped: (p) => sql`
      select count(*) from ${d.tasks} where ${running} and ${d.same("func", p.func)} and ${group} is null`,

    /** How many tasks run in each queue and count for these names. */
    inUse: () => sql`
      select queue_name, ${uses}, count(*) from ${d.tasks} where ${running} group by queue_name, ${uses}`,

    /** The shared names that a running task of a function counts for. */
    usesOf: (p) => sql`
      select ${uses} from ${d.tasks} where ${running} and ${d.same("func", p.func)} and uses is not null ${d.atMost(p.limit)}`,

    /** The rate that has put a task off. */
    putOffOf: (p) => sql`
      select put_off_by from ${d.tasks} where id = ${d.integer(p.id)} and status = 'scheduled'`,

    /** The rates that have put tasks off. */
    puttingOff: () => sql`
      select distinct put_off_by from ${d.tasks} where ${putOff}`,

    /** Of each rate, when the last task becomes due that it has put off, and how many do so at that time. */
    putOffs: (p) => {
      const last = sql`(select max(wait_until) from ${d.tasks} where ${putOffBy(itemOf("key"))})`;
      return sql`
      select ${itemOf("key")}, ${d.millis(last)}, (select count(*) from ${d.tasks} where ${putOffBy(itemOf("key"))} and wait_until = ${last})
      from ${d.objects(p.keys, itemColumns(["key"]))}`;
    },

    /** Running tasks that were claimed before there was a limit. */
    uncountedOf: (p) => sql`
      select ${version} from ${d.tasks} where status = 'running' and uses is null and group_key is null and ${d.same("func", p.name)} and ${hasNumber}`,

    uncountedIn: (p) => sql`
      select ${version} from ${d.tasks} where status = 'running' and uses is null and ${d.same("queue_name", p.name)} and ${hasNumber}`,

    /** Not a state change: the generation stays. */
    countTask: (p, { beforeTable, afterTable, afterSet, isOne } = oneRow) => sql`
      update ${beforeTable} ${d.tasks} ${afterTable} set uses = ${d.json(sql.raw("'[]'"))} ${afterSet}
      where ${held(d, p, isOne)} ${still("running")} and uses is null`,
  } satisfies Record<string, Statement>;
}

/** Changes of tasks by their limits. */
function steeredStatements(d: Dialect) {
  const { putOff, putOffBy } = d.steered;
  const version = listed(d, "dbq_tasks", taskVersionColumns);
  const change = stateChange(d);
  return {
    putOff: change(
      (p) =>
        sql`status = 'scheduled', wait_until = ${d.time(d.integer(p.due))}, put_off_by = ${p.key}, updated_at = ${d.now(p)}`,
      still("pending"),
    ),

    /** As `claim`, for a task that counts for limits. */
    claimCounted: change(
      (p) =>
        sql`${claimed(d, p)}, unique_key = ${keyAtClaim(d.time(p.startedAt))}, uses = ${d.json(p.uses)}, put_off_by = null`,
      still("pending"),
    ),

    putOffTasks: (p) => sql`
      select ${version} from ${d.tasks} where ${putOffBy(p.key)} and ${hasNumber} ${d.atMost(p.limit)}`,

    putOffTasksOf: (p) => sql`
      select ${version} from ${d.tasks} where ${putOff} and ${d.same("func", p.name)} and ${hasNumber} ${d.atMost(p.limit)}`,

    letGo: change(
      (p) => sql`status = 'pending', wait_until = null, put_off_by = null, updated_at = ${d.now(p)}`,
      still("scheduled"),
    ),
  } satisfies Record<string, Statement>;
}

export function limitStatements(d: Dialect) {
  return {
    ...rowStatements(d),
    ...spentStatements(d),
    ...versionStatements(d),
    ...groupStatements(d),
    ...usageStatements(d),
    ...steeredStatements(d),
  };
}

/** The candidates of so many pairs of a queue and a function, with the columns of tasks that a limit may be about. */
export function steeredCandidatesOf(d: Dialect, pairs: number): Statement {
  const columns = listed(d, "dbq_tasks", steeredColumns, { json: !d.locks, unstarted: true });
  return candidatesOf(d, pairs, () => columns);
}

export const groupName = (i: number) => `group${i}`;

/** The first tasks of so many groups of a function. */
export function groupCandidatesOf(d: Dialect, groups: number): Statement {
  const { group, pendingIn } = d.steered;
  const columns = listed(d, "dbq_tasks", steeredColumns, { json: !d.locks, unstarted: true });
  return (p) =>
    sql.join(
      Array.from(
        { length: groups },
        (_, i) => sql`
      select * from (
        select ${columns} from ${d.tasks}
        where ${pendingIn(p.queueName)} and ${d.same("func", p.func)} and ${group} = ${p[groupName(i)]}
          and ${isDue(d, p)} and ${hasNumber}
        order by ${d.byPriority} ${d.atMost(p.limit)}) as ${sql.raw(groupName(i))}`,
      ),
      sql` union all `,
    );
}
