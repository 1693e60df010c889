/** For `dbq doctor`: what `drizzle-kit push` would do to dbq's tables, as far as the text of its configuration shows. */
import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { Diagnosis } from "../../index.ts";
import { type KitConfig, kitConfigIn, type Strings } from "./kit-config.ts";
import { globPattern, schemaFilesHaveTables } from "./kit-schema-files.ts";

/** The dialects of drizzle-kit, by the name of the fact that has the database's version. */
const dialects: Readonly<Record<string, readonly string[]>> = {
  SQLite: ["sqlite"],
  Postgres: ["postgresql"],
  MySQL: ["mysql"],
  MariaDB: ["mysql"],
};

const tables = ["tasks", "attempts", "task_logs", "workers", "migrations", "move"].map(
  (name) => `dbq_${name}`,
);

/**
 * Undefined when the folder has no configuration of drizzle-kit, or one for another database. What cannot be known without
 * running it is no problem: doctor then says so.
 * @param database the facts about the queue's database
 */
export function drizzleKitFact(folder: string, database: readonly Diagnosis[]): Diagnosis | undefined {
  const config = kitConfigIn(folder);
  const kind = database.find(({ name }) => Object.hasOwn(dialects, name))?.name ?? "";
  if (config === undefined || !isFor(config, kind, folder, factOf(database, "database"))) return undefined;
  const schema = kind === "Postgres" ? factOf(database, "schema") : undefined;
  const finding =
    (schema === undefined ? undefined : findingOfSchema(config, schema)) ??
    findingOfTables(config, folder, schema);
  return { name: "drizzle-kit", ...finding };
}

type Finding = Omit<Diagnosis, "name">;

const factOf = (facts: readonly Diagnosis[], name: string): string =>
  String(facts.find((fact) => fact.name === name)?.value);

const unknown = ({ file }: KitConfig, property: string): Finding => ({
  value: `${file} (its ${property} is not known without running it)`,
});

// ---- is it about this database? --------------------------------------------------------------

function isFor(config: KitConfig, kind: string, folder: string, database: string): boolean {
  const { dialect, driver, url, database: named } = config;
  if (driver !== undefined) return false;
  if (!plainOf(dialect).some((name) => dialects[kind]?.includes(name))) return false;
  if (kind === "SQLite")
    return plainOf(url).every((path) => isSameFile(resolve(folder, pathOf(path)), database));
  const all = [...plainOf(url).map(databaseIn), ...plainOf(named)];
  return all.every((name) => name === undefined || name === database);
}

const plainOf = (strings: Strings): readonly string[] =>
  strings === undefined || strings === "computed" ? [] : strings;

const pathOf = (url: string) => url.replace(/^(?:file|sqlite):(?:\/\/(?=\/))?/, "");

function isSameFile(path: string, other: string): boolean {
  try {
    return realpathSync(path) === realpathSync(other);
  } catch {
    return false;
  }
}

function databaseIn(url: string): string | undefined {
  const name = URL.canParse(url) ? new URL(url).pathname.slice(1) : "";
  return name === "" ? undefined : decodeURIComponent(name);
}

// ---- what would push do? ---------------------------------------------------------------------

/** Push compares the schemas of its filter, and no others. Without a filter: `public` before drizzle-kit 1.0, all since. */
function findingOfSchema(config: KitConfig, schema: string): Finding | undefined {
  const { file, major, schemaFilter = major === 0 ? ["public"] : [] } = config;
  if (schemaFilter === "computed") return unknown(config, "schemaFilter");
  const isCompared = major === 0 ? schemaFilter.includes(schema) : isSeen(schema, schemaFilter);
  return isCompared ? undefined : { value: `${file} (does not look at the schema ${schema})` };
}

/** @param schema that of the tables on Postgres; elsewhere undefined */
function findingOfTables(config: KitConfig, folder: string, schema: string | undefined): Finding {
  const { file, major, tablesFilter = [] } = config;
  if (tablesFilter === "computed") return unknown(config, "tablesFilter");
  const areHidden = !tables.some((table) => isSeen(table, tablesFilter));
  // Since 1.0 push drops a schema that it compares and that is not declared, whatever becomes of its tables.
  const isDropped = major > 0 && schema !== undefined && schema !== "public";
  if (areHidden && !isDropped) {
    const value = `${file} (its tablesFilter leaves dbq's tables out)`;
    return schema !== undefined && major === 0 ? { value, warning: failing } : { value };
  }
  const areDeclared = Array.isArray(config.schema) ? schemaFilesHaveTables(folder, config.schema) : undefined;
  if (areDeclared === undefined) return unknown(config, "schema");
  if (areDeclared) return { value: `${file} (has dbq's tables in its schema)` };
  return { value: file, warning: dropping(file, remedyFor(major, schema)) };
}

function remedyFor(major: number, schema: string | undefined): string {
  if (schema === undefined || (major > 0 && schema === "public")) return 'add tablesFilter: ["!dbq_*"] to it';
  return major === 0 ? ownSchema : `add schemaFilter: [${JSON.stringify(`!${schema}`)}] to it`;
}

/** The rule of drizzle-kit: the patterns that say something about a table must all include it. */
function isSeen(table: string, patterns: readonly string[]): boolean {
  const said = patterns.flatMap((pattern) => {
    const isNegated = pattern.startsWith("!");
    const matches = globPattern(pattern.replace(/^!/, "")).test(table);
    if (isNegated) return [!matches];
    return matches ? [true] : [];
  });
  return patterns.length === 0 || (said.length > 0 && said.every(Boolean));
}

const ownSchema = `give dbq a schema of its own: openQueue(url, { schema: "dbq" }), and DBQ_URL with ?schema=dbq`;

const failing = `"drizzle-kit push" fails on Postgres with this tablesFilter, since it does not hide the sequences of dbq's tables: ${ownSchema}`;

const dropping = (file: string, remedy: string) =>
  `"drizzle-kit push" would drop dbq's tables with all tasks, since ${file} neither hides nor declares them: ${remedy}`;
