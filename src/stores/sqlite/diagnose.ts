/** Facts about a SQLite database, and what is wrong with them. */
import { readdirSync, statfsSync, statSync } from "node:fs";
import { basename, dirname } from "node:path";
import type { Database } from "better-sqlite3";
import type { Diagnosis } from "../../store.ts";
import { fact } from "../sql/diagnosis.ts";
import { hardLinks } from "./file-identity.ts";
import { type FileLocks, holdersOf } from "./file-locks.ts";
import { sqliteVersion } from "./open.ts";
import { isSavedOf } from "./saved-log.ts";

/** `f_type` of file systems (linux/magic.h). SQLite's locks, and so a queue, do not work over a network. */
const fileSystems: Readonly<Record<number, string>> = {
  61267: "ext4",
  1481003842: "xfs",
  2435016766: "btrfs",
  16914836: "tmpfs",
  2035054128: "overlay",
  801189825: "zfs",
};
const networkFileSystems: Readonly<Record<number, string>> = {
  26985: "nfs",
  4283649346: "cifs",
  4266872130: "smb2",
  20859: "smb",
  16914839: "9p",
  1702057286: "fuse",
};

const synchronousNames = ["off", "normal", "full", "extra"];

/** Bytes; a WAL that stays above this is not being checkpointed. */
const largeWal = 256 * 1_048_576;

/**
 * @param path of the file, without links; undefined: the database is in memory
 * @param locks on the file, where they are known
 */
export function diagnoseSqlite(
  client: Database,
  path: string | undefined,
  locks: FileLocks | undefined,
): Diagnosis[] {
  const journal = String(client.pragma("journal_mode", { simple: true }));
  const synchronous = synchronousNames[Number(client.pragma("synchronous", { simple: true }))] ?? "unknown";
  const isDurable = synchronous === "full" || synchronous === "extra";
  const facts = [
    fact("SQLite", sqliteVersion(client)),
    fact("database", client.name === "" ? ":memory:" : client.name),
    fact(
      "journal mode",
      journal,
      journal === "delete",
      "readers and writers block each other: pragma journal_mode = wal",
    ),
  ];
  // Each connection has its own setting: that of one that only reads says nothing about those that write.
  if (!client.readonly)
    facts.push(fact("synchronous", synchronous, !isDurable, "a power cut can undo the last commits"));
  return path === undefined ? facts : [...facts, ...fileFacts(path), ...logFacts(path, locks)];
}

/** What happened to logs under the connections that wrote to them. */
function logFacts(path: string, locks: FileLocks | undefined): Diagnosis[] {
  const { deleted, unlocked } = holdersOf(path, locks);
  const saved = readdirSync(dirname(path)).filter((name) => isSavedOf(basename(path), name));
  const facts = [
    {
      name: "deleted log",
      found: deleted,
      warning:
        "these processes have a log open that was deleted, so what they write is lost, and dbq refuses it: restart them",
    },
    {
      name: "lost locks",
      found: unlocked,
      warning:
        "these processes have opened and closed the file by themselves, which dropped SQLite's locks, so the next program that closes the file deletes their log: restart them, and copy the file with vacuum into",
    },
    {
      name: "saved log",
      found: saved,
      warning: "these copies have what a deleted log held: compare them with the database, then delete them",
    },
  ];
  return facts
    .filter(({ found }) => found.length > 0)
    .map(({ name, found, warning }) => fact(name, found.join(", "), true, warning));
}

function fileFacts(path: string): Diagnosis[] {
  const wal = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const type = statfsSync(path).type;
  const network = networkFileSystems[type];
  const { size, nlink } = statSync(path);
  return [
    fact("size", size),
    ...(nlink > 1 ? [fact("hard links", nlink, true, hardLinks)] : []),
    fact("WAL size", wal, wal > largeWal, "it is not being checkpointed: is there a reader that never ends?"),
    fact(
      "file system",
      network ?? fileSystems[type] ?? `0x${type.toString(16)}`,
      network !== undefined,
      "SQLite's locks do not work over a network: move the file to a local disk",
    ),
  ];
}
