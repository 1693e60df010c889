/** The rows of waits: what a task waits for. `WorkflowStore` says what each operation promises. */
import { sql } from "drizzle-orm/sql/sql";
import { columnsOf, listed, positionsIn } from "../../../stores/sql/columns.ts";
import type { Dialect, Params, Row } from "../../../stores/sql/dialect.ts";
import { dueLook, fromNow, hasRows } from "../../../stores/sql/due-looks.ts";
import { count, insertAll, type Program, rows } from "../../../stores/sql/program.ts";
import { int, intOrNull, textOrNull } from "../../../stores/sql/rows.ts";
import { itemColumns, itemOf, type Statement, still } from "../../../stores/sql/statements.ts";
import { isUnfinished as unfinished } from "../../../stores/sql/statuses.ts";
import type { TaskOperations } from "../../../stores/sql/tasks.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import { isFinished } from "../../../task.ts";
import {
  type CountedWaits,
  nextWaitDue,
  type StoredWait,
  type TasksOfQueue,
  type Wait,
  waitsDue,
} from "../contract.ts";
import {
  type ChildRange,
  fanInStatements,
  lastUnfinished,
  moveWait,
  rangeIn,
  rangeOf,
  rangeText,
  setsOfMany,
} from "./fan-in.ts";

export const waitsLook = hasRows(waitsDue, "dbq_waits");

export const nextWaitLook = dueLook(
  nextWaitDue,
  (d, p) => sql`(select ${d.minus(sql.raw("deadline"), d.now(p))} from dbq_waits
        where deadline is not null and kind <> 'undo' order by deadline limit 1)`,
  fromNow,
);

const waitColumns = columnsOf("dbq_waits");
const wait = positionsIn(waitColumns);
/** Behind the columns of a wait: the milliseconds until its deadline. */
const leftAt = waitColumns.length;

export interface WaitRow extends StoredWait {
  id: number;
  /** Milliseconds until its time is over; undefined: it has none. */
  left: number | undefined;
}

const toWait = (row: Row): WaitRow => ({
  id: int(row[wait.id]),
  taskId: int(row[wait.task_id]),
  name: String(row[wait.name]),
  kind: row[wait.kind] as Wait["kind"],
  target: textOrNull(row[wait.target]),
  deadline: intOrNull(row[wait.deadline]),
  mode: textOrNull(row[wait.mode]),
  left: row[leftAt] === null ? undefined : Number(row[leftAt]),
});

const json = (ids: readonly number[]): string => JSON.stringify(ids);

/** Not the mark of a task that undoes its steps. */
const isWait = sql.raw("kind <> 'undo'");

function countStatements(d: Dialect) {
  // No index tells which tasks wait: their waits do.
  const oldest = (p: Params) =>
    sql`select task_id, kind from dbq_waits where ${isWait} order by id ${d.atMost(p.limit)}`;
  const waitingAmong = (p: Params) => sql`
      from (${oldest(p)}) as waits ${d.joinEach} ${d.tasks} where dbq_tasks.id = task_id ${still("waiting")}`;
  return {
    countSome: (p) => sql`select count(*) from (${oldest(p)}) as waits`,

    countKinds: (p) => sql`
      select kind, count(distinct task_id), max(${d.minus(d.now(p), sql`updated_at`)}) ${waitingAmong(p)} group by kind order by kind`,

    countQueues: (p) => sql`
      select queue_name, count(distinct task_id) ${waitingAmong(p)} group by ${d.exact("queue_name")} order by queue_name`,
  } satisfies Record<string, Statement>;
}

