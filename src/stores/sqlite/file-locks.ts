/**
 * Whether this process still holds SQLite's lock on a database file. When any code of a process closes a descriptor of the
 * file (`fs.readFile`, `fs.copyFile`), the system drops all locks that the process has on it (sqlite.org/howtocorrupt.html,
 * 2.2). The next connection elsewhere that closes then takes itself for the last one: it copies the log into the file and
 * deletes the log. A commit that comes during these milliseconds finds the log still in its place, and is lost with it.
 */
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from "node:fs";

const descriptors = "/proc/self/fd";

/** Bytes of a descriptor's facts: they end with its locks. */
const buffer = Buffer.alloc(1_024);

/** On Linux. Elsewhere a process cannot ask for its own locks. */
export class FileLocks {
  /** Open for as long as this is: reading it again takes 3 µs. */
  readonly #facts: number;
  /** The file as the system writes it, such as `fe:00:2164732`. */
  readonly #file: string;
  #areLost = false;

  private constructor(facts: number, file: string) {
    this.#facts = facts;
    this.#file = file;
  }

  /** @returns undefined where this process has no lock on the file, or cannot know */
  static of(path: string): FileLocks | undefined {
    for (const descriptor of listed(descriptors)) {
      if (linkOf(`${descriptors}/${descriptor}`) !== path) continue;
      const facts = `/proc/self/fdinfo/${descriptor}`;
      const [, file] = /^lock:.*POSIX .* ([0-9a-f]+:[0-9a-f]+:\d+) /m.exec(text(facts)) ?? [];
      if (file !== undefined) return FileLocks.#open(facts, file);
    }
    return undefined;
  }

  static #open(facts: string, file: string): FileLocks | undefined {
    const locks = new FileLocks(openSync(facts, "r"), file);
    if (locks.has(String(process.pid))) return locks;
    // The system does not show locks.
    locks.close();
    return undefined;
  }

  /** Whether the locks were lost, now or before: SQLite never takes them again. */
  areLost(): boolean {
    this.#areLost ||= !this.#isHeld();
    return this.#areLost;
  }

  /** Whether another process has the file for itself, as it does while it deletes the log. */
  isTaken(): boolean {
    return this.#all().some((line) => line.includes(" WRITE "));
  }

  /** Whether a process has a lock on the file. */
  has(pid: string): boolean {
    return this.#all().some((line) => line.includes(` ${pid} `));
  }

  close(): void {
    closeSync(this.#facts);
  }

  #isHeld(): boolean {
    try {
      const length = readSync(this.#facts, buffer, 0, buffer.length, 0);
      if (buffer.subarray(0, length).includes("lock:")) return true;
    } catch {
      // The descriptor is closed.
    }
    // Another descriptor of this process may have the lock.
    return this.has(String(process.pid));
  }

  #all(): string[] {
    const lines = text("/proc/locks").split("\n");
    return lines.filter((line) => line.includes(` ${this.#file} `));
  }
}

function listed(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    // Another system, or another user's process.
    return [];
  }
}

function text(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // There is no such file any more, or the system hides it.
    return "";
  }
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    // It was closed meanwhile.
    return undefined;
  }
}

/**
 * The processes of this host that have a deleted log of this file open, and those that have its log open and no lock on the
 * file. On Linux only, and of this user.
 * @param locks on the file, where they are known
 */
export function holdersOf(
  path: string,
  locks: FileLocks | undefined,
): { deleted: string[]; unlocked: string[] } {
  const opened = listed("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => ({
      pid,
      files: listed(`/proc/${pid}/fd`).map((each) => linkOf(`/proc/${pid}/fd/${each}`)),
    }));
  const holding = (file: string) => opened.filter(({ files }) => files.includes(file)).map(({ pid }) => pid);
  return {
    deleted: holding(`${path}-wal (deleted)`),
    unlocked: locks ? holding(`${path}-wal`).filter((pid) => !locks.has(pid)) : [],
  };
}
