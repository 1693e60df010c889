/**
 * Reads what `embedded.ts` of each store exports. Only in the repository: the package has it as text, because an app's
 * bundle has no files beside it.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readMigrationFiles } from "drizzle-orm/migrator";
import type { Migration } from "./migrations.ts";

export const readText = (file: URL): string => readFileSync(file, "utf8");

/** @param folder what drizzle-kit wrote */
export function readMigrations(folder: URL): readonly Migration[] {
  return readMigrationFiles({ migrationsFolder: fileURLToPath(folder) });
}
