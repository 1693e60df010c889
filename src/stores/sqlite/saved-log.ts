/** Saves what a log holds that was deleted while it was open: its connection can still read it, and nothing else can. */
import { renameSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Database } from "better-sqlite3";
import { report, warn } from "../../events.ts";

/** A copy of the database as a connection sees it. */
export interface SavedLog {
  /** The file next to the database. All processes with the same log name the same one, and one of them writes it. */
  file: string;
  /** Resolves when this process has done its part. Never rejects. */
  done: Promise<void>;
}

const beginning = (path: string): string => `${path}.saved-`;

/** Whether a file is such a copy of this database, and complete. */
export const isSavedOf = (path: string, file: string): boolean =>
  file.startsWith(beginning(path)) && !file.endsWith(part);

/** Begins to copy, page by page on the event loop. @returns undefined when the disk has no room for a copy */
export function saveLog(client: Database, path: string, log: bigint): SavedLog | undefined {
  const file = `${beginning(path)}${log}`;
  try {
    if (exists(file)) return { file, done: Promise.resolve() };
    const { bavail, bsize } = statfsSync(dirname(path));
    const pages = Number(client.pragma("page_count", { simple: true }));
    if (bavail * bsize < pages * Number(client.pragma("page_size", { simple: true }))) return undefined;
    return { file, done: copy(client, file) };
  } catch (error) {
    report(error, `saving ${file}`);
    return undefined;
  }
}

const exists = (file: string): boolean => statSync(file, { throwIfNoEntry: false }) !== undefined;

/** The end of the name until a copy is complete. */
const part = ".part";

async function copy(client: Database, file: string): Promise<void> {
  const unfinished = file + part;
  try {
    writeFileSync(unfinished, "", { flag: "wx" });
  } catch {
    // Another process writes it.
    return;
  }
  try {
    await client.backup(unfinished);
    renameSync(unfinished, file);
    warn(`${file} has what the deleted log held: compare it with the database before you delete it`);
  } catch (error) {
    rmSync(unfinished, { force: true });
    report(error, `saving ${file}`);
  }
}
