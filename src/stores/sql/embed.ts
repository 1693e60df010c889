/**
 * Reads what `embedded.ts` of each store exports. Only in the repository: the package has it as text, because an app's
 * bundle has no files beside it.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Migration } from "./migrations.ts";

export const readText = (file: URL): string => readFileSync(file, "utf8");

/** @param folder what drizzle-kit 0.31 wrote: drizzle-orm 1.x reads another layout */
export function readMigrations(folder: URL): readonly Migration[] {
  const { entries } = JSON.parse(readText(new URL(`${folder}/meta/_journal.json`))) as {
    entries: readonly { tag: string; when: number }[];
  };
  return entries.map(({ tag, when }) => {
    const text = readText(new URL(`${folder}/${tag}.sql`));
    const hash = createHash("sha256").update(text).digest("hex");
    return { sql: text.split("--> statement-breakpoint"), folderMillis: when, hash };
  });
}
