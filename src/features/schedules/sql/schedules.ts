/** The operations on schedules, each written once for all databases. `ScheduleStore` in `store.ts` says what they promise. */

import { type SQL, sql } from "drizzle-orm/sql/sql";
import { DatabaseError } from "../../../errors.ts";
import type { Inserted, MaybePromise } from "../../../store.ts";
import { type ColumnOf, columnsOf, fieldOf, listed, parameterFor } from "../../../stores/sql/columns.ts";
import { itemList } from "../../../stores/sql/compile.ts";
import type { Dialect, Items, Params, Row } from "../../../stores/sql/dialect.ts";
import { dueLook, fromNow } from "../../../stores/sql/due-looks.ts";
import { largestId } from "../../../stores/sql/exact-ids.ts";
import type { CoreOperations } from "../../../stores/sql/operations.ts";
import { changes, count, type Program, type Runner, rows } from "../../../stores/sql/program.ts";
import {
  held as heldTask,
  itemColumns,
  itemOf,
  oneRow,
  type Statement,
} from "../../../stores/sql/statements.ts";
import { firstGeneration, type TaskOperations } from "../../../stores/sql/tasks.ts";
import {
  type ChangedSchedule,
  type ListedSchedules,
  type MadeTask,
  type MeantSchedules,
  type ScheduleChange,
  type ScheduledTask,
  type ScheduleRecord,
  type ScheduleState,
  type ScheduleStore,
  type ScheduleWrites,
  slotDue,
} from "../contract.ts";
import { readAt, scheduleColumns, toScheduleRecord } from "./rows.ts";

/** Milliseconds until the next schedule is due; null: none is. */
const nextSlot = (d: Dialect, p: Params) =>
  sql`(select ${d.minus(sql.raw("next_at"), d.now(p))} from dbq_schedules
        where paused_at is null and next_at is not null order by next_at limit 1)`;

export const slotLook = dueLook(slotDue, nextSlot, fromNow);

type Column = ColumnOf<"dbq_schedules">;

/** More than there are. */
const mostSchedules = 2_147_483_647;

/** How often a schedule is read again that another writer has added since. */
const mostTries = 10;

/** The columns that `ScheduleState` has. */
const stateColumns = columnsOf("dbq_schedules").filter(
  (column) => !["generation_id", "created_at", "updated_at"].includes(column),
);

/** The columns that firing changes. */
const firedColumns: readonly Column[] = ["next_at", "last_slot", "last_task_id", "skipped"];

const settingsOf = (d: Dialect, columns: readonly Column[], p: Params): SQL[] =>
  columns.map(
    (column) => sql`${sql.raw(column)} = ${parameterFor(d, "dbq_schedules", column, p[fieldOf(column)])}`,
  );

const settings = (d: Dialect, columns: readonly Column[], p: Params): SQL =>
  sql.join(settingsOf(d, columns, p), sql`, `);

/** Whether JavaScript has a number for the generation. Another program may have written any other, or on SQLite a text. */
const hasNumber = sql.raw(`generation_id between -${largestId} and ${largestId}`);

/** A generation that the row was read at; null: one that JavaScript has no number for. The row is locked, so it is the same one. */
const generationOf = ({ generationId }: ScheduleRecord): number | null =>
  Math.abs(generationId) <= Number.MAX_SAFE_INTEGER ? generationId : null;

const isAt = (d: Dialect, { generationId }: Params) =>
  sql`case when ${hasNumber} then generation_id = ${d.integer(generationId)} else ${d.integer(generationId)} is null end`;

/** What each change of a row does. A row whose generation cannot be read gets one that can. */
const changed = (d: Dialect, p: Params) =>
  sql`generation_id = case when ${hasNumber} then generation_id + 1 else 1 end, updated_at = ${d.now(p)}`;

/** Changes some columns of one row. */
const replacing =
  (d: Dialect, columns: readonly Column[]): Statement =>
  (p) =>
    sql`update dbq_schedules set ${sql.join([...settingsOf(d, columns, p), changed(d, p)], sql`, `)}
      where ${d.same("name", p.name)} and ${isAt(d, p)}`;

