/** Facts about a SQLite database, and what is wrong with them. */
import { statfsSync, statSync } from "node:fs";
import type { Database } from "better-sqlite3";
import type { Diagnosis } from "../../store.ts";
import { sqliteVersion } from "./open.ts";

/** `f_type` of file systems (linux/magic.h). On the network ones SQLite's locks, and so a queue, do not work. */
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

export function diagnoseSqlite(client: Database): Diagnosis[] {
  const journal = String(client.pragma("journal_mode", { simple: true }));
  const synchronous = synchronousNames[Number(client.pragma("synchronous", { simple: true }))] ?? "unknown";
  const facts: Diagnosis[] = [
    { name: "SQLite", value: sqliteVersion(client) },
    { name: "database", value: client.name === "" ? ":memory:" : client.name },
    {
      name: "journal mode",
      value: journal,
      ...warn(journal === "delete", "readers and writers block each other: pragma journal_mode = wal"),
    },
    {
      name: "synchronous",
      value: synchronous,
      ...warn(synchronous !== "full" && synchronous !== "extra", "a power cut can undo the last commits"),
    },
  ];
  return client.memory ? facts : [...facts, ...fileFacts(client.name)];
}

function fileFacts(path: string): Diagnosis[] {
  const wal = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const type = statfsSync(path).type;
  const network = networkFileSystems[type];
  return [
    { name: "size", value: statSync(path).size },
    {
      name: "WAL size",
      value: wal,
      ...warn(wal > largeWal, "it is not being checkpointed: is there a reader that never ends?"),
    },
    {
      name: "file system",
      value: network ?? fileSystems[type] ?? `0x${type.toString(16)}`,
      ...warn(
        network !== undefined,
        "SQLite's locks do not work over a network: move the file to a local disk",
      ),
    },
  ];
}

function warn(wrong: boolean, warning: string): { warning?: string } {
  return wrong ? { warning } : {};
}
