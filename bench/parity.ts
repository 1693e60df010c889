/** Checks before a measurement that the floor's settings equal dbq's: otherwise it would not be a floor. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openQueue } from "dbq-ts";
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import type { Synchronous } from "./benchmark.ts";
import { openRaw } from "./raw-sqlite.ts";

/** All settings that affect speed or durability. */
const settings = [
  ...["journal_mode", "synchronous", "wal_autocheckpoint", "journal_size_limit", "busy_timeout"],
  ...["cache_size", "cache_spill", "mmap_size", "page_size", "temp_store", "locking_mode", "auto_vacuum"],
  ...["foreign_keys", "secure_delete", "fullfsync", "checkpoint_fullfsync"],
];

type Settings = Record<string, unknown>;

/** @throws Error that names the differences */
export async function checkParity(synchronous: Synchronous): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "dbq-bench-"));
  try {
    const ours = await settingsOfDbq(join(folder, "dbq.db"), synchronous);
    const raw = settingsOfFloor(join(folder, "floor.db"), synchronous);
    const different = settings.filter((name) => ours[name] === undefined || ours[name] !== raw[name]);
    const list = different.map((name) => `${name} is ${raw[name]}, and ${ours[name]} of dbq`);
    if (list.length > 0) throw new Error(`the floor does not have dbq's settings: ${list.join("; ")}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Read in a transaction, which runs on the queue's own connection. */
async function settingsOfDbq(path: string, synchronous: Synchronous): Promise<Settings> {
  await using queue = await openQueue(path, { synchronous });
  return await queue.transaction((tx: BetterSQLite3Database) =>
    Object.fromEntries(settings.map((name) => [name, tx.values(`pragma ${name}`)[0]?.[0]])),
  );
}

function settingsOfFloor(path: string, synchronous: Synchronous): Settings {
  const db = openRaw(path, synchronous);
  try {
    return Object.fromEntries(settings.map((name) => [name, db.pragma(name, { simple: true })]));
  } finally {
    db.close();
  }
}
