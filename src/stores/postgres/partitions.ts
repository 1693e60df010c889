/**
 * Partitions: finished tasks in tables of their own, one for each status and day (UTC). They inherit from `dbq_tasks`, so
 * whatever reads that table reads them too. The table itself stays as small as what waits and runs. A day whose tasks are all
 * older than their retention is dropped as a whole; only their attempts and log lines are deleted row by row.
 *
 * Inheritance, not PARTITION BY: each unique index of a partitioned table must contain the day, so that two tasks could have one
 * id, or hold one unique key.
 */
import { sql } from "drizzle-orm/sql/sql";
import { performance } from "../../base/runtime/timers.ts";
import { groupBy } from "../../base/values/group-by.ts";
import { DatabaseError } from "../../errors.ts";
import { isDrains } from "../../features/drain/sql/drains.ts";
import type { PartitionStore } from "../../features/partitions/contract.ts";
import type { Retention } from "../../store.ts";
import type { RepeatPolicy, ServerRunner } from "../server/run.ts";
import type { Dialect } from "../sql/dialect.ts";
import { hasNumber } from "../sql/exact-ids.ts";
import { type Program, rowsOnce } from "../sql/program.ts";
import { before, isNotAskedFor } from "../sql/statements.ts";
import { failureOf } from "./connection.ts";

const day = 86_400_000;

/** Milliseconds before the end of its retention after which a task is not moved any more: it is deleted soon. */
const margin = 3_600_000;

/** Tasks that are kept longer stay where they are: a table for each day of many years would be too many to look at. */
const mostDays = 400;

/** Milliseconds after which a look begins with the oldest finished task again: a task may have been locked, or committed late. */
const startsAnewAfter = 3_600_000;

/** Tasks whose attempts and log lines one transaction deletes. */
const dropBatch = 5_000;

/** A table that somebody reads is dropped another time: all who read finished tasks would else wait behind the drop. */
const unlessLocked: RepeatPolicy = { repeatable: true, waitForServer: true, lockedLimit: 0 };

type Status = keyof Retention;

interface Partition {
  /** With its schema, in quotes. */
  table: string;
  status: Status;
  /** Milliseconds since 1970 at which the day ends. */
  end: number;
}

const named = /"?dbq_tasks_(?<status>completed|cancelled|failed)_(?<day>\d{8})"?$/;

const midnight = (date: string): number =>
  Date.UTC(Number(date.slice(0, 4)), Number(date.slice(4, 6)) - 1, Number(date.slice(6)));

function toPartition(table: string): Partition | undefined {
  const { status, day: date } = named.exec(table)?.groups ?? {};
  if (status === undefined || date === undefined) return undefined;
  return { table, status: status as Status, end: midnight(date) + day };
}

const statusesOf = (retention: Retention) => Object.entries(retention) as [Status, number][];

/** `last`: when the last of these tasks finished, as in `Place`. */
interface Moved {
  found: number;
  last?: string;
}

/** Where the looks at the finished tasks of one status are. */
interface Place {
  /** The time at which the last task finished that was moved, as the database writes it. */
  last: string;
  /** When the looks began with the oldest task, in milliseconds. */
  begun: number;
}

export class Partitions implements PartitionStore {
  readonly #runner: ServerRunner;
  readonly #d: Dialect;
  readonly #places = new Map<Status, Place>();
  #hasComplained = false;

  constructor(runner: ServerRunner, dialect: Dialect) {
    this.#runner = runner;
    this.#d = dialect;
  }

