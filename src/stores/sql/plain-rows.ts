/** Rows as plain values, which can be written to another database. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { type ColumnKind, columnsOf, kindOf, type Table } from "./columns.ts";
import type { Dialect } from "./dialect.ts";

/** A value as a plain value; undefined when it cannot be copied exactly. */
export function plain(kind: ColumnKind | undefined, value: unknown): string | number | null | undefined {
  if (value === null) return null;
  if (kind === "json" || kind === "text") return typeof value === "string" ? value : undefined;
  const number = Number(value);
  if (kind === "real") return number;
  const whole = kind === "time" ? Math.round(number) : number;
  return Number.isSafeInteger(whole) ? whole : undefined;
}

/** The length of the texts of a row, but for some columns. */
export function textLength(d: Dialect, table: Table, except: readonly string[] = []): SQL {
  const lengths = columnsOf(table)
    .filter((column) => !except.includes(column))
    .flatMap((column) => {
      const kind = kindOf(table, column);
      const value = kind === "json" ? d.text(sql.raw(column)) : sql.raw(column);
      return kind === "json" || kind === "text" ? [sql`coalesce(octet_length(${value}), 0)`] : [];
    });
  return sql.join(lengths, sql` + `);
}
