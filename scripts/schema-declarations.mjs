/**
 * The declarations of `dbq-ts/schema/*`. The compiler would write the column types of the Drizzle that the build has, which have other
 * names and parameters in another major version. These are made of what Drizzle's own functions return in the app's version.
 */
import { getTableColumns, getTableName, is, Table } from "drizzle-orm";

/** The module of Drizzle, and its function that makes a table. @type {Readonly<Record<string, [string, string]>>} */
const dialects = {
  sqlite: ["drizzle-orm/sqlite-core", "sqliteTable"],
  postgres: ["drizzle-orm/pg-core", "pgTable"],
  mysql: ["drizzle-orm/mysql-core", "mysqlTable"],
};

/** What a query returns for a column. @type {Readonly<Record<string, string>>} */
const data = { string: "string", number: "number", date: "Date", json: "unknown", custom: "string" };

const builders = `type Column<Data> = ReturnType<ReturnType<typeof customType<{ data: Data }>>>;
type NotNull<Builder> = Builder extends { notNull(): infer Changed } ? Changed : never;
type Default<Builder> = Builder extends { default(value: never): infer Changed } ? Changed : never;
type Key<Builder> = Builder extends { primaryKey(): infer Changed } ? Changed : never;
type Generated<Builder> = Builder extends { generatedAlwaysAs(as: never): infer Changed } ? Changed : never;
`;

/**
 * @param {string} dialect
 * @param {Readonly<Record<string, unknown>>} exported what the schema's module exports
 * @param {string} written the compiler's declarations, whose comments are kept
 */
export function schemaDeclarations(dialect, exported, written) {
  const [module = "", make = ""] = dialects[dialect] ?? [];
  const tables = Object.entries(exported).flatMap(([name, value]) =>
    is(value, Table) ? [{ name, value }] : [],
  );
  const names = [make, "customType", ...(dialect === "postgres" ? ["type PgTableFn", "pgSchema"] : [])];
  const columns = tables.map(({ name, value }) => `type ${columnsOf(name)} = ${columnTypes(value)};\n`);
  const declared = tables.map(
    ({ name, value }) =>
      `${commentOf(name, written)}export declare const ${name}: ${tableType(make, name, value)};\n`,
  );
  const imports = `import { ${names.join(", ")} } from "${module}";\n`;
  const inSchema = dialect === "postgres" ? tablesInSchema(tables, commentOf("dbqTables", written)) : "";
  return [imports, builders, ...columns, ...declared, inSchema, "export {};\n"].join("");
}

/** @param {string} name */
const columnsOf = (name) => `${name[0]?.toUpperCase()}${name.slice(1)}Columns`;

/**
 * @param {string} make
 * @param {string} name
 * @param {Table} table
 */
const tableType = (make, name, table) =>
  `ReturnType<typeof ${make}<"${getTableName(table)}", ${columnsOf(name)}>>`;

/** @param {Table} table */
function columnTypes(table) {
  const lines = Object.entries(getTableColumns(table)).map(
    ([key, column]) => `  ${key}: ${builderOf(column)};\n`,
  );
  return `{\n${lines.join("")}}`;
}

/** @param {import("drizzle-orm").Column} column */
function builderOf({ name, dataType, primary, notNull, hasDefault, generated }) {
  // Drizzle 1.x says "number int53" and "object date" where 0.x says "number" and "date".
  const type = dataType.split(" ").flatMap((word) => data[word] ?? [])[0];
  if (type === undefined) throw new TypeError(`the column ${name} has the unknown type ${dataType}`);
  let builder = `Column<${type}>`;
  if (primary) builder = `Key<${builder}>`;
  else if (notNull) builder = `NotNull<${builder}>`;
  if (hasDefault) builder = `Default<${builder}>`;
  return generated ? `Generated<${builder}>` : builder;
}

/**
 * The function of tables in a schema of their own. A class, since only there a type can name a function by `this`.
 * @param {readonly { name: string, value: Table }[]} tables
 * @param {string} comment
 */
function tablesInSchema(tables, comment) {
  const lines = tables.map(({ name, value }) => `  ${name}: ${tableType("this.table", name, value)};\n`);
  return `declare class TablesIn<S extends string> {
  private readonly table: PgTableFn<S>;
  dbqSchema: ReturnType<typeof pgSchema<S>>;
${lines.join("")}}
${comment}export declare function dbqTables<S extends string>(schema: S): TablesIn<S>;
`;
}

/**
 * @param {string} name
 * @param {string} written
 */
function commentOf(name, written) {
  const before = new RegExp(
    String.raw`\/\*\*(?:(?!\*\/)[\s\S])*\*\/\s*(?=export declare (?:const|function) ${name}\b)`,
  );
  return before.exec(written)?.[0] ?? "";
}
