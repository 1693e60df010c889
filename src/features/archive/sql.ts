/** The operations of archives, each written once for all databases. `ArchiveStore` says what they promise. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { DatabaseError } from "../../errors.ts";
import type { TaskFilter } from "../../store.ts";
import { columnsOf, fieldOf, kindOf, listed, parameterFor } from "../../stores/sql/columns.ts";
import type { Dialect, Params } from "../../stores/sql/dialect.ts";
import { plain, textLength } from "../../stores/sql/plain-rows.ts";
import { count, insertedIds, type Program, type Runner, rows, rowsOnce } from "../../stores/sql/program.ts";
import { clockOf, type Statement } from "../../stores/sql/statements.ts";
import { isFinished } from "../../stores/sql/statuses.ts";
import type { Texts } from "../../stores/sql/texts.ts";
import {
  type ArchivedColumn,
  type ArchiveStore,
  type ExportBounds,
  type FoundTask,
  type KnownTask,
  type PartTable,
  type PlainRow,
  partTables,
  type StoredTask,
} from "./contract.ts";

/** The part of a move's operations that keeps new ids above those that were written. */
interface LastIds {
  lastId(table: "dbq_tasks"): Program<number>;
  setLastId(table: "dbq_tasks", id: number): Program<void>;
}

/** The part of the schedules' operations that knows which slots have a task. */
interface Slots {
  taken<T extends { scheduleName: string; slot: number | null }>(tasks: readonly T[]): Program<Set<T>>;
}

type ArchivedTable = "dbq_tasks" | PartTable;

/** The columns that are written: parts get new ids. */
const columnsFor = (table: ArchivedTable): readonly string[] =>
  columnsOf(table).filter((column) => table === "dbq_tasks" || column !== "id");

function tableStatements(d: Dialect, table: ArchivedTable) {
  const columns = columnsFor(table);
  const into = sql.raw(`insert into ${table} (${columns.join(", ")})`);
  const values = (p: Params) =>
    sql.join(
      columns.map((column) => parameterFor(d, table, column, p[column])),
      sql`, `,
    );
  const owner = sql.raw(table === "dbq_tasks" ? "id" : "task_id");
  return {
    read: (p) => sql`
      select ${listed(d, table, columns)} from ${sql.raw(table)} where ${owner} in ${d.integers(p.ids)} order by id`,
    bytes: (p) => sql`
      select task_id, sum(${textLength(d, table)}) from ${sql.raw(table)}
      where ${owner} in ${d.integers(p.ids)} group by task_id`,
    insert: (p, many) =>
      many === undefined
        ? sql`${into} values (${values(p)})`
        : sql`${into} select ${values(p)} ${many.afterSet}`,
  } satisfies Record<string, Statement>;
}

/** Gives a task its key for the rest of its time, unless that has passed or another task holds the key. */
const holdKeyOf =
  (d: Dialect): Statement =>
  (p) =>
    sql`
    update ${d.tasks} set unique_until = ${d.time(d.integer(p.until))}
    where dbq_tasks.id = ${d.only(p.id)} and ${d.time(d.integer(p.until))} > ${d.now(p)}
      and not exists (select 1 from (select id from ${d.tasks} where ${d.holdsKey(p.uniqueKey)}) as holder)`;

export class ArchiveOperations {
  readonly #d: Dialect;
  readonly #queries: Texts["queries"];
  readonly #lastIds: LastIds;
  readonly #now: Statement;
  readonly #holdKey: Statement;
  readonly #slots: Slots;
  readonly #of: Record<ArchivedTable, ReturnType<typeof tableStatements>>;

