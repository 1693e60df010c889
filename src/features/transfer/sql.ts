/** The operations of `dbq move`, each written once for all databases. `TransferStore` in `store.ts` says what they promise. */
import { sql } from "drizzle-orm/sql/sql";
import { DatabaseError } from "../../errors.ts";
import type { Diagnosis } from "../../store.ts";
import { type ColumnOf, columnsOf, fieldOf, kindOf, listed, parameterFor } from "../../stores/sql/columns.ts";
import type { Dialect, Params } from "../../stores/sql/dialect.ts";
import { plain, textLength } from "../../stores/sql/plain-rows.ts";
import { count, insertedIds, type Program, type Runner, rows } from "../../stores/sql/program.ts";
import type { Statement } from "../../stores/sql/statements.ts";
import { holdsKey } from "../../stores/sql/statuses.ts";
import type { Texts } from "../../stores/sql/texts.ts";
import type { AgentRecord } from "../manager/contract.ts";
import type { ScheduleRecord } from "../schedules/contract.ts";
import {
  type MovedRow,
  type MovedTable,
  movedTables,
  type RowVersion,
  type TransferPhase,
  type TransferState,
  type TransferStore,
} from "./contract.ts";

/** The columns that a row's version has; of all other texts it has the length. Comparing all columns takes twice as long. */
const versions: { readonly [T in MovedTable]: readonly ColumnOf<T>[] } = {
  // biome-ignore format: a list to read, not a column of names
  dbq_tasks: ["generation_id", "status", "updated_at", "func", "queue_name", "priority", "max_retries", "retry_count",
    "wait_until", "timeout", "fill_defaults"],
  dbq_attempts: ["task_id", "generation_id"],
  dbq_task_logs: ["task_id", "generation_id", "at"],
  dbq_owed_hooks: ["task_id", "tries"],
  dbq_steps: ["task_id", "seq", "undo_state"],
  dbq_events: ["emitted_at"],
  dbq_waits: ["task_id", "deadline"],
};

const largest = String(Number.MAX_SAFE_INTEGER);