function waitStatements(d: Dialect) {
  const all = (p: Params) =>
    sql`${listed(d, "dbq_waits", waitColumns)}, ${d.minus(sql`deadline`, d.now(p))} as time_left`;
  const [target, taskId] = [itemColumns(["target"]), itemColumns(["taskId"])];
  return {
    waits: (p) => sql`
      select ${all(p)} from ${d.objects(p.tasks, taskId)} ${d.joinEach} dbq_waits
      where task_id = ${d.only(itemOf("taskId"))} and ${isWait} order by task_id, id`,

    firstWaits: (p) =>
      sql`select ${all(p)} from dbq_waits where task_id = ${p.taskId} and ${isWait} order by name ${d.atMost(p.limit)}`,

    newestWaits: (p) =>
      sql`select task_id from dbq_waits where ${isWait} and task_id < ${p.before} order by task_id desc ${d.atMost(p.limit)}`,

    waitingFor: (p) => sql`
      select distinct task_id from dbq_waits ${d.joinEach} ${d.tasks}
      where ${d.same("target", p.target)} and ${isWait} and task_id > ${p.after} and dbq_tasks.id = task_id and ${sql.raw(unfinished)} order by task_id ${d.atMost(p.limit)}`,

    waitsAfter: (p) =>
      sql`select ${all(p)} from dbq_waits where id > ${p.after} order by id ${d.atMost(p.limit)}`,

    /**
     * What waits for these ids, or for events whose names are such numbers. The caller takes from it what waits for its own children:
     * with more conditions, a planner without statistics reads all waits of a parent that has thousands.
     */
    waitsForTargets: (p) => sql`
      select ${all(p)} from ${d.objects(p.targets, target)} ${d.joinEach} dbq_waits
      where target = ${d.onlyName(itemOf("target"))} order by task_id, id`,

    waitsForEvent: (p) => sql`
      select ${all(p)} from dbq_waits where ${d.same("target", p.target)} and kind = 'event' order by task_id, id ${d.locked}`,

    /** Waits for events that another program has written. */
    waitsForWritten: (p) => sql`
      select dbq_waits.target from dbq_waits ${d.joinEach} dbq_events
      where dbq_waits.id > ${p.after} and dbq_waits.id <= ${p.last} and kind = 'event' and dbq_events.name = target and emitted_at is not null`,

    dueWaits: (p) => sql`
      select ${all(p)} from dbq_waits where deadline is not null and deadline <= ${d.now(p)} and ${isWait} order by deadline ${d.atMost(p.limit)} ${d.skipLocked}`,

    insertWait: (p, many) => {
      const row = sql`${d.integer(p.taskId)}, ${p.name}, ${p.kind}, ${p.target},
        coalesce(${d.time(d.integer(p.deadline))}, ${d.plus(d.now(p), d.integer(p.delay))}), ${p.mode}`;
      return sql`
      insert into dbq_waits (task_id, name, kind, target, deadline, mode)
        ${many === undefined ? sql`values (${row})` : sql`select ${row} ${many.afterSet}`}`;
    },

    others: (p) => sql`
      select 1 from dbq_waits where task_id = ${p.taskId} and (mode = ${p.mode} or mode like ${p.many}) order by name ${sql.raw("limit 1")}`,

    deleteWaits: (p) => sql`delete from dbq_waits where ${d.among("id", p.ids)}`,

    deleteMode: (p) =>
      sql`delete from dbq_waits where task_id = ${p.taskId} and (mode = ${p.mode} or mode like ${p.many})`,

    deleteWaitsOf: (p) => sql`delete from dbq_waits where ${d.among("task_id", p.ids)}`,
  } satisfies Record<string, Statement>;
}

/** The waits of one mode: each for one child, or one for many. */
const ofMode = (taskId: number, mode: string) => ({ taskId, mode, many: `${mode} of %` });

const statementsOf = (d: Dialect) => ({
  ...waitStatements(d),
  ...countStatements(d),
  ...fanInStatements(d),
});

export class WaitRows {
  readonly #s: ReturnType<typeof statementsOf>;
  readonly #tasks: TaskOperations;

  constructor({ dialect }: Texts, tasks: TaskOperations) {
    this.#s = statementsOf(dialect);
    this.#tasks = tasks;
  }

  // ---- read ----------------------------------------------------------------------------------