const isDue = (d: Dialect, p: Params) =>
  sql`paused_at is null and next_at is not null and next_at <= ${d.now(p)}`;

function readStatements(d: Dialect) {
  const unfinished = d.unfinishedOf;
  const read = (p: Params) =>
    sql`select ${listed(d, "dbq_schedules", scheduleColumns)}, ${d.millis(d.now(p))} as read_at from dbq_schedules`;
  const named = (p: Params) => sql`
    select ${listed(d, "dbq_schedules", scheduleColumns)}, ${d.millis(d.now(p))} as read_at
    from ${d.objects(p.names, itemColumns(["name"]))} ${d.joinEach} dbq_schedules
    where dbq_schedules.name = ${d.nameOf(itemOf("name"))}`;
  return {
    now: (p) => sql`select ${d.millis(d.now(p))} as read_at`,

    all: (p) => sql`${read(p)} order by ${d.bytes(sql.raw("name"))}`,

    /** The names that begin with a text, and come after another one. */
    page: (p) => sql`
      ${read(p)} where ${d.bytes(sql`substr(name, 1, ${p.characters})`)} = ${d.bytes(p.prefix)}
        and ${d.bytes(sql.raw("name"))} > ${d.bytes(p.after)}
      order by ${d.bytes(sql.raw("name"))} ${d.atMost(p.limit)}`,

    many: (p) => sql`${named(p)} order by ${d.bytes(sql.raw("name"))}`,

    lockMany: (p) => sql`${named(p)} ${d.locked}`,

    lockOne: (p) => sql`${read(p)} where ${d.same("name", p.name)} ${d.locked}`,

    lockDue: (p) =>
      sql`${read(p)} where ${isDue(d, p)} order by next_at ${d.atMost(p.limit)} ${d.skipLocked}`,

    lockOneDue: (p) => sql`
      ${read(p)} where ${d.same("name", p.name)} and ${isDue(d, p)} ${d.skipLocked}`,

    nextSlot: (p) => sql`select ${nextSlot(d, p)}`,

    /** Which of these schedules have a task that has not finished. */
    unfinished: (p) => sql`
      select item_name from ${d.objects(p.names, itemColumns(["name"]))}
      where exists (
        select 1 from ${d.tasks} where ${sql.raw(unfinished.column)} = ${d.nameOf(itemOf("name"))} and ${unfinished.where})`,

    /** Which of these slots have a task. */
    taken: (p) => sql`
      select item_name, item_slot from ${d.objects(p.slots, itemColumns(["name", "slot"]))}
      where exists (select 1 from ${d.tasks}
        where schedule_name = ${d.nameOf(itemOf("name"))} and slot = ${d.time(itemOf("slot"))})`,
  } satisfies Record<string, Statement>;
}

function writeStatements(d: Dialect) {
  const held = (p: Params) => sql`name = ${d.nameOf(p.name)} and ${isAt(d, p)}`;
  const fired = (p: Params) => sql`${settings(d, firedColumns, p)}, ${changed(d, p)}`;
  const { items } = d;
  /** Changes the rows of a list in one statement; undefined: this database changes them one by one. */
  const each =
    items &&
    ((columns: readonly Column[]) => {
      const item = itemColumns(["name", "generationId", ...columns.map(fieldOf)]);
      const itemParams = Object.fromEntries(item.map(({ name }) => [name, itemOf(name)]));
      return (p: Params) => {
        const { beforeTable, afterTable, afterSet } = items(p[itemList] as SQL, item);
        return sql`update ${beforeTable} dbq_schedules ${afterTable}
          set ${settings(d, columns, itemParams)}, ${changed(d, p)} ${afterSet} where ${held(itemParams)}`;
      };
    });
  return {
    /** `where true`: without it, SQLite takes what follows for a join. */
    add: (p) => sql`
      insert into dbq_schedules (${sql.raw(stateColumns.join(", "))}, created_at, updated_at)
      select ${sql.join(
        stateColumns.map((column) => parameterFor(d, "dbq_schedules", column, itemOf(fieldOf(column)))),
        sql`, `,
      )}, ${d.now(p)}, ${d.now(p)}
      from ${d.objects(p.schedules, itemColumns(stateColumns.map(fieldOf)))} where true ${d.keepExisting("name")}`,

    replace: replacing(d, stateColumns),

    remove: (p) => sql`delete from dbq_schedules where ${d.same("name", p.name)}`,

    fired: (p) => sql`update dbq_schedules set ${fired(p)} where ${held(p)}`,

    firedMany: each?.(firedColumns),

    replaceMany: each?.(stateColumns.filter((column) => column !== "name")),

    /** Makes a task that was just inserted one of a schedule's. Not a state change: the generation stays. */
    stamp: (p: Params, { beforeTable, afterTable, afterSet, isOne }: Items = oneRow) => sql`
      update ${beforeTable} ${d.tasks} ${afterTable} set schedule_name = ${p.scheduleName},
        slot = ${d.time(d.integer(p.slot))} ${afterSet}
      where ${heldTask(d, p, isOne)}`,
  } satisfies Record<string, Statement | undefined>;
}

