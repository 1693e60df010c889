/**
 * Reads the configuration of an app's drizzle-kit as text. It is not imported: that would run the app's code. So only values
 * that are written as plain strings are known.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Undefined: not there. `"computed"`: there, but no plain strings. */
export type Strings = readonly string[] | "computed" | undefined;

export interface KitConfig {
  /** The name of the file. */
  file: string;
  /** The major version of the drizzle-kit that is installed there; 0 when none is. */
  major: number;
  dialect: Strings;
  /** A driver that has to be named: of a database in another process or service (D1, the Data API of AWS, PGlite). */
  driver: Strings;
  /** Paths and globs of the files that declare the app's tables. */
  schema: Strings;
  tablesFilter: Strings;
  schemaFilter: Strings;
  /** Where drizzle-kit connects to: a URL or path, or the name of a database. */
  url: Strings;
  database: Strings;
}

const names = ["drizzle.config.ts", "drizzle.config.js", "drizzle.config.mjs", "drizzle.config.json"];

/** The configuration that drizzle-kit finds in this folder. */
export function kitConfigIn(folder: string): KitConfig | undefined {
  const file = names.find((name) => existsSync(join(folder, name)));
  if (file === undefined) return undefined;
  const text = withoutComments(readFileSync(join(folder, file), "utf8"))
    // Drizzle's own history has a property `schema` too.
    .replace(/\bmigrations["']?\s*:\s*\{[^}]*\}/g, "");
  const read = (name: string) => stringsOf(text, name);
  return {
    file,
    major: majorIn(folder),
    dialect: read("dialect"),
    driver: read("driver"),
    schema: read("schema"),
    tablesFilter: read("tablesFilter"),
    schemaFilter: read("schemaFilter"),
    url: read("url"),
    database: read("database"),
  };
}

/** Looks for drizzle-kit where Node would. */
function majorIn(folder: string): number {
  const file = join(folder, "node_modules/drizzle-kit/package.json");
  if (existsSync(file))
    return Number.parseInt((JSON.parse(readFileSync(file, "utf8")) as { version: string }).version, 10);
  const above = dirname(folder);
  return above === folder ? 0 : majorIn(above);
}

const plain = [String.raw`"[^"\\\n]*"`, String.raw`'[^'\\\n]*'`, "`[^`$\\\\]*`"].join("|");

/** A path may contain what begins a comment elsewhere: strings are passed over. */
export function withoutComments(text: string): string {
  const parts = new RegExp(String.raw`(${plain})|\/\*[\s\S]*?\*\/|\/\/[^\n]*`, "g");
  return text.replace(parts, (_, string: string | undefined) => string ?? "");
}

function stringsOf(text: string, name: string): Strings {
  const property = String.raw`\b${name}["']?\s*:\s*(?:${plain}|\[(?:\s*(?:${plain})\s*,?)*\s*\])(?=\s*[,}\n])`;
  const [found] = new RegExp(property).exec(text) ?? [];
  if (found === undefined) return new RegExp(String.raw`\b${name}\b`).test(text) ? "computed" : undefined;
  const value = found.slice(found.indexOf(":") + 1);
  return (value.match(new RegExp(plain, "g")) ?? []).map((string) => string.slice(1, -1));
}
