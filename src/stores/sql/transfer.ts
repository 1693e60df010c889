/** The operations of a move from one database to another, once for each of them: see `moving.ts` of the ring above. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { DatabaseError } from "../../errors.ts";
import type { Diagnosis } from "../../store.ts";
import {
  type MovedRow,
  type MovedTable,
  movedTables,
  type RowVersion,
  type TransferPhase,
  type TransferState,
} from "../../store.ts";
import { type ColumnKind, type ColumnOf, columnsOf, kindOf, listed } from "./columns.ts";
import type { Dialect } from "./dialect.ts";
import { count, insertedIds, type Program, rows } from "./program.ts";
import type { Params, Statement } from "./statements.ts";
import { holdsKey } from "./statuses.ts";

/** What is compared with how a row was, and of all other texts the length: all columns take twice as long. */
const versions: { readonly [T in MovedTable]: readonly ColumnOf<T>[] } = {
  // biome-ignore format: a list to read, not a column of names
  dbq_tasks: ["generation_id", "status", "updated_at", "func", "queue_name", "priority", "max_retries", "retry_count",
    "wait_until", "timeout"],
  dbq_attempts: ["task_id", "generation_id"],
};

/** A parameter as what its column holds. */
function parameterFor(d: Dialect, kind: ColumnKind, parameter: unknown): SQL {
  switch (kind) {
    case "integer":
      return d.integer(parameter);
    case "time":
      return d.time(d.integer(parameter));
    case "json":
      return d.json(parameter);
    default:
      return sql`${parameter}`;
  }
}

const largest = String(Number.MAX_SAFE_INTEGER);

/** A value as it is carried; undefined: it cannot be. */
function carried(kind: ColumnKind | undefined, value: unknown): MovedRow[number] {
  if (value === null) return null;
  if (kind === "json" || kind === "text") return typeof value === "string" ? value : undefined;
  const number = Number(value);
  if (kind === "real") return number;
  const whole = kind === "time" ? Math.round(number) : number;
  return Number.isSafeInteger(whole) ? whole : undefined;
}

function statementsOf(d: Dialect, table: MovedTable) {
  const [name, columns] = [sql.raw(table), columnsOf(table)];
  const kinds = columns.map((column) => kindOf(table, column));
  const compared: readonly string[] = versions[table];
  const lengths = columns
    .filter((column) => /^(json|text)$/.test(kindOf(table, column)) && !compared.includes(column))
    .map((column) => {
      const value = sql.raw(column);
      return sql`coalesce(octet_length(${kindOf(table, column) === "json" ? d.text(value) : value}), 0)`;
    });
  const isKeyed = sql.raw(table === "dbq_tasks" ? `case when ${holdsKey} then 1 else 0 end` : "0");
  const values = (p: Params) =>
    sql.join(
      columns.map((column) => parameterFor(d, kindOf(table, column), p[column])),
      sql`, `,
    );
  const into = sql.raw(`insert into ${table} (${columns.join(", ")})`);
  return {
    names: columns,
    kinds,
    versionKinds: compared.map((column) => kindOf(table, column)),
    stamps: (p) => sql`
      select id, ${sql.join(lengths, sql` + `)}, ${isKeyed}, ${listed(d, table, compared)} from ${name}
      where id > ${p.after} order by id ${d.atMost(p.limit)}`,
    // As text: a driver may round such a number.
    unsafe: () => sql`
      select cast(id as char(20)) from ${name}
      where id > ${sql.raw(largest)} or id < -${sql.raw(largest)} order by id ${sql.raw("limit 1")}`,
    read: (p) => sql`
      select ${listed(d, table, columns)} from ${name} where id in ${d.integers(p.ids)} order by id`,
    insert: (p, many) =>
      many === undefined
        ? sql`${into} values (${values(p)})`
        : sql`${into} select ${values(p)} ${many.afterSet}`,
    remove: (p) => sql`delete from ${name} where id = ${p.id}`,
    given: () => sql.raw(d.transfer.lastId(table)),
    size: () => sql`select count(*) from ${name}`,
    highest: () => sql`select max(id) from ${name}`,
  } satisfies Record<string, Statement | readonly string[]>;
}