  async move(retention: Retention, limit: number, rest: number): Promise<number> {
    if (!(await this.#runner.run(() => this.#mayMove()))) return 0;
    let found = 0;
    for (const [status, age] of statusesOf(retention)) {
      // The rows of a day are kept until its last one is old enough: up to a day too long.
      if (age < day || age > mostDays * day) continue;
      const place = this.#placeOf(status);
      const move = () => this.#move(status, { age, rest, from: place.last }, limit);
      // A vacuum by hand keeps a table from being made: the tasks move after it.
      const moved = await orIfLocked<Moved>(this.#runner.write(move, unlessLocked), { found: 0 });
      found += moved.found;
      place.last = moved.last ?? place.last;
    }
    return found;
  }

  /**
   * Not while a foreign key of the app's refers to the table of tasks: it would act as if the moved tasks were deleted.
   * @throws DatabaseError the first time that it finds that the user may make no tables there
   */
  *#mayMove(): Program<boolean> {
    const [[isOwner, referring] = []] = yield* rowsOnce(sql`
      select pg_has_role(relowner, 'usage')::int,
        (select count(*) from pg_constraint where contype = 'f' and confrelid = pg_class.oid)
      from pg_class where oid = 'dbq_tasks'::regclass`);
    if (Number(isOwner) === 1) return Number(referring) === 0;
    if (this.#hasComplained) return false;
    this.#hasComplained = true;
    throw new DatabaseError(
      "partitionFinished: the user of this connection does not own dbq_tasks, so no task moves",
    );
  }

  #placeOf(status: Status): Place {
    const place = this.#places.get(status);
    if (place && performance.now() - place.begun < startsAnewAfter) return place;
    const first = { last: "-infinity", begun: performance.now() };
    this.#places.set(status, first);
    return first;
  }

  /**
   * A task stays that something looks for by more than its id: one of a schedule, whose slot no other task may take; one that
   * holds its unique key for a time; one that a drain has sent; one whose parent or first ancestor has not ended.
   */
  *#move(
    status: Status,
    { age, rest, from }: { age: number; rest: number; from: string },
    limit: number,
  ): Program<Moved> {
    const d = this.#d;
    const ago = (milliseconds: number) => before(d, { age: milliseconds });
    const found = yield* rowsOnce(sql`
      select id, to_char(finished_at at time zone 'UTC', 'YYYYMMDD'),
        to_char(finished_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00' from ${d.tasks}
      where status = ${sql.raw(`'${status}'`)} and finished_at >= ${from}::timestamptz
        and finished_at > ${ago(age - margin)} and finished_at < ${ago(rest)}
        and schedule_name is null and unique_until is null and not coalesce(${isDrains}, false) and ${isNotAskedFor(d)} and ${hasNumber}
      order by finished_at limit ${limit} ${d.skipLocked}`);
    const days = groupBy(found, ([, date]) => String(date));
    for (const [date, tasks] of days) {
      const table = yield* this.#tableOf(status, date);
      const ids = JSON.stringify(tasks.map(([id]) => Number(id)));
      yield* rowsOnce(sql`
        with moved as (delete from ${d.tasks} where ${d.among("id", ids)} returning dbq_tasks.*)
        insert into ${sql.raw(table)} select * from moved`);
    }
    const last = found.at(-1)?.[2];
    return last === undefined ? { found: 0 } : { found: found.length, last: String(last) };
  }

  /** The table of a status and day, which is made if it is not there. */
  *#tableOf(status: Status, date: string): Program<string> {
    const [[schema, owner] = []] = yield* rowsOnce(sql`
      select quote_ident(nspname), quote_ident(pg_get_userbyid(relowner))
      from pg_class join pg_namespace on pg_namespace.oid = relnamespace where pg_class.oid = 'dbq_tasks'::regclass`);
    const name = `dbq_tasks_${status}_${date}`;
    const table = `${schema}.${name}`;
    if ((yield* rowsOnce(sql`select 1 where to_regclass(${table}) is not null`)).length > 0) return table;
    // Two workers that made it at once would both find that it is not there, and one would fail.
    yield* rowsOnce(sql`select pg_advisory_xact_lock(6578802)`);
    const at = (time: number) => `'${new Date(time).toISOString()}'::timestamptz`;
    const [from, to] = [midnight(date), midnight(date) + day].map(at);
    // What the CHECKs say is how the planner leaves the table out of a query that finds none of its rows.
    for (const text of [
      `create table if not exists ${table} (primary key (id),
        check (status = '${status}' and finished_at is not null and finished_at >= ${from} and finished_at < ${to}),
        check (schedule_name is null), check (unique_until is null)) inherits (dbq_tasks)`,
      `create index if not exists ${name}_finished on ${table} (finished_at)`,
      `create index if not exists ${name}_request on ${table} (request_id) where request_id is not null`,
      `create index if not exists ${name}_parent on ${table} (parent_id, id) where parent_id is not null`,
      `create index if not exists ${name}_failure on ${table} (failure, id) where failure is not null`,
      // Else the owner of the tasks could not change its columns with theirs.
      `alter table ${table} owner to ${owner}`,
    ])
      yield* rowsOnce(sql.raw(text));
    return table;
  }

  async drop(retention: Retention): Promise<number> {
    const old = await this.#runner.run(() => this.#old(retention));
    let dropped = 0;
    for (const table of old) if (await this.#drop(table)) dropped += 1;
    return dropped;
  }

  /** The tables that are old enough, of those that this user may drop. None while `dbq move` copies them: a drop fires no trigger. */
  *#old(retention: Retention): Program<string[]> {
    const now = this.#d.millis(this.#d.now({}));
    const found = yield* rowsOnce(sql`
      select quote_ident(nspname) || '.' || quote_ident(relname), ${now} from pg_inherits
      join pg_class on pg_class.oid = inhrelid join pg_namespace on pg_namespace.oid = relnamespace
      where inhparent = 'dbq_tasks'::regclass and pg_has_role(relowner, 'usage')
        and to_regproc('dbq_move_refuse') is null order by relname`);
    return found.flatMap(([name, time]) => {
      const partition = toPartition(String(name));
      return partition && partition.end + retention[partition.status] < Number(time) ? partition.table : [];
    });
  }

  /** False: somebody reads it. */
  async #drop(table: string): Promise<boolean> {
    const inLock = (statement: string) =>
      orIfLocked(
        this.#runner.write(function* () {
          yield* rowsOnce(sql.raw("set local lock_timeout = '100ms'"));
          yield* rowsOnce(sql.raw(statement));
          return true;
        }, unlessLocked),
        false,
      );
    // Before anything is deleted: without attempts and log lines, its tasks would be there in part.
    if (!(await inLock(`lock table ${table} in access exclusive mode`))) return false;
    let after: number | undefined = Number.MIN_SAFE_INTEGER;
    while (after !== undefined) {
      const from: number = after;
      after = await this.#runner.write(() => this.#deleteBeside(table, from));
    }
    return await inLock(`drop table if exists ${table}`);
  }

  /** Deletes the attempts and log lines of the next tasks of this table. Returns the last id; undefined: there are no more. */
  *#deleteBeside(table: string, after: number): Program<number | undefined> {
    const found = yield* rowsOnce(
      sql`select id from ${sql.raw(table)} where id > ${after} order by id limit ${dropBatch}`,
    );
    const ids = JSON.stringify(found.map(([id]) => Number(id)));
    for (const other of ["dbq_attempts", "dbq_task_logs", "dbq_steps", "dbq_waits"])
      yield* rowsOnce(sql`delete from ${sql.raw(other)} where ${this.#d.among("task_id", ids)}`);
    return found.length < dropBatch ? undefined : Number(found.at(-1)?.[0]);
  }
}

/** The value of a promise; `otherwise` when another transaction has locked a table that it needs. */
async function orIfLocked<T>(promise: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    if (failureOf((error as Error).cause ?? error) === "locked") return otherwise;
    throw error;
  }
}
