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
  const finding =
    (kind === "Postgres" ? findingOfSchema(config, factOf(database, "schema")) : undefined) ??
    findingOfTables(config, folder, kind);
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

/** Push compares the schemas of its filter, and no others. */
function findingOfSchema(config: KitConfig, schema: string): Finding | undefined {
  const { file, schemaFilter = ["public"] } = config;
  if (schemaFilter === "computed") return unknown(config, "schemaFilter");
  return schemaFilter.includes(schema)
    ? undefined
    : { value: `${file} (does not look at the schema ${schema})` };
}

function findingOfTables(config: KitConfig, folder: string, kind: string): Finding {
  const { file, schema, tablesFilter = [] } = config;
  if (tablesFilter === "computed") return unknown(config, "tablesFilter");
  if (!tables.some((table) => isSeen(table, tablesFilter))) {
    const value = `${file} (its tablesFilter leaves dbq's tables out)`;
    return kind === "Postgres" ? { value, warning: failing } : { value };
  }
  const areDeclared = Array.isArray(schema) ? schemaFilesHaveTables(folder, schema) : undefined;
  if (areDeclared === undefined) return unknown(config, "schema");
  if (areDeclared) return { value: `${file} (has dbq's tables in its schema)` };
  return { value: file, warning: dropping(file, kind) };
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

const dropping = (file: string, kind: string) =>
  `"drizzle-kit push" would drop dbq's tables with all tasks, since ${file} neither hides nor declares them: ${kind === "Postgres" ? ownSchema : 'add tablesFilter: ["!dbq_*"] to it'}`;
