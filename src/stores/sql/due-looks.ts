/** The query for due work: when the next task is due, and what features wait for. Every worker asks it once a second. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { memoize } from "../../base/runtime/memoize.ts";
import type { Part, WithParts } from "../../base/tasks/part.ts";
import type { Promoted } from "../../store.ts";
import type { Dialect, Params } from "./dialect.ts";
import { hasNumber, unreadableId } from "./exact-ids.ts";
import { type Program, rows } from "./program.ts";
import { isNotPassed, mayExpire, type Statement } from "./statements.ts";

/** A column that a feature adds to the query. Where it is not null, the feature's jobs hear it in `dueIn`. */
export interface DueLook {
  column(d: Dialect, p: Params): SQL;
  /** Adds what they hear to the parts of other features. */
  heard(value: unknown, others: WithParts): WithParts;
}

export const dueLook = <T>(
  part: Part<T>,
  column: DueLook["column"],
  read: (value: unknown) => T,
): DueLook => ({
  column,
  heard: (value, others) => part.with(read(value), others),
});

/** Whether the table has a row. */
export const hasRows = (part: Part<true>, table: string): DueLook =>
  dueLook(
    part,
    () => sql.raw(`(select 1 from ${table} limit 1)`),
    () => true,
  );

export type DueLooks = readonly DueLook[];

/** What the query has found. `nextExpiry`: milliseconds until the next task expires; undefined: none will. */
export type NextDue = Omit<Promoted, "promoted" | "expired"> & { nextExpiry: number | undefined };

/** Milliseconds until a time. A time that has passed gives 0. */
export const fromNow = (milliseconds: unknown): number => Math.max(0, Number(milliseconds));

function textOf(d: Dialect, looks: DueLooks, isAny: (p: Params) => SQL): Statement {
  const { dueAt, hasNoTime, expiresAt } = d.indexed;
  const others = (p: Params) =>
    sql.join(looks.map(({ column }, i) => sql`,\n        ${column(d, p)} as ${sql.raw(`look_${i}`)}`));
  return (p) => sql`
      select case when (select 1 from ${d.tasks} where status = 'scheduled' and ${isAny(p)} and ${hasNoTime} order by ${dueAt} limit 1) is not null then 0
        else (select ${d.minus(dueAt, d.now(p))} from ${d.tasks} where status = 'scheduled' and ${isAny(p)} and ${dueAt} is not null order by ${dueAt} limit 1) end as next_due,
        ${unreadableId(d)} as unreadable_id,
        (select ${d.minus(expiresAt, d.now(p))} from ${d.tasks} where ${mayExpire(d)} and ${isAny(p)} order by ${expiresAt} limit 1) as next_expiry${others(p)}`;
}

/** The query about all tasks, and the one that passes over those that the database refuses to change. Made once in a process. */
export const dueTextsOf = memoize((looks: DueLooks) =>
  memoize((d: Dialect) => ({
    all: textOf(d, looks, () => hasNumber),
    but: textOf(d, looks, (p) => isNotPassed(d, p)),
  })),
);

/** @param passed as JSON, the ids of tasks to pass over */
export function* nextDue(d: Dialect, looks: DueLooks, passed?: string): Program<NextDue> {
  const { all, but } = dueTextsOf(looks)(d);
  const [row = []] = passed === undefined ? yield* rows(all) : yield* rows(but, { passed });
  const [task = null, unreadable = null, expiry = null, ...values] = row;
  const parts = looks.reduce<WithParts>(
    (heard, look, i) => ((values[i] ?? null) === null ? heard : look.heard(values[i], heard)),
    {},
  );
  return {
    nextDue: task === null ? undefined : fromNow(task),
    nextExpiry: expiry === null ? undefined : fromNow(expiry),
    ...(unreadable === null ? {} : { unreadableId: String(unreadable) }),
    ...parts,
  };
}
