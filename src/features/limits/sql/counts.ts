/** Counts the tasks that a limit is about: by indexes, and up to a bound. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { Dialect, Params } from "../../../stores/sql/dialect.ts";
import type { Statement } from "../../../stores/sql/statements.ts";
import { mostPutOffRead, mostWaiting } from "../contract.ts";

/** The queues of a function's pending tasks. MySQL ends a recursion after 1,000 steps. */
const mostQueues = 500;

/** How many tasks rates have put off, and since when the one that waits longest. */
export function putOffCounts(d: Dialect) {
  const { putOff, putOffBy, putOffOrder } = d.steered;
  const since = d.millis(sql`min(updated_at)`);
  return {
    /** By one rate. */
    of: (p) => sql`
      select count(*), ${since} from (
        select updated_at from ${d.tasks} where ${putOffBy(p.key)} limit ${sql.raw(String(mostWaiting))}) as put_off`,

    /** Tasks of a function by its own rate, in whichever group; and how many tasks of any rate were read. No index has the function. */
    ofFunc: (p) => sql`
      select sum(own), ${since}, count(*) from (
        select own, case when own = 1 then updated_at end as updated_at from (
          select updated_at, case when ${d.same("func", p.name)} and put_off_by like '["group",%' then 1 else 0 end as own
          from ${d.tasks} where ${putOff} order by ${putOffOrder} limit ${sql.raw(String(mostPutOffRead))}) as near) as put_off`,

    /** In each queue. */
    inQueues: (p) => sql`
      select queue_name, count(*), ${since} from (
        select queue_name, updated_at from ${d.tasks} where ${putOff} order by ${putOffOrder} ${d.atMost(p.limit)}) as put_off
      group by ${d.exact("queue_name")}, queue_name order by queue_name`,
  } satisfies Record<string, Statement>;
}

export function limitCounts(d: Dialect) {
  const running = (where: (p: Params) => SQL) => (p: Params) =>
    sql`
    select count(*) as tasks, count(group_key) as grouped from ${d.tasks} where status = 'running' and ${where(p)}`;
  const bounded = (tasks: SQL, most = mostWaiting) =>
    sql`select count(*) from (${tasks} limit ${sql.raw(String(most))}) as found`;
  const next = (where: string) =>
    sql`(select queue_name from ${d.tasks} where status = 'pending' ${sql.raw(where)} order by queue_name ${sql.raw("limit 1")})`;
  const inQueue = (p: Params) => d.same("queue_name", p.name);
  const ofFunc = (p: Params) => d.same("func", p.name);
  const ofGroup = (p: Params) =>
    sql`${ofFunc(p)} and group_key is not null and ${d.same("group_key", p.group)}`;
  /** The queues of pending tasks. A step for each one, or, where a step reads all pending tasks before its name, each of these once. */
  const queues = d.steered.skips
    ? sql`
    with recursive queues (name, n) as (
      select ${next("")}, 1 union all
      select ${next("and queue_name > queues.name")}, n + 1 from queues
      where queues.name is not null and n < ${sql.raw(String(mostQueues))}
    )`
    : sql`
    with queues (name) as (
      select queue_name from ${d.tasks} where status = 'pending'
      group by queue_name order by queue_name limit ${sql.raw(String(mostQueues))}
    )`;
  /** Of names that the collation takes for equal, it finds one queue, and counts all. */
  const waitingInAll = (where: (p: Params) => SQL, most?: number) => (p: Params) =>
    sql`
    ${queues}
    ${bounded(
      sql`select 1 as one from queues ${d.joinEach} ${d.tasks}
      where queue_name = queues.name and status = 'pending' and ${where(p)}`,
      most,
    )}`;
  return {
    queue: {
      running: running(inQueue),
      /** In the order of the index. By the queue's name as well, MariaDB sorts the tasks: a second for 10,000 of them. */
      waiting: (p) =>
        bounded(
          sql`select 1 as one from ${d.tasks} where ${inQueue(p)} and status = 'pending' order by func`,
        ),
    },
    func: {
      running: running(ofFunc),
      waiting: waitingInAll(ofFunc),
      /** 1: a pending task of the function has a group. */
      grouped: waitingInAll((p) => sql`${ofFunc(p)} and group_key is not null`, 1),
    },
    group: { running: running(ofGroup), waiting: waitingInAll(ofGroup) },
  } satisfies Record<string, { running: Statement; waiting: Statement; grouped?: Statement }>;
}