  constructor({ dialect, queries }: Texts, lastIds: LastIds, slots: Slots) {
    this.#d = dialect;
    this.#queries = queries;
    this.#lastIds = lastIds;
    this.#now = clockOf(dialect);
    this.#holdKey = holdKeyOf(dialect);
    this.#slots = slots;
    const of = (table: ArchivedTable) => tableStatements(dialect, table);
    this.#of = {
      dbq_tasks: of("dbq_tasks"),
      dbq_attempts: of("dbq_attempts"),
      dbq_task_logs: of("dbq_task_logs"),
      dbq_steps: of("dbq_steps"),
    };
  }

  // ---- export --------------------------------------------------------------------------------

  *bounds(): Program<ExportBounds> {
    const [now] = yield* rows(this.#now);
    return { endedBy: Math.round(Number(now?.[0])), lastId: yield* this.#lastIds.lastId("dbq_tasks") };
  }

  *next(filter: TaskFilter, bounds: ExportBounds, after: number, limit: number): Program<FoundTask[]> {
    const found = yield* rowsOnce(sql`
      select id, generation_id, ${textLength(this.#d, "dbq_tasks")} from dbq_tasks
      where id > ${after} and ${this.#isWithin(bounds)} and ${this.#queries.matching(filter)}
      order by id limit ${sql.raw(String(limit))}`);
    const tasks = found.map(([id, generation, bytes]) => {
      if (!Number.isSafeInteger(Number(id)))
        throw new DatabaseError(`dbq_tasks ${String(id)}: an id beyond 2^53 cannot be exported`);
      return { id: Number(id), generationId: Number(generation), bytes: Number(bytes) };
    });
    const ids = idsOf(tasks);
    const parts = new Map<number, number>();
    for (const table of partTables)
      for (const [id, bytes] of tasks.length === 0 ? [] : yield* rows(this.#of[table].bytes, { ids }))
        parts.set(Number(id), (parts.get(Number(id)) ?? 0) + Number(bytes));
    return tasks.map((task) => ({ ...task, bytes: task.bytes + (parts.get(task.id) ?? 0) }));
  }

  /** What has an id beyond the last one that JavaScript has a number for is seen, and refused. */
  #isWithin({ endedBy, lastId }: ExportBounds): SQL {
    const d = this.#d;
    return sql`(id <= ${lastId} or id > ${sql.raw(String(Number.MAX_SAFE_INTEGER))})
      and ${sql.raw(isFinished)} and (finished_at is null or finished_at <= ${d.time(sql`${endedBy}`)})`;
  }

  /** The tasks last: one that is still at its generation was so while its parts were read. */
  *read(found: readonly FoundTask[]): Program<StoredTask[]> {
    const ids = idsOf(found);
    const parts = new Map(found.map(({ id }) => [id, emptyParts()]));
    for (const table of partTables)
      for (const row of yield* this.#rows(table, ids)) parts.get(Number(row.task_id))?.[table].push(row);
    const generations = new Map(found.map(({ id, generationId }) => [id, generationId]));
    const tasks = yield* this.#rows("dbq_tasks", ids);
    return tasks
      .filter((task) => generations.get(Number(task.id)) === Number(task.generation_id))
      .map((task) => ({ task, parts: parts.get(Number(task.id)) ?? emptyParts() }));
  }

  *#rows(table: ArchivedTable, ids: string): Program<PlainRow[]> {
    const columns = columnsFor(table);
    const kinds = columns.map((column) => kindOf(table, column));
    const found = yield* rows(this.#of[table].read, { ids });
    return found.map((row) => Object.fromEntries(columns.map((name, i) => [name, plain(kinds[i], row[i])])));
  }

  // ---- import --------------------------------------------------------------------------------

  *known(ids: readonly number[]): Program<KnownTask[]> {
    const d = this.#d;
    const found = yield* rowsOnce(sql`
      select id, func, ${d.millis(sql.raw("created_at"))} from dbq_tasks where id in ${d.integers(JSON.stringify(ids))}`);
    return found.map(([id, func, at]) => ({
      id: Number(id),
      func: String(func),
      createdAt: Math.round(Number(at)),
    }));
  }

  /** The last id comes first: no enqueue that runs meanwhile takes one of these. */
  *add(tasks: readonly StoredTask[]): Program<void> {
    const highest = Math.max(...tasks.map(({ task }) => Number(task.id)));
    if (!this.#d.transfer.followsInserts) yield* this.#lastIds.setLastId("dbq_tasks", highest);
    yield* insertedIds(this.#of.dbq_tasks.insert, yield* this.#toInsert(tasks));
    for (const { task } of tasks) {
      const { id, unique_key: uniqueKey, unique_until: until } = task;
      if (uniqueKey !== null && until !== null) yield* count(this.#holdKey, { id, uniqueKey, until }, false);
    }
    for (const table of partTables)
      yield* insertedIds(
        this.#of[table].insert,
        tasks.flatMap(({ parts }) => [...parts[table]]),
      );
  }

  /** The rows without their keys, and without slots that another task has. */
  *#toInsert(tasks: readonly StoredTask[]): Program<PlainRow[]> {
    const slotted = tasks.map(({ task }) => ({
      task,
      scheduleName: String(task.schedule_name),
      slot: task.schedule_name === null ? null : (task.slot as number | null),
    }));
    const taken = yield* this.#slots.taken(slotted);
    const given = new Set<string>();
    return slotted.map((one) => {
      const key = JSON.stringify([one.scheduleName, one.slot]);
      const isFree = !taken.has(one) && !given.has(key);
      given.add(key);
      return { ...one.task, unique_until: null, slot: isFree ? one.slot : null };
    });
  }
}

const idsOf = (tasks: readonly { id: number }[]): string => JSON.stringify(tasks.map(({ id }) => id));

const emptyParts = (): Record<PartTable, PlainRow[]> => ({
  dbq_attempts: [],
  dbq_task_logs: [],
  dbq_steps: [],
});

const describedColumns = (table: ArchivedTable): ArchivedColumn[] =>
  columnsFor(table)
    .filter((name) => name !== "task_id")
    .map((name) => ({ name, field: fieldOf(name), kind: kindOf(table, name) }));

const columns: ArchiveStore["columns"] = {
  dbq_tasks: describedColumns("dbq_tasks"),
  dbq_attempts: describedColumns("dbq_attempts"),
  dbq_task_logs: describedColumns("dbq_task_logs"),
  dbq_steps: describedColumns("dbq_steps"),
};

export function archiveMethods({ run, write }: Runner, ops: ArchiveOperations): ArchiveStore {
  return {
    columns,
    bounds: () => run(() => ops.bounds()),
    next: (filter, bounds, after, limit) => run(() => ops.next(filter, bounds, after, limit)),
    read: (found) => run(() => ops.read(found)),
    known: (ids) => run(() => ops.known(ids)),
    add: (tasks) => write(() => ops.add(tasks)),
  };
}