function tableStatements(d: Dialect, table: MovedTable) {
  const [name, columns] = [sql.raw(table), columnsOf(table)];
  const isKeyed = sql.raw(table === "dbq_tasks" ? `case when ${holdsKey} then 1 else 0 end` : "0");
  const into = sql.raw(`insert into ${table} (${columns.join(", ")})`);
  const values = (p: Params) =>
    sql.join(
      columns.map((column) => parameterFor(d, table, column, p[column])),
      sql`, `,
    );
  return {
    rowVersions: (p) => sql`
      select id, ${textLength(d, table, versions[table])}, ${isKeyed}, ${listed(d, table, versions[table])} from ${name}
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
  } satisfies Record<string, Statement>;
}

/** Agents and schedules have names instead of ids, and are few. */
function namedStatements(d: Dialect, table: "dbq_agents" | "dbq_schedules") {
  const columns = columnsOf(table) as readonly string[];
  const values = (p: Params) =>
    sql.join(
      columns.map((column) => parameterFor(d, table, column, p[column])),
      sql`, `,
    );
  return {
    remove: (p) => sql`delete from ${sql.raw(table)} where ${d.same("name", p.name)}`,
    add: (p) => sql`insert into ${sql.raw(table)} (${sql.raw(columns.join(", "))}) values (${values(p)})`,
  } satisfies Record<string, Statement>;
}

/** An agent by the names of its columns. */
const agentRow = (agent: AgentRecord): Record<ColumnOf<"dbq_agents">, unknown> => ({
  name: agent.name,
  token_hash: agent.tokenHash,
  funcs: JSON.stringify(agent.funcs),
  queues: JSON.stringify(agent.queues),
  created_at: agent.createdAt,
  last_seen_at: agent.lastSeenAt,
  expires_at: agent.expiresAt,
  revoked_at: agent.revokedAt,
});

const fixed = (text: string): Statement => {
  const query = sql.raw(text);
  return () => query;
};

/** Only a write inside of the same transaction sees the bypass open. */
const setBypass = (open: 0 | 1): Statement => {
  return (p) => sql`
      update dbq_move set door = ${sql.raw(String(open))} where run = ${p.run} and state = 'filling'`;
};

/** The row of `dbq_move` as it was when it was read. */
const expected = (p: Params) => sql`run = ${p.expectedRun} and state = ${p.expectedPhase}`;

/** About the state of the move. */
function stateStatements(d: Dialect) {
  return {
    hasTable: fixed(d.transfer.hasTable),
    makeTable: fixed(d.transfer.makeTable),
    read: fixed("select move_id, run, state, other, refusal from dbq_move"),
    triggers: d.transfer.triggers === undefined ? undefined : fixed(d.transfer.triggers),
    insert: (p: Params) => sql`
    insert into dbq_move (only_one, move_id, run, state, other, refusal, door)
    values (1, ${p.moveId}, ${p.run}, ${p.phase}, ${p.other}, ${p.refusal}, 0)`,
    replace: (p: Params) => sql`
    update dbq_move set move_id = ${p.moveId}, run = ${p.run}, state = ${p.phase}, other = ${p.other},
      refusal = ${p.refusal}, door = 0 where ${expected(p)}`,
    remove: (p: Params) => sql`delete from dbq_move where ${expected(p)}`,
    advance: (p: Params) => sql`
    update dbq_move set state = ${p.to} where run = ${p.run} and state = ${p.from}`,
    openBypass: setBypass(1),
    closeBypass: setBypass(0),
    lockOwn: (p: Params) => sql`select 1 from dbq_move where run = ${p.run} ${d.locked}`,
    removeKeyed: fixed(`delete from dbq_tasks where ${holdsKey}`),
  } satisfies Record<string, Statement | undefined>;
}

export class TransferOperations {
  readonly #d: Dialect;
  readonly #of: Record<MovedTable, ReturnType<typeof tableStatements>>;
  readonly #s: ReturnType<typeof stateStatements>;
  readonly #agents: ReturnType<typeof namedStatements>;
  readonly #schedules: ReturnType<typeof namedStatements>;

  constructor({ dialect }: Texts) {
    this.#d = dialect;
    const of = (table: MovedTable) => tableStatements(dialect, table);
    this.#of = Object.fromEntries(movedTables.map((table) => [table, of(table)])) as Record<
      MovedTable,
      ReturnType<typeof tableStatements>
    >;
    this.#s = stateStatements(dialect);
    this.#agents = namedStatements(dialect, "dbq_agents");
    this.#schedules = namedStatements(dialect, "dbq_schedules");
  }

  // ---- the state of the move -----------------------------------------------------------------

  *state(): Program<TransferState | undefined> {
    if ((yield* rows(this.#s.hasTable)).length === 0) return undefined;
    const [row] = yield* rows(this.#s.read);
    if (!row) return undefined;
    const [moveId, run, phase, other, refusal] = row as string[];
    return { moveId, run, phase: phase as TransferPhase, other, refusal } as TransferState;
  }

  /** True too when it was done before: the call may be a repetition. */
  *#isNow(run: string, phase: TransferPhase): Program<boolean> {
    const now = yield* this.state();
    return now?.run === run && now.phase === phase;
  }

  *setState(next: TransferState | undefined, before: TransferState | undefined): Program<boolean> {
    if ((yield* rows(this.#s.hasTable)).length === 0) yield* count(this.#s.makeTable, {});
    const was = { expectedRun: before?.run ?? null, expectedPhase: before?.phase ?? null };
    if (!next) return (yield* count(this.#s.remove, was)) > 0 || (yield* this.state()) === undefined;
    const now = yield* this.state();
    const set = before
      ? yield* count(this.#s.replace, { ...next, ...was })
      : now === undefined && (yield* count(this.#s.insert, { ...next }));
    return Number(set) > 0 || (yield* this.#isNow(next.run, next.phase));
  }

  *advance(run: string, from: TransferPhase, to: TransferPhase): Program<boolean> {
    return (yield* count(this.#s.advance, { run, from, to })) > 0 || (yield* this.#isNow(run, to));
  }

  // ---- freeze --------------------------------------------------------------------------------

  freeze(run: string): Program<boolean> {
    return this.#fenced(run, this.#d.transfer.freeze);
  }

  unfreeze(run: string): Program<boolean> {
    return this.#fenced(run, (_, triggers) => this.#d.transfer.unfreeze(triggers));
  }

  /**
   * Runs statements while the state's row is locked and belongs to this run. A run that stood still while another one took
   * over changes nothing. Where DDL commits a transaction, `mysql/transfer.ts` says why that is enough.
   */
  *#fenced(
    run: string,
    statements: (state: TransferState, triggers: readonly string[]) => readonly string[],
  ): Program<boolean> {
    const triggers = this.#s.triggers ? (yield* rows(this.#s.triggers)).map(([name]) => String(name)) : [];
    if ((yield* rows(this.#s.hasTable)).length === 0) return false;
    if ((yield* rows(this.#s.lockOwn, { run })).length === 0) return false;
    const now = yield* this.state();
    if (now === undefined) return false;
    yield* this.#each(statements(now, triggers));
    return true;
  }

  *#each(texts: readonly string[]): Program<void> {
    for (const text of texts) yield* count(fixed(text), {});
  }

  /** Writes although the database is frozen, when this run fills it. */
  *#bypass(run: string, act: () => Program<unknown>): Program<boolean> {
    if ((yield* count(this.#s.openBypass, { run })) === 0) return false;
    yield* act();
    yield* count(this.#s.closeBypass, { run });
    return true;
  }

  // ---- rows ----------------------------------------------------------------------------------

  write(
    run: string,
    table: MovedTable,
    moved: readonly MovedRow[],
    removed: readonly number[],
  ): Program<boolean> {
    const { insert, remove } = this.#of[table];
    return this.#bypass(run, function* () {
      for (const id of removed) yield* count(remove, { id });
      const columns = columnsOf(table);
      const params = moved.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
      yield* insertedIds(insert, params);
    });
  }

  writeAgents(run: string, agents: readonly AgentRecord[]): Program<boolean> {
    return this.#writeNamed(run, this.#agents, agents.map(agentRow));
  }

  writeSchedules(run: string, schedules: readonly ScheduleRecord[]): Program<boolean> {
    const columns = columnsOf("dbq_schedules").map((column) => [column, fieldOf(column)] as const);
    const row = (schedule: ScheduleRecord) =>
      Object.fromEntries(columns.map(([column, key]) => [column, schedule[key as keyof ScheduleRecord]]));
    return this.#writeNamed(run, this.#schedules, schedules.map(row));
  }

  #writeNamed(
    run: string,
    { remove, add }: ReturnType<typeof namedStatements>,
    named: readonly Params[],
  ): Program<boolean> {
    return this.#bypass(run, function* () {
      for (const row of named) {
        yield* count(remove, { name: row.name });
        yield* count(add, row);
      }
    });
  }

  removeKeyed(run: string): Program<boolean> {
    return this.#bypass(run, () => count(this.#s.removeKeyed, {}));
  }

  *rowVersions(table: MovedTable, after: number, limit: number): Program<RowVersion[]> {
    const kinds = versions[table].map((column) => kindOf(table, column));
    const found = yield* rows(this.#of[table].rowVersions, { after, limit });
    if (!found.every(([id]) => Number.isSafeInteger(Number(id)))) yield* this.#refuseIds(table);
    return found.map(([id, bytes, isKeyed, ...version]) => ({
      id: Number(id),
      bytes: Number(bytes),
      keyed: Number(isKeyed) === 1,
      version: [Number(bytes), ...version.map((value, i) => plain(kinds[i], value))].join("\0"),
    }));
  }

  /** @throws DatabaseError */
  *#refuseIds(table: MovedTable): Program<void> {
    const [row] = yield* rows(this.#of[table].unsafe);
    const id = String(row?.[0]).trim();
    throw new DatabaseError(
      `${table} ${id}: an id beyond 2^53 cannot be carried over: change or delete it, and move again`,
    );
  }

  *read(table: MovedTable, ids: readonly number[]): Program<MovedRow[]> {
    const kinds = columnsOf(table).map((column) => kindOf(table, column));
    const found = yield* rows(this.#of[table].read, { ids: JSON.stringify(ids) });
    return found.map((row) => row.map((value, i) => plain(kinds[i], value)) as unknown as MovedRow);
  }

  *size(table: MovedTable): Program<number> {
    return Number((yield* rows(this.#of[table].size))[0]?.[0]);
  }

  // ---- ids -----------------------------------------------------------------------------------

  *#lastGiven(table: MovedTable): Program<number> {
    const [row] = yield* rows(this.#of[table].given);
    const last = row === undefined ? 0 : this.#d.transfer.toLastId(row);
    // A larger id was inserted by hand: the ids that followed it could not be told apart.
    return Number.isSafeInteger(last) ? last : 0;
  }

  *lastId(table: MovedTable): Program<number> {
    const [row] = yield* rows(this.#of[table].highest);
    return Math.max(yield* this.#lastGiven(table), Number(row?.[0] ?? 0));
  }

  *setLastId(table: MovedTable, id: number): Program<void> {
    if (id > (yield* this.#lastGiven(table))) yield* this.#each(this.#d.transfer.setLastId(table, id));
  }
}

/** For `dbq doctor`. */
export function transferFacts(state: TransferState | undefined): Diagnosis[] {
  if (state === undefined || state.phase === "filled") return [];
  const fact = { name: "move", value: `${state.phase}: ${state.other}` };
  return [state.phase === "copying" ? fact : { ...fact, warning: state.refusal }];
}

export function transferMethods({ run, write }: Runner, ops: TransferOperations): TransferStore {
  return {
    state: () => run(() => ops.state()),
    setState: (next, expected) => write(() => ops.setState(next, expected)),
    advance: (id, from, to) => write(() => ops.advance(id, from, to)),
    freeze: (id) => write(() => ops.freeze(id)),
    unfreeze: (id) => write(() => ops.unfreeze(id)),
    rowVersions: (table, after, limit) => run(() => ops.rowVersions(table, after, limit)),
    read: (table, ids) => run(() => ops.read(table, ids)),
    write: (id, table, rows, removed) => write(() => ops.write(id, table, rows, removed)),
    writeAgents: (id, agents) => write(() => ops.writeAgents(id, agents)),
    writeSchedules: (id, schedules) => write(() => ops.writeSchedules(id, schedules)),
    removeKeyedTasks: (id) => write(() => ops.removeKeyed(id)),
    size: (table) => run(() => ops.size(table)),
    lastId: (table) => run(() => ops.lastId(table)),
    setLastId: (table, id) => write(() => ops.setLastId(table, id)),
  };
}