const fixed = (text: string): Statement => {
  const query = sql.raw(text);
  return () => query;
};

export function transferOperations(d: Dialect) {
  const [tasks, attempts] = movedTables;
  const of = { [tasks]: statementsOf(d, tasks), [attempts]: statementsOf(d, attempts) };
  const isMarked = fixed(d.transfer.isMarked);
  const makeMark = fixed(d.transfer.makeMark);
  const look = fixed("select move_id, run, state, other, refusal from dbq_move");
  const triggers = d.transfer.triggers === undefined ? undefined : fixed(d.transfer.triggers);
  const removeAllKeyed = fixed(`delete from dbq_tasks where ${holdsKey}`);
  const first: Statement = (p) => sql`
    insert into dbq_move (only_one, move_id, run, state, other, refusal, door)
    values (1, ${p.moveId}, ${p.run}, ${p.phase}, ${p.other}, ${p.refusal}, 0)`;
  const seen = (p: Params) => sql`run = ${p.seenRun} and state = ${p.seenState}`;
  const replace: Statement = (p) => sql`
    update dbq_move set move_id = ${p.moveId}, run = ${p.run}, state = ${p.phase}, other = ${p.other},
      refusal = ${p.refusal}, door = 0 where ${seen(p)}`;
  const forget: Statement = (p) => sql`delete from dbq_move where ${seen(p)}`;
  const step: Statement = (p) => sql`
    update dbq_move set state = ${p.to} where run = ${p.run} and state = ${p.from}`;
  /** Inside of a transaction: nobody else sees it open. */
  const door = (open: 0 | 1): Statement => {
    return (p) => sql`
      update dbq_move set door = ${sql.raw(String(open))} where run = ${p.run} and state = 'filling'`;
  };
  const [open, close] = [door(1), door(0)];
  const own: Statement = (p) => sql`select 1 from dbq_move where run = ${p.run} ${d.locked}`;

  function* each(statements: readonly Statement[]): Program<void> {
    for (const statement of statements) yield* count(statement, {});
  }

  function* mark(): Program<TransferState | undefined> {
    if ((yield* rows(isMarked)).length === 0) return undefined;
    const [row] = yield* rows(look);
    if (!row) return undefined;
    const [moveId, run, state, other, refusal] = row as string[];
    return { moveId, run, phase: state as TransferPhase, other, refusal } as TransferState;
  }

  /** Done twice, it was done. */
  function* isNow(run: string, state: TransferPhase): Program<boolean> {
    const now = yield* mark();
    return now?.run === run && now.phase === state;
  }

  function* setMark(next: TransferState | undefined, before: TransferState | undefined): Program<boolean> {
    if ((yield* rows(isMarked)).length === 0) yield* count(makeMark, {});
    const isSeen = { seenRun: before?.run ?? null, seenState: before?.phase ?? null };
    if (!next) return (yield* count(forget, isSeen)) > 0 || (yield* mark()) === undefined;
    const there = yield* mark();
    const set = before
      ? yield* count(replace, { ...next, ...isSeen })
      : there === undefined && (yield* count(first, { ...next }));
    return Number(set) > 0 || (yield* isNow(next.run, next.phase));
  }

  /**
   * In a transaction with the look whether the mark is this run's, and nobody takes it meanwhile: who stood still, and goes
   * on when another run has come, does nothing. Where DDL ends a transaction, `mysql-moving.ts` says why that is enough.
   */
  function* fenced(
    run: string,
    statements: (mark: TransferState, triggers: readonly string[]) => readonly string[],
  ): Program<boolean> {
    const there = triggers ? (yield* rows(triggers)).map(([name]) => String(name)) : [];
    if ((yield* rows(isMarked)).length === 0 || (yield* rows(own, { run })).length === 0) return false;
    const now = yield* mark();
    if (now === undefined) return false;
    yield* each(statements(now, there).map(fixed));
    return true;
  }

  function* advance(run: string, from: TransferPhase, to: TransferPhase): Program<boolean> {
    return (yield* count(step, { run, from, to })) > 0 || (yield* isNow(run, to));
  }

  function* inside(run: string, act: () => Program<unknown>): Program<boolean> {
    if ((yield* count(open, { run })) === 0) return false;
    yield* act();
    yield* count(close, { run });
    return true;
  }

  const write = (
    run: string,
    table: MovedTable,
    given: readonly MovedRow[],
    removed: readonly number[],
  ): Program<boolean> =>
    inside(run, function* () {
      for (const id of removed) yield* count(of[table].remove, { id });
      const { names } = of[table];
      const params = given.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i]])));
      yield* insertedIds(of[table].insert, params);
    });

  /** @throws DatabaseError */
  function* refuseIds(table: MovedTable): Program<void> {
    const [row] = yield* rows(of[table].unsafe);
    const id = String(row?.[0]).trim();
    throw new DatabaseError(
      `${table} ${id}: an id beyond 2^53 cannot be carried over: change or delete it, and move again`,
    );
  }

  function* stamps(table: MovedTable, after: number, limit: number): Program<RowVersion[]> {
    const { stamps: query, versionKinds } = of[table];
    const found = yield* rows(query, { after, limit });
    if (!found.every(([id]) => Number.isSafeInteger(Number(id)))) yield* refuseIds(table);
    return found.map(([id, bytes, isKeyed, ...version]) => ({
      id: Number(id),
      bytes: Number(bytes),
      keyed: Number(isKeyed) === 1,
      version: [Number(bytes), ...version.map((value, i) => carried(versionKinds[i], value))].join("\0"),
    }));
  }

  function* read(table: MovedTable, ids: readonly number[]): Program<MovedRow[]> {
    const { read: query, kinds } = of[table];
    const found = yield* rows(query, { ids: JSON.stringify(ids) });
    return found.map((row) => row.map((value, i) => carried(kinds[i], value)) as unknown as MovedRow);
  }

  function* lastGiven(table: MovedTable): Program<number> {
    const [row] = yield* rows(of[table].given);
    const last = row === undefined ? 0 : d.transfer.toLastId(row);
    // A larger one was given by hand: nobody could tell apart those that followed it.
    return Number.isSafeInteger(last) ? last : 0;
  }

  function* lastId(table: MovedTable): Program<number> {
    const [row] = yield* rows(of[table].highest);
    return Math.max(yield* lastGiven(table), Number(row?.[0] ?? 0));
  }

  return {
    mark,
    setMark,
    advance,
    stamps,
    read,
    write,
    seal: (run: string) => fenced(run, d.transfer.freeze),
    unseal: (run: string) => fenced(run, (_, there) => d.transfer.unfreeze(there)),
    removeKeyed: (run: string) => inside(run, () => count(removeAllKeyed, {})),
    *size(table: MovedTable): Program<number> {
      return Number((yield* rows(of[table].size))[0]?.[0]);
    },
    lastId,
    *setLastId(table: MovedTable, id: number): Program<void> {
      if (id > (yield* lastGiven(table))) yield* each(d.transfer.setLastId(table, id).map(fixed));
    },
  };
}

/** For `doctor`, which a user may run who has no right to the mark. */
export async function transferFactsOf(
  mark: () => Promise<TransferState | undefined>,
  isDenied: (error: unknown) => boolean,
): Promise<Diagnosis[]> {
  try {
    return transferFacts(await mark());
  } catch (error) {
    if (!isDenied((error as Error).cause ?? error)) throw error;
    return [{ name: "move", value: "not visible to this user" }];
  }
}

/** For `doctor`. */
export function transferFacts(mark: TransferState | undefined): Diagnosis[] {
  if (mark === undefined || mark.phase === "filled") return [];
  const fact = { name: "move", value: `${mark.phase}: ${mark.other}` };
  return [mark.phase === "copying" ? fact : { ...fact, warning: mark.refusal }];
}
