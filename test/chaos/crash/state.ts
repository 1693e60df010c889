/** The content of a database, to be compared with another's row by row. */
import { existsSync } from "node:fs";
import Database from "better-sqlite3";

export type Row = Readonly<Record<string, unknown>>;

/** The rows of each table and the schema; empty when there is no file. */
export type State = Readonly<Record<string, readonly Row[]>>;

/** Columns that hold a time or a process, and differ between two runs. `tat`: the state of a rate. */
const differs = /_at$|^(wait_until|deadline|pid|process_start|tat)$/;

/**
 * The checker judges the audit; it says more than this comparison, and its times differ. Statistics are written when their
 * time comes, whatever else happens.
 */
export const isOfTheChecker = (table: string): boolean =>
  ["audit", "audit_workers", "dbq_stats", "dbq_failures"].includes(table);

export function stateOf(database: string): State {
  if (!existsSync(database)) return {};
  const client = new Database(database, { timeout: 60_000, fileMustExist: true });
  try {
    return tablesOf(client);
  } finally {
    client.close();
  }
}

function tablesOf(client: Database.Database): State {
  const all = (text: string) => client.prepare<[], Row>(text).all();
  const schema = all("select type, name, sql from sqlite_master order by name");
  const names = schema.filter(({ type }) => type === "table").map(({ name }) => String(name));
  const tables = names
    .filter((name) => !isOfTheChecker(name))
    .map((name) => [name, all(`select * from "${name}" order by rowid`).map(comparable)] as const);
  return {
    ...Object.fromEntries(tables),
    schema,
    journal: all("pragma journal_mode"),
    integrity: all("pragma integrity_check"),
  };
}

/** Replaces times by whether there is one, and a worker's id (host:pid:name) by its name. */
export function comparable(row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      if (differs.test(name) && value !== null) return [name, "some"];
      return [name, typeof value === "string" ? value.replace(/:\d+:/g, ":pid:") : value];
    }),
  );
}

/** Whether another connection holds the write lock. */
export function isLocked(database: string): boolean {
  const client = new Database(database, { timeout: 0, fileMustExist: true });
  try {
    client.exec("begin immediate; rollback");
    return false;
  } catch (error) {
    if ((error as { code?: string }).code !== "SQLITE_BUSY") throw error;
    return true;
  } finally {
    client.close();
  }
}

export const isSame = (a: State, b: State) => JSON.stringify(a) === JSON.stringify(b);

/** The rows that only one of the two states has, in words. */
export function difference(found: State, expected: State): string {
  const lines = [...new Set([...Object.keys(found), ...Object.keys(expected)])].flatMap((table) => {
    const [has, should] = [found, expected].map((state) =>
      (state[table] ?? []).map((row) => JSON.stringify(row)),
    ) as [string[], string[]];
    return [
      ...has.filter((row) => !should.includes(row)).map((row) => `${table} has ${row}`),
      ...should.filter((row) => !has.includes(row)).map((row) => `${table} lacks ${row}`),
    ];
  });
  return lines.join("\n");
}
