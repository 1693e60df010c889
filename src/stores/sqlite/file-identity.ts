/**
 * Notices when a connection's file or its write-ahead log is no longer the one at its path. SQLite goes on writing to a file
 * that was deleted or renamed, and a process that opens the path again never sees those writes.
 */
import { accessSync, type BigIntStats, statSync } from "node:fs";
import type { Database } from "better-sqlite3";
import { performance } from "../../base/runtime/timers.ts";
import { DatabaseMovedError, LogMovedError } from "../../errors.ts";
import { warn } from "../../events.ts";
import type { FileLocks } from "./file-locks.ts";
import { LogHeader } from "./log-header.ts";
import { saveLog } from "./saved-log.ts";

/** Milliseconds between looks at the file, its log and its locks, which take 20 µs: before an operation, and after a commit. */
const lookEvery = { operation: 100, commit: 5 };

/**
 * Milliseconds between looks at the index of the log, before an operation: without it, a connection writes over what others have
 * committed since then. That takes 3 µs.
 */
const indexLookEvery = 5;

/**
 * Milliseconds after a commit in which it is enough that there is a log: that takes 1 µs, its identity 3, and an enqueue 25. No
 * other program is so quick as to delete the log and begin another one between the two commits.
 */
const glanceFor = 0.25;

type File = BigIntStats | undefined;

/** Says why a file must not have several names, and what to do about it. */
export const hardLinks =
  'a process that opens it by another hard link has a log of its own, and each writes over what the other commits. Delete the other names, and copy the file with "vacuum into"';

/** Those of open queues, by path. */
const shared = new Map<string, FileIdentity>();

/** Those whose log is lost. */
const lost = new Set<FileIdentity>();

/**
 * Call before a connection opens. It would share the memory of the lost log with the process's other connections to the file,
 * and mix up two logs. @throws LogMovedError when such a connection is still open
 */
export function refuseLost(path: string): void {
  for (const identity of lost) identity.refuse(path);
}

export class FileIdentity {
  readonly #clients: readonly [Database, ...Database[]];
  readonly path: string;
  readonly #logPath: string;
  readonly #file: File;
  /** The log that the connection writes to; undefined while there is none. */
  #log: File;
  /** Of the log, once a queue is open: it is closed with the queue. */
  #header: LogHeader | undefined;
  #isShared = false;
  readonly #indexPath: string;
  /** The index of the log, which all connections of all processes share. */
  readonly #index: File;
  #locks: FileLocks | undefined;
  #areLocksLost = false;
  #hasOtherNames = false;
  readonly #moved: DatabaseMovedError;
  #isThere = true;
  /** For good: others may have written without this log since then. */
  #lost: LogMovedError | undefined;
  #lastLook = 0;
  #lastGlance = 0;
  #lastIndexLook = 0;
  #saved: Promise<void> | undefined;

  /**
   * @param path of the file
   * @param clients connections that have just read from it, so that their log is open
   * @param locks of this process on the file
   */
  constructor(path: string, clients: readonly [Database, ...Database[]], locks?: FileLocks) {
    this.path = path;
    this.#logPath = `${path}-wal`;
    this.#indexPath = `${path}-shm`;
    this.#clients = clients;
    this.#locks = locks;
    this.#file = fileAt(path);
    this.#log = fileAt(this.#logPath);
    this.#index = fileAt(this.#indexPath);
    this.#moved = new DatabaseMovedError(path);
  }

  /** What a queue knows of this file: transactions of the app look at the same. */
  static shared(path: string): FileIdentity | undefined {
    return shared.get(path);
  }

  share(): this {
    if (!shared.has(this.path)) shared.set(this.path, this);
    this.#isShared = true;
    this.#lookAtNames(this.#file);
    return this;
  }

