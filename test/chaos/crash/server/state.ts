/** The content of a database on a server, to be compared with another's row by row. */
import { backendOf, openRaw } from "../../backends/backend.ts";
import { comparable, isOfTheChecker, type Row, type State } from "../state.ts";

/** The rows of each table. */
export async function stateOf(database: string): Promise<State> {
  await using raw = await openRaw(database);
  const tables = await raw.all<{ name: string }>(
    `select table_name as name from information_schema.tables
      where table_schema = '${backendOf(database).nameOf(database)}' order by table_name`,
  );
  const state: Record<string, readonly Row[]> = {};
  for (const { name } of tables)
    if (!isOfTheChecker(name)) {
      const rows = (await raw.all<Row>(`select * from ${name}`)).map(asNamed);
      state[name] = inOrder(name === "dbq_attempts" ? numbered(rows) : rows);
    }
  return state;
}

/** Numbers the attempts of each task. Attempts of several tasks that were freed together have no order among them. */
function numbered(attempts: readonly Row[]): Row[] {
  const counts = new Map<unknown, number>();
  return [...attempts]
    .sort((a, b) => Number(a.id) - Number(b.id))
    .map((attempt) => {
      const number = (counts.get(attempt.task_id) ?? 0) + 1;
      counts.set(attempt.task_id, number);
      return { ...attempt, id: number };
    });
}

/** Renames the columns back to their names in the database. */
function asNamed(row: Row): Row {
  const entries = Object.entries(row).map(([name, value]) => [snakeOf(name), value] as const);
  return comparable(Object.fromEntries(entries));
}

const snakeOf = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** A table has no order of its own. */
function inOrder(rows: readonly Row[]): Row[] {
  const sorted = rows.map((row) => ({ row, text: JSON.stringify(row) }));
  return sorted.sort((a, b) => (a.text < b.text ? -1 : 1)).map(({ row }) => row);
}