  *waits(taskIds: readonly number[]): Program<WaitRow[]> {
    if (taskIds.length === 0) return [];
    const tasks = JSON.stringify(taskIds.map((taskId) => ({ taskId })));
    return (yield* rows(this.#s.waits, { tasks })).map(toWait);
  }

  *openWaits(taskIds: readonly number[], limit: number): Program<WaitRow[]> {
    const found: WaitRow[] = [];
    for (const wait of yield* this.waits(taskIds)) found.push(...(yield* this.#waitsIn(wait, limit)));
    return found;
  }

  *firstWaits(taskIds: readonly number[], limit: number): Program<WaitRow[]> {
    const found: WaitRow[] = [];
    for (const taskId of taskIds) {
      const each: WaitRow[] = [];
      for (const row of yield* rows(this.#s.firstWaits, { taskId, limit }))
        each.push(...(yield* this.#waitsIn(toWait(row), limit)));
      found.push(...each.slice(0, limit));
    }
    return found;
  }

  /** Those for which one wait stands: of many children, the first that have not ended. */
  *#waitsIn(wait: WaitRow, limit: number): Program<WaitRow[]> {
    const range = rangeIn(wait.mode);
    if (!range) return [wait];
    const open = yield* rows(this.#s.firstUnfinished, { parentId: wait.taskId, ...range, limit });
    return open.map(([id]) => ({ ...wait, target: String(id), mode: range.mode }));
  }

  *countWaits(limit: number): Program<{ kinds: CountedWaits[]; queues: TasksOfQueue[]; more: boolean }> {
    const [all] = yield* rows(this.#s.countSome, { limit });
    const looked = Number(all?.[0]);
    if (looked === 0) return { kinds: [], queues: [], more: false };
    const kinds = (yield* rows(this.#s.countKinds, { limit })).map(([kind, tasks, age]) => ({
      ...{ kind: kind as Wait["kind"], tasks: Number(tasks), oldestAge: Math.max(0, Number(age)) },
    }));
    const queues = (yield* rows(this.#s.countQueues, { limit })).map(([queueName, tasks]) => ({
      ...{ queueName: String(queueName), tasks: Number(tasks) },
    }));
    return { kinds, queues, more: looked >= limit };
  }

  *lastWaiting(waits: number, before: number): Program<number[]> {
    const found = yield* rows(this.#s.newestWaits, { limit: waits, before });
    return [...new Set(found.map(([id]) => int(id)))];
  }

  *waitingFor(target: string, limit: number, after: number): Program<number[]> {
    const found = (yield* rows(this.#s.waitingFor, { target, limit, after })).map(([id]) => int(id));
    const parent = /^[1-9]\d*$/.test(target) ? yield* this.#waitsForManyWith(int(target)) : undefined;
    const all = new Set([...found, ...(parent === undefined || parent <= after ? [] : [parent])]);
    return [...all].sort((a, b) => a - b).slice(0, limit);
  }

  /** The parent of this unfinished task, if it waits for many children, and this is one of them. */
  *#waitsForManyWith(id: number): Program<number | undefined> {
    const [task] = yield* this.#tasks.get([id]);
    if (!task?.parentId || isFinished(task.status)) return undefined;
    const ranges = (yield* this.rangesOf([task.parentId])).map(({ mode }) => rangeIn(mode) as ChildRange);
    return ranges.some(({ first, last }) => first <= id && id <= last) ? task.parentId : undefined;
  }

  /** The waits for many children that these tasks have. */
  *rangesOf(taskIds: readonly number[]): Program<WaitRow[]> {
    return (yield* this.waits([...new Set(taskIds)])).filter(({ mode }) => rangeIn(mode));
  }

  *after(id: number, limit: number): Program<WaitRow[]> {
    return (yield* rows(this.#s.waitsAfter, { after: id, limit })).map(toWait);
  }

  /** What waits for any of these ids, or for events whose names are such numbers. */
  *forTargets(ids: Iterable<number>): Program<WaitRow[]> {
    const targets = JSON.stringify(Array.from(ids, (id) => ({ target: String(id) })));
    return (yield* rows(this.#s.waitsForTargets, { targets })).map(toWait);
  }

  /** What waits for an event, locked. */
  *forEvent(name: string): Program<WaitRow[]> {
    return (yield* rows(this.#s.waitsForEvent, { target: name })).map(toWait);
  }

  /** The names of events that another program has written, and for which a wait with such an id waits. */
  *writtenEvents(after: number, last: number): Program<Set<string>> {
    const written = yield* rows(this.#s.waitsForWritten, { after, last });
    return new Set(written.map(([target]) => String(target)));
  }

  /** Those whose time is over, locked. */
  *due(limit: number): Program<WaitRow[]> {
    return (yield* rows(this.#s.dueWaits, { limit })).map(toWait);
  }

  *hasOthers(taskId: number, mode: string): Program<boolean> {
    return (yield* rows(this.#s.others, ofMode(taskId, mode))).length > 0;
  }

  // ---- write ---------------------------------------------------------------------------------

  /** A task that does not park has no wait for many children: it looks at each of them. */
  *insert(taskId: number, waits: readonly Wait[], parks: boolean): Program<void> {
    const each = new Set(waits);
    const params: Params[] = [];
    for (const [mode, set] of setsOfMany(waits)) {
      const children = set.map(({ target }) => int(target));
      const range = parks ? yield* rangeOf(this.#s, taskId, mode, children) : undefined;
      if (parks && !range) continue;
      if (range) params.push(rangeWait(taskId, range));
      for (const one of set) each.delete(one);
    }
    yield* insertAll(this.#s.insertWait, [...[...each].map(waitParams(taskId)), ...params]);
  }

  /** The waits of a task for tasks that its parent, its group or its chain has inserted. */
  *insertFor(taskId: number, mode: string, children: readonly number[]): Program<void> {
    yield* insertAll(
      this.#s.insertWait,
      children.map((id) => childWait(taskId, `task ${id}`, mode, id)),
    );
  }

  /** One wait for all children of this range, of which the last has not ended. */
  *insertRange(taskId: number, range: ChildRange): Program<void> {
    yield* insertAll(this.#s.insertWait, [rangeWait(taskId, range)]);
  }

  /** Lets a wait for many children name the last one that has not ended. False: all have. */
  *moveOn({ id, taskId }: WaitRow, { first, last }: { first: number; last: number }): Program<boolean> {
    const next = yield* lastUnfinished(this.#s, taskId, { first, before: last });
    if (next !== undefined) yield* moveWait(this.#s, id, next);
    return next !== undefined;
  }

  *remove(waits: readonly Pick<WaitRow, "id">[]): Program<void> {
    if (waits.length > 0) yield* count(this.#s.deleteWaits, { ids: json(waits.map(({ id }) => id)) }, false);
  }

  *removeMode(taskId: number, mode: string): Program<void> {
    yield* count(this.#s.deleteMode, ofMode(taskId, mode), false);
  }

  /** @param ids of tasks, as JSON */
  *removeOf(ids: string): Program<void> {
    yield* count(this.#s.deleteWaitsOf, { ids }, false);
  }
}

const waitParams =
  (taskId: number) =>
  ({ name, kind, target, until, mode }: Wait) => ({
    ...{ taskId, name, kind, target, mode },
    deadline: until && "at" in until ? until.at : null,
    delay: until && "after" in until ? until.after : null,
  });

/** Its target is the last child that has not ended. */
const rangeWait = (taskId: number, range: ChildRange) =>
  childWait(taskId, rangeText(range), rangeText(range), range.last);

const childWait = (taskId: number, name: string, mode: string, childId: number) => ({
  ...{ taskId, name, kind: "child", target: String(childId), mode },
  ...{ deadline: null, delay: null },
});