  get inodes(): { file: bigint | undefined; log: bigint | undefined } {
    return { file: this.#file?.ino, log: this.#log?.ino };
  }

  /** Of this process on the file, where they are known. */
  get locks(): FileLocks | undefined {
    return this.#locks;
  }

  /** Call before an operation. @throws DatabaseMovedError, the same object each time, while another file or none is at the path */
  check(): void {
    const now = performance.now();
    if (now - this.#lastLook >= lookEvery.operation) this.#look();
    else if (now - this.#lastIndexLook >= indexLookEvery) this.#lookAtIndex();
    this.#throwWhenMoved();
  }

  /** Call after a commit, before the caller hears of it. @throws DatabaseMovedError as `check`: the commit is in no file at the path */
  verify(): void {
    const now = performance.now();
    const sinceGlance = now - this.#lastGlance;
    this.#lastGlance = now;
    if (now - this.#lastLook >= lookEvery.commit) this.#look();
    else if (sinceGlance >= glanceFor || !this.#hasLog()) this.#lookAtLog();
    this.#throwWhenMoved();
  }

  /** @throws LogMovedError when a connection with the lost log has this file open */
  refuse(path: string): void {
    if (!this.#clients.some((client) => client.open)) lost.delete(this);
    else if (this.#lost && isSame(fileAt(path), this.#file)) throw this.#lost;
  }

  /** Resolves when what a lost log holds is saved: the connection has to stay open until then. */
  async close(): Promise<void> {
    if (shared.get(this.path) === this) shared.delete(this.path);
    this.#locks?.close();
    this.#locks = undefined;
    this.#isShared = false;
    this.#header?.close();
    this.#header = undefined;
    await this.#saved;
  }

  /** Whether some log is at the path. False when that says nothing. */
  #hasLog(): boolean {
    if (this.#areLocksLost || this.#lost || this.#log === undefined) return false;
    try {
      accessSync(this.#logPath);
      return true;
    } catch {
      return false;
    }
  }

  #throwWhenMoved(): void {
    if (this.#lost) throw this.#lost;
    if (!this.#isThere) throw this.#moved;
  }

  #look(): void {
    this.#lastLook = performance.now();
    const file = fileAt(this.path, this.#file);
    this.#isThere = isSame(file, this.#file);
    if (!this.#isThere) return;
    this.#lookAtNames(file);
    if (!this.#areLocksLost && this.#locks?.areLost()) this.#onLocksLost();
    this.#lookAtLog();
  }

  #lookAtLog(): void {
    if (this.#lost) return;
    // In this order: what had the file for itself, and has it no more, has deleted the log before.
    const isTaken = this.#areLocksLost && this.#locks?.isTaken();
    const log = fileAt(this.#logPath, this.#log);
    if (isSame(log, this.#log) && !isTaken) {
      if (this.#hasHeader()) this.#lookAtIndex();
      else this.#onEmptied();
    } else if (this.#log === undefined) this.#log = log;
    else if (isSame(fileAt(this.path, this.#file), this.#file)) this.#lose();
    else this.#isThere = false;
  }

  /** Whether the log has the beginning that SQLite gives it, as far as that is known. */
  #hasHeader(): boolean {
    if (!this.#isShared || this.#log === undefined) return true;
    this.#header ??= LogHeader.of(this.#logPath, this.#log.ino);
    return this.#header?.isLost() !== true;
  }

  /** Another program has emptied the log: the commits that stood in it cannot be read any more. */
  #onEmptied(): void {
    this.#lost = LogMovedError.emptied(this.path);
    lost.add(this);
  }

  /** Who opens the file after its index was deleted makes another one, and does not know what this one's connections write. */
  #lookAtIndex(): void {
    this.#lastIndexLook = performance.now();
    if (this.#lost || this.#index === undefined) return;
    if (isSame(fileAt(this.#indexPath, this.#index), this.#index)) return;
    if (isSame(fileAt(this.path, this.#file), this.#file)) this.#lose();
    else this.#isThere = false;
  }

  /** The log is beside the name by which a process opens the file: another hard link has another log. */
  #lookAtNames(file: File): void {
    const names = Number(file?.nlink ?? 1);
    if (names > 1 && !this.#hasOtherNames && this.#isShared)
      warn(`${this.path}: the file has ${names} names: ${hardLinks} (docs/databases.md, Backing up a file)`, {
        path: this.path,
      });
    this.#hasOtherNames = names > 1;
  }

  #onLocksLost(): void {
    this.#areLocksLost = true;
    warn(
      `${this.path}: this process has opened and closed the file by itself (fs.readFile, fs.copyFile), which drops SQLite's locks: another process may now delete the log that this one writes to. Restart this process, and copy the file with "vacuum into" (docs/databases.md, Backing up a file)`,
      { path: this.path },
    );
  }

  #lose(): void {
    const saved = saveLog(this.#clients[0], this.path, this.#log?.ino ?? 0n);
    this.#lost = new LogMovedError(this.path, saved?.file);
    this.#saved = saved?.done;
    lost.add(this);
  }
}

/** The file at a path. `known` when the system does not say: it is not known to have moved. */
function fileAt(path: string, known?: File): File {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false });
  } catch {
    return known;
  }
}

const isSame = (one: File, other: File): boolean => one?.ino === other?.ino && one?.dev === other?.dev;
