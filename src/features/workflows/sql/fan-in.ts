/**
 * One wait of a task for many of its children: those with ids from `first` to `last`. Its target is the last one of them that has not
 * ended. When that one ends, the next one below becomes the target. So the end of any other child writes nothing here, and a task that
 * waits for 10,000 children has one wait.
 */
import { sql } from "drizzle-orm/sql/sql";
import { groupBy } from "../../../base/values/group-by.ts";
import type { Dialect, Params } from "../../../stores/sql/dialect.ts";
import { count, type Program, rows } from "../../../stores/sql/program.ts";
import type { Statement } from "../../../stores/sql/statements.ts";
import { isUnfinished } from "../../../stores/sql/statuses.ts";
import type { Wait } from "../contract.ts";

/** With more children than this in one `all`, `settled` or group, its task has one wait for them. */
export const manyChildren = 100;

export interface ChildRange {
  /** As in `Wait`, or the mode of a group. */
  mode: string;
  first: number;
  last: number;
}

const pattern = /^(.+) of (\d+)-(\d+)$/;

/** The text in the column `mode`. */
export const rangeText = ({ mode, first, last }: ChildRange): string => `${mode} of ${first}-${last}`;

/** Undefined: the wait is for one child. */
export function rangeIn(mode: string | null): ChildRange | undefined {
  const [, own, first, last] = pattern.exec(mode ?? "") ?? [];
  return own === undefined ? undefined : { mode: own, first: Number(first), last: Number(last) };
}

/** Of these waits the ones for children of which very many belong together, by their mode. */
export function setsOfMany(waits: readonly Wait[]): Map<string, Wait[]> {
  const ofChildren = waits.filter(({ kind, mode }) => kind === "child" && mode !== null);
  const sets = groupBy(ofChildren, ({ mode }) => mode as string);
  for (const [mode, set] of sets) if (set.length <= manyChildren) sets.delete(mode);
  return sets;
}

export function fanInStatements(d: Dialect) {
  const unfinished = sql.raw(isUnfinished);
  const between = (p: Params) => sql`
      from ${d.tasks} where parent_id = ${d.only(p.parentId)} and dbq_tasks.id >= ${p.first} and dbq_tasks.id <= ${p.last}
        and ${unfinished}`;
  return {
    /** By both columns of the index, in its order: a planner without statistics would walk the primary key. */
    lastUnfinished: (p) => sql`
      select id from ${d.tasks} where parent_id = ${d.only(p.parentId)} and dbq_tasks.id >= ${p.first} and dbq_tasks.id < ${p.before}
        and ${unfinished} order by parent_id desc, dbq_tasks.id desc ${d.atMost(p.limit)}`,

    firstUnfinished: (p) => sql`
      select id ${between(p)} order by parent_id, dbq_tasks.id ${d.atMost(p.limit)}`,

    unfinishedBetween: (p) => sql`select count(*) ${between(p)}`,

    /** The parent is no condition: without statistics, a planner would read all children of the task for each id. */
    ownAmong: (p) => sql`
      select sum(case when parent_id = ${d.integer(p.parentId)} then 1 else 0 end) from ${d.integers(p.ids)} as asked
      ${d.joinEach} ${d.tasks} where dbq_tasks.id = ${d.only(sql.raw("asked.value"))}`,

    moveWait: (p) => sql`update dbq_waits set target = ${p.target} where id = ${p.id}`,
  } satisfies Record<string, Statement>;
}

type FanInStatements = ReturnType<typeof fanInStatements>;

/** The last of these children that has not ended; undefined: all have. */
export function* lastUnfinished(
  s: FanInStatements,
  parentId: number,
  range: { first: number; before: number },
): Program<number | undefined> {
  const [found] = yield* rows(s.lastUnfinished, { parentId, ...range, limit: 1 });
  return found && Number(found[0]);
}

/**
 * The range that holds these unfinished children and no other unfinished one of the task. Undefined: there is none, since others are
 * between them, or another task is their parent, which has held their unique key before.
 */
export function* rangeOf(
  s: FanInStatements,
  parentId: number,
  mode: string,
  unfinished: readonly number[],
): Program<ChildRange | undefined> {
  const byId = [...unfinished].sort((a, b) => a - b);
  const range = { mode, first: byId[0] as number, last: byId.at(-1) as number };
  const [between] = yield* rows(s.unfinishedBetween, { parentId, ...range });
  if (Number(between?.[0]) !== unfinished.length) return undefined;
  const [own] = yield* rows(s.ownAmong, { parentId, ids: JSON.stringify(unfinished) });
  return Number(own?.[0]) === unfinished.length ? range : undefined;
}

export function* moveWait(s: FanInStatements, id: number, target: number): Program<void> {
  yield* count(s.moveWait, { id, target: String(target) }, false);
}
