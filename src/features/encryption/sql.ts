/** The operations of encryption. `EncryptionStore` in its contract says what they promise. */
import { sql } from "drizzle-orm/sql/sql";
import { kindsOf, listed, parameterFor } from "../../stores/sql/columns.ts";
import type { Dialect, Row } from "../../stores/sql/dialect.ts";
import { count, type Program, type Runner, rows } from "../../stores/sql/program.ts";
import { intOrNull, textOrNull } from "../../stores/sql/rows.ts";
import type { Statement } from "../../stores/sql/statements.ts";
import type { Texts } from "../../stores/sql/texts.ts";
import {
  type ChangeRow,
  type EncryptionStore,
  type SealedRow,
  type SealedTable,
  sealedColumns,
} from "./contract.ts";

/** The settings with fingerprints have names that begin with this. */
const settingPrefix = "encryption key ";

const tables = Object.keys(sealedColumns) as SealedTable[];

/** By which the rows are in order. Rows of one kind of failure have the same values. */
const keyOf = (table: SealedTable) => (table === "dbq_schedules" ? "name" : "id");
const isText = (table: SealedTable) => table === "dbq_schedules" || table === "dbq_failures";

const nameOf = (table: SealedTable) =>
  table === "dbq_failures" ? "id" : "name" in kindsOf[table] ? "name" : "null";

/** Whether the task waits in a chain. */
const awaitsArgument = `(case when status = 'waiting' then
  (select count(*) from dbq_waits where dbq_waits.task_id = dbq_tasks.id and dbq_waits.mode = 'chain') else 0 end)`;

/** Null where a table has no such column. */
function placeColumns(table: SealedTable) {
  const has = (column: string) => column in kindsOf[table];
  const func = has("func")
    ? "func"
    : has("task_id")
      ? `(select func from dbq_tasks where dbq_tasks.id = ${table}.task_id)`
      : "null";
  const taskId = table === "dbq_tasks" ? "id" : has("task_id") ? "task_id" : "null";
  const generationId = has("generation_id") ? "generation_id" : "null";
  return sql.raw(
    [
      `${keyOf(table)} as row_key`,
      `${taskId} as row_task`,
      `${generationId} as row_generation`,
      `${nameOf(table)} as row_name`,
      `${func} as row_func`,
      `${table === "dbq_tasks" ? awaitsArgument : "0"} as row_awaits`,
    ].join(", "),
  );
}
const places = 6;

function statementsFor(d: Dialect, table: SealedTable) {
  const columns = sealedColumns[table];
  const key = keyOf(table);
  const from = sql.raw(table);
  const isBehind = isText(table)
    ? (p: Readonly<Record<string, unknown>>) => sql`${d.bytes(sql.raw(key))} > ${d.bytes(p.after)}`
    : (p: Readonly<Record<string, unknown>>) => sql`id > ${d.integer(p.after)}`;
  const order = isText(table) ? d.bytes(sql.raw(key)) : sql.raw(key);
  return {
    next: (p) => sql`
      select ${placeColumns(table)}, ${listed(d, table, columns)} from ${from}
      where ${isBehind(p)} order by ${order} ${d.atMost(p.limit)} ${d.locked}`,

    write: (p) => sql`
      update ${from} set ${sql.join(
        columns.map((column) => sql`${sql.raw(column)} = ${parameterFor(d, table, column, p[column])}`),
        sql`, `,
      )}
      where ${isText(table) ? d.same(key, p.key) : sql`id = ${d.integer(p.key)}`}`,

    size: () => sql`select count(*) from ${from}`,
  } satisfies Record<string, Statement>;
}

function settingStatements(d: Dialect) {
  return {
    all: () =>
      sql`select name, value from dbq_settings where name like ${sql.raw(`'${settingPrefix}%'`)} order by name`,
    add: (p) => sql`
      insert into dbq_settings (name, value) values (${p.name}, ${p.value}) ${d.keepExisting("value")}`,
    remove: (p) => sql`delete from dbq_settings where ${d.same("name", p.name)}`,
  } satisfies Record<string, Statement>;
}

export class EncryptionOperations {
  readonly #s: ReturnType<typeof settingStatements>;
  readonly #of: Record<SealedTable, ReturnType<typeof statementsFor>>;

  constructor({ dialect }: Texts) {
    this.#s = settingStatements(dialect);
    this.#of = Object.fromEntries(tables.map((table) => [table, statementsFor(dialect, table)])) as Record<
      SealedTable,
      ReturnType<typeof statementsFor>
    >;
  }

  *fingerprints(): Program<Map<string, string>> {
    const found = yield* rows(this.#s.all);
    return new Map(found.map(([name, value]) => [String(name).slice(settingPrefix.length), String(value)]));
  }

  *keepFingerprint(keyId: string, fingerprint: string): Program<string> {
    yield* count(this.#s.add, { name: settingPrefix + keyId, value: fingerprint }, false);
    return (yield* this.fingerprints()).get(keyId) ?? fingerprint;
  }

  *forgetOthers(keyId: string): Program<void> {
    for (const other of (yield* this.fingerprints()).keys())
      if (other !== keyId) yield* count(this.#s.remove, { name: settingPrefix + other }, false);
  }

  *rewrite(
    table: SealedTable,
    after: string | undefined,
    limit: number,
    change: ChangeRow,
  ): Program<{ rows: number; last: string | undefined }> {
    const { next, write } = this.#of[table];
    const first = isText(table) ? "" : "0";
    const found = yield* rows(next, { after: after ?? first, limit });
    for (const row of found) {
      const read = toSealedRow(table, row);
      const changed = change(read);
      if (changed) yield* count(write, { ...read.texts, ...changed, key: row[0] }, false);
    }
    const last = found.length < limit ? undefined : String(found.at(-1)?.[0]);
    return { rows: found.length, last };
  }

  *size(table: SealedTable): Program<number> {
    const [row] = yield* rows(this.#of[table].size);
    return Number(row?.[0]);
  }
}

function toSealedRow(table: SealedTable, row: Row): SealedRow {
  const [, taskId = null, generationId = null, name = null, func = null, awaits] = row;
  const texts = sealedColumns[table].map((column, i) => [column, textOrNull(row[places + i])]);
  return {
    taskId: intOrNull(taskId),
    generationId: intOrNull(generationId),
    name: textOrNull(name),
    func: textOrNull(func),
    awaitsArgument: Number(awaits) > 0,
    texts: Object.fromEntries(texts),
  };
}

export function encryptionMethods({ run, write }: Runner, ops: EncryptionOperations): EncryptionStore {
  return {
    fingerprints: () => run(() => ops.fingerprints()),
    keepFingerprint: (keyId, fingerprint) => run(() => ops.keepFingerprint(keyId, fingerprint)),
    forgetOthers: (keyId) => write(() => ops.forgetOthers(keyId)),
    rewrite: (table, after, limit, change) => write(() => ops.rewrite(table, after, limit, change)),
    size: (table) => run(() => ops.size(table)),
  };
}
