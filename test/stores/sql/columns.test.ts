/** The record of columns and the sets of statuses in `stores/sql/` agree with the three schemas. */
import { getTableColumns, type SQL } from "drizzle-orm";
import { getTableConfig as mysqlConfig } from "drizzle-orm/mysql-core";
import { getTableConfig as postgresConfig } from "drizzle-orm/pg-core";
import { getTableConfig as sqliteConfig } from "drizzle-orm/sqlite-core";
import { describe, expect, expectTypeOf, it } from "vitest";
import * as mysql from "../../../drizzle/mysql.ts";
import * as postgres from "../../../drizzle/postgres.ts";
import * as sqlite from "../../../drizzle/sqlite.ts";
import {
  type ColumnKind,
  columnsOf,
  itemTypeOf,
  kindOf,
  kindsOf,
  type Table,
} from "../../../src/stores/sql/columns.ts";
import { holds, holdsKey } from "../../../src/stores/sql/statuses.ts";

interface Column {
  name: string;
  getSQLType(): string;
  generated?: { type?: string; as?: unknown } | undefined;
}

/** The columns that an insert sets, by their names. */
function columnsIn(table: object): Map<string, Column> {
  const columns = Object.values(getTableColumns(table as never)) as unknown as Column[];
  return new Map(columns.filter(({ generated }) => !generated).map((column) => [column.name, column]));
}

/** The database type of each kind of column. Only Postgres has a separate type for each. */
const types: Record<ColumnKind, { postgres: RegExp; sqlite: RegExp; mysql: RegExp }> = {
  integer: { postgres: /^(bigint|integer)$/, sqlite: /^integer$/, mysql: /^(bigint|int)$/ },
  time: { postgres: /^timestamp with time zone$/, sqlite: /^integer$/, mysql: /^datetime\(3\)$/ },
  real: { postgres: /^double precision$/, sqlite: /^real$/, mysql: /^double$/ },
  json: { postgres: /^json$/, sqlite: /^text$/, mysql: /^longtext/ },
  text: { postgres: /^text$/, sqlite: /^text$/, mysql: /^(varchar|varbinary|longtext)/ },
};

const schemas = [
  { dialect: "postgres", schema: postgres },
  { dialect: "postgres", schema: postgres.dbqTables("jobs") },
  { dialect: "sqlite", schema: sqlite },
  { dialect: "mysql", schema: mysql },
] as const;

describe.each(schemas)("the record of columns and the schema of $dialect", ({ dialect, schema }) => {
  const tables = {
    dbq_tasks: schema.dbqTasks,
    dbq_attempts: schema.dbqAttempts,
    dbq_task_logs: schema.dbqTaskLogs,
    dbq_workers: schema.dbqWorkers,
    dbq_agents: schema.dbqAgents,
    dbq_settings: schema.dbqSettings,
    dbq_drains: schema.dbqDrains,
    dbq_schedules: schema.dbqSchedules,
    dbq_limits: schema.dbqLimits,
    dbq_audit: schema.dbqAudit,
    dbq_owed_hooks: schema.dbqOwedHooks,
    dbq_stats: schema.dbqStats,
    dbq_failures: schema.dbqFailures,
    dbq_steps: schema.dbqSteps,
    dbq_events: schema.dbqEvents,
    dbq_waits: schema.dbqWaits,
    dbq_causes: schema.dbqCauses,
  } satisfies Record<Table, object>;

  it.each(Object.keys(kindsOf) as Table[])("%s has the same columns of the same types", (table) => {
    const columns = columnsIn(tables[table]);
    expect([...columns.keys()].sort()).toEqual([...columnsOf(table)].sort());
    for (const [name, column] of columns)
      expect(column.getSQLType(), name).toMatch(types[kindOf(table, name)][dialect]);
  });
});

it("the tables in a schema of Postgres have their rows' types and indexes, and the name of the schema", () => {
  const { dbqTables, ...inNone } = postgres;
  const { dbqSchema, ...jobs } = dbqTables("jobs");
  expect(dbqSchema.schemaName).toBe("jobs");
  expectTypeOf<typeof jobs.dbqTasks.$inferSelect>().toEqualTypeOf<typeof postgres.dbqTasks.$inferSelect>();
  expectTypeOf<typeof jobs.dbqTasks.$inferInsert>().toEqualTypeOf<typeof postgres.dbqTasks.$inferInsert>();
  for (const [name, table] of Object.entries(jobs)) {
    const [own, plain] = [postgresConfig(table), postgresConfig(inNone[name as keyof typeof jobs])];
    expect([own.schema, plain.schema]).toEqual(["jobs", undefined]);
    expect(own.indexes.map(({ config }) => config.name)).toEqual(
      plain.indexes.map(({ config }) => config.name),
    );
  }
});

it("a parameter of a batch has the type of its column, and a time is a number", () => {
  const expected = { id: "integer", generationId: "integer", startedAt: "integer", progress: "real" };
  for (const [name, type] of Object.entries({ ...expected, result: "text", errorName: "text", note: "text" }))
    expect(itemTypeOf(name), name).toBe(type);
  expect([itemTypeOf("delay"), itemTypeOf("charge")]).toEqual(["integer", "integer"]);
});

it("a column that a table does not have is a TypeError", () => {
  expect(() => kindOf("dbq_tasks", "tenant")).toThrow(new TypeError("dbq_tasks has no column tenant"));
});

const textOf = (query: unknown): string =>
  (query as SQL).queryChunks
    .map((chunk) => [(chunk as { value: string | string[] }).value].flat().join(""))
    .join("");

describe("the unique index covers exactly the tasks of which dbq says that they hold their key", () => {
  const isUnique = ({ config }: { config: { name?: string } }) => config.name === "dbq_tasks_unique";

  it.each([
    ["Postgres", () => postgresConfig(postgres.dbqTasks).indexes.find(isUnique)],
    ["SQLite", () => sqliteConfig(sqlite.dbqTasks).indexes.find(isUnique)],
  ])("on %s by its condition", (_, index) => {
    expect(textOf((index() as { config: { where?: unknown } }).config.where)).toBe(holdsKey);
  });

  it("on MySQL by its generated column", () => {
    const held = mysqlConfig(mysql.dbqTasks).columns.find(({ name }) => name === "taken_key");
    expect(textOf(held?.generated?.as)).toBe(
      `(case when ${holds.slice(1, -1).replaceAll(/status(?= )|unique_until/g, "`$&`")} then cast(\`unique_key\` as binary) end)`,
    );
  });
});