const namesIn = (names: readonly string[]) => JSON.stringify(names.map((name) => ({ name })));

const isNewIn =
  (known: ReadonlyMap<string, unknown>) =>
  ({ name }: ScheduleState) =>
    !known.has(name);

const keyOf = (name: unknown, slot: unknown) => `${Number(slot)} ${String(name)}`;

export class ScheduleOperations {
  readonly #d: Dialect;
  readonly #s: ReturnType<typeof readStatements> & ReturnType<typeof writeStatements>;
  readonly #tasks: TaskOperations;
  /** The statements that change some columns of one row, by the names of these columns. */
  readonly #replacing = new Map<string, Statement>();

  constructor({ texts: { dialect }, tasks }: CoreOperations) {
    this.#d = dialect;
    this.#s = { ...readStatements(dialect), ...writeStatements(dialect) };
    this.#tasks = tasks;
  }

  *#now(): Program<number> {
    const [row] = yield* rows(this.#s.now);
    return Number(row?.[0]);
  }

  *list(meant: MeantSchedules = {}): Program<ListedSchedules> {
    const found = yield* this.#found(meant);
    const now = found[0] ? readAt(found[0]) : yield* this.#now();
    return { now, schedules: found.map(toScheduleRecord) };
  }

  #found(meant: MeantSchedules): Program<Row[]> {
    if ("names" in meant) return rows(this.#s.many, { names: namesIn(meant.names) });
    const { prefix = "", after = "", limit } = meant;
    if (prefix === "" && after === "" && limit === undefined) return rows(this.#s.all);
    const characters = [...prefix].length;
    return rows(this.#s.page, { prefix, characters, after, limit: limit ?? mostSchedules });
  }

  *nextSlot(): Program<number | undefined> {
    const [[slot] = [null]] = yield* rows(this.#s.nextSlot);
    return slot === null ? undefined : fromNow(slot);
  }

  *remove(name: string): Program<boolean> {
    return (yield* count(this.#s.remove, { name })) > 0;
  }

  // ---- define --------------------------------------------------------------------------------

  *define(
    names: readonly string[],
    decide: (name: string, schedule: ScheduleRecord | undefined, now: number) => ScheduleState | undefined,
  ): Program<void> {
    // All transactions lock and insert in one order: none waits for one that waits for it.
    const sorted = [...names].sort();
    for (let tries = 0; tries < mostTries; tries += 1) {
      const found = yield* rows(this.#s.lockMany, { names: namesIn(sorted) });
      const now = found[0] ? readAt(found[0]) : yield* this.#now();
      const known = new Map(found.map(toScheduleRecord).map((row) => [row.name, row]));
      const states = sorted.flatMap((name) => decide(name, known.get(name), now) ?? []);
      const [added, changed] = [
        states.filter(isNewIn(known)),
        states.filter((state) => !isNewIn(known)(state)),
      ];
      yield* this.#replace(
        changed.map((state) => ({
          ...state,
          generationId: generationOf(known.get(state.name) as ScheduleRecord),
        })),
      );
      if (added.length === 0) return;
      if ((yield* count(this.#s.add, { schedules: JSON.stringify(added) })) === added.length) return;
      // Somebody else was first: some of them exist now.
    }
    throw new DatabaseError(
      `the schedules exist, but they cannot be read in this transaction: ${sorted.join(", ")}`,
    );
  }

  *#replace(states: readonly Params[]): Program<void> {
    if (states.length === 0) return;
    let replaced = 0;
    if (this.#s.replaceMany)
      replaced = yield* count(this.#s.replaceMany, { [itemList]: JSON.stringify(states) });
    else for (const one of states) replaced += yield* count(this.#s.replace, one);
    if (replaced !== states.length) throw movedOn(states.map(({ name }) => String(name)).join(", "));
  }

  // ---- change --------------------------------------------------------------------------------

  *change<C extends ScheduleChange>(
    name: string,
    decide: (schedule: ScheduleRecord | undefined, now: number) => C,
  ): Program<ChangedSchedule<C>> {
    const [row] = yield* rows(this.#s.lockOne, { name });
    const change = decide(row && toScheduleRecord(row), row ? readAt(row) : yield* this.#now());
    return row ? yield* this.#write(toScheduleRecord(row), change) : { change, made: [] };
  }

  *#write<C extends ScheduleChange>(schedule: ScheduleRecord, change: C): Program<ChangedSchedule<C>> {
    const [made = []] = yield* this.#make([change]);
    if (change.row) {
      const row = { ...change.row, lastTaskId: lastOf(made) ?? change.row.lastTaskId };
      const replace = this.#replacingThose(row, schedule);
      if ((yield* count(replace, { ...row, generationId: generationOf(schedule) })) === 0)
        throw movedOn(schedule.name);
    }
    return { change, made };
  }

  /** Only columns that change: the database may refuse the value of another one, which was read as well as could be. */
  #replacingThose(row: ScheduleState, before: ScheduleRecord): Statement {
    const columns = stateColumns.filter((column) => {
      const field = fieldOf(column) as keyof ScheduleState;
      return !Object.is(row[field], before[field]);
    });
    const key = columns.join();
    const known = this.#replacing.get(key) ?? replacing(this.#d, columns);
    this.#replacing.set(key, known);
    return known;
  }

  // ---- fire ----------------------------------------------------------------------------------

  *fire<C extends ScheduleChange>(
    limit: number,
    decide: (schedule: ScheduleRecord, now: number, unfinished: boolean) => C,
    name?: string,
  ): Program<ChangedSchedule<C>[]> {
    const due = yield* name === undefined
      ? rows(this.#s.lockDue, { limit })
      : rows(this.#s.lockOneDue, { name });
    const schedules = due.map(toScheduleRecord);
    const unfinished = yield* this.#unfinished(schedules.filter(({ overlap }) => overlap === "skip"));
    const changes = schedules.map((one, i) =>
      decide(one, readAt(due[i] as (typeof due)[number]), unfinished.has(one.name)),
    );
    const made = yield* this.#make(changes);
    yield* this.#writeFired(
      schedules.flatMap((schedule, i) => {
        const row = changes[i]?.row;
        const generationId = generationOf(schedule);
        if (!row) return [];
        const duplicates = made[i]?.filter(({ duplicate }) => duplicate).length ?? 0;
        const lastTaskId = lastOf(made[i]) ?? row.lastTaskId;
        return [{ ...row, generationId, lastTaskId, skipped: row.skipped + duplicates }];
      }),
    );
    return changes.map((change, i) => ({ change, made: made[i] as MadeTask[] }));
  }

  *#unfinished(schedules: readonly ScheduleRecord[]): Program<Set<string>> {
    if (schedules.length === 0) return new Set();
    const names = namesIn(schedules.map(({ name }) => name));
    return new Set((yield* rows(this.#s.unfinished, { names })).map(([name]) => String(name)));
  }

  /** The rows are locked, so each is at the generation that was read. */
  *#writeFired(fired: readonly (ScheduleState & { generationId: number | null })[]): Program<void> {
    if (fired.length === 0) return;
    const items = fired.map(({ name, generationId, nextAt, lastSlot, lastTaskId, skipped }) => ({
      ...{ name, generationId, nextAt, lastSlot, lastTaskId, skipped },
    }));
    let changed = 0;
    if (this.#s.firedMany) changed = yield* count(this.#s.firedMany, { [itemList]: JSON.stringify(items) });
    else for (const one of items) changed += yield* count(this.#s.fired, one);
    if (changed !== fired.length) throw movedOn(fired.map(({ name }) => name).join(", "));
  }

  // ---- tasks ---------------------------------------------------------------------------------

  /** Makes the tasks of these changes, but for slots that have one. Whoever makes one has locked its schedule's row. */
  *#make(wanted: readonly ScheduleChange[]): Program<MadeTask[][]> {
    const all = wanted.flatMap(({ tasks = [] }) => tasks);
    const taken = yield* this.taken(all);
    const fresh = all.filter((task) => !taken.has(task));
    const inserted = yield* this.#tasks.insert(fresh, "report");
    const stamps = fresh.flatMap(({ scheduleName, slot }, i) => {
      const { id, duplicate } = inserted[i] as Inserted;
      return duplicate ? [] : [{ id, generationId: firstGeneration, scheduleName, slot }];
    });
    yield* changes(this.#s.stamp, stamps);
    const idOf = new Map(fresh.map((task, i) => [task, inserted[i]]));
    return wanted.map(({ tasks = [] }) =>
      tasks.map((task) => ({
        task,
        id: idOf.get(task)?.id,
        duplicate: idOf.get(task)?.duplicate === true,
      })),
    );
  }

  /** Those of these tasks whose slot has a task already. */
  *taken<T extends Pick<ScheduledTask, "scheduleName" | "slot">>(tasks: readonly T[]): Program<Set<T>> {
    const slots = tasks.flatMap(({ scheduleName: name, slot }) => (slot === null ? [] : [{ name, slot }]));
    if (slots.length === 0) return new Set();
    const found = yield* rows(this.#s.taken, { slots: JSON.stringify(slots) });
    const keys = new Set(found.map(([name, slot]) => keyOf(name, slot)));
    return new Set(
      tasks.filter(({ scheduleName, slot }) => slot !== null && keys.has(keyOf(scheduleName, slot))),
    );
  }
}

const lastOf = (made: readonly MadeTask[] | undefined): number | undefined =>
  made?.findLast(({ id, duplicate }) => id !== undefined && !duplicate)?.id;

const movedOn = (names: string) =>
  new DatabaseError(`another transaction has changed a schedule that this one had locked: ${names}`);

/** What is done to schedules inside of an app's transaction. */
export function scheduleWrites(
  write: <T>(op: () => Program<T>) => MaybePromise<T>,
  ops: ScheduleOperations,
): ScheduleWrites {
  return {
    list: (meant) => write(() => ops.list(meant)),
    define: (names, decide) => write(() => ops.define(names, decide)),
    change: (name, decide) => write(() => ops.change(name, decide)),
    make: (name, decide) => write(() => ops.change(name, decide)),
    remove: (name) => write(() => ops.remove(name)),
  };
}

export function scheduleMethods({ run, write, writeOnce }: Runner, ops: ScheduleOperations): ScheduleStore {
  return {
    list: (meant) => run(() => ops.list(meant)),
    define: (names, decide) => write(() => ops.define(names, decide)),
    change: (name, decide) => write(() => ops.change(name, decide)),
    make: (name, decide) => writeOnce(() => ops.change(name, decide)),
    // An earlier try whose answer was lost may have removed it.
    remove: (name) =>
      run(function* (tries) {
        return (yield* ops.remove(name)) || tries > 0;
      }),
    nextSlot: () => run(() => ops.nextSlot()),
    fire: (limit, decide, name) => write(() => ops.fire(limit, decide, name)),
  };
}
