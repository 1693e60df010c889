/** A file system of a few MiB in memory, to be filled and freed. */
import { execFileSync } from "node:child_process";
import { closeSync, cpSync, mkdirSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class SmallDisk {
  readonly folder: string;
  readonly #filler: string;

  /** @param size bytes */
  constructor(folder: string, size: number) {
    mkdirSync(folder);
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", folder]);
    this.folder = folder;
    this.#filler = join(folder, "filler");
  }

  /** Why it cannot be mounted here; undefined when it can. */
  static unable(): string | undefined {
    if (process.getuid?.() !== 0) return "it needs root to mount a small file system";
    const parent = mkdtempSync(join(tmpdir(), "dbq-disk-"));
    try {
      new SmallDisk(join(parent, "disk"), 65_536).unmount();
      return undefined;
    } catch (error) {
      return `no small file system can be mounted: ${String(error)}`;
    } finally {
      rmSync(parent, { recursive: true, force: true });
    }
  }

  get free(): number {
    const { bavail, bsize } = statfsSync(this.folder);
    return bavail * bsize;
  }

  /** Takes all free space but this many bytes. */
  fill(left: number): void {
    const file = openSync(this.#filler, "a");
    const block = Buffer.alloc(4_096);
    try {
      while (this.free > left) writeSync(file, block);
    } catch (error) {
      // Other processes have written too, and the disk is full.
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    } finally {
      closeSync(file);
    }
  }

  clear(): void {
    rmSync(this.#filler, { force: true });
  }

  /** Copies its content to a folder that is kept. */
  save(folder: string): void {
    cpSync(this.folder, folder, { recursive: true });
  }

  unmount(): void {
    execFileSync("umount", ["--lazy", this.folder]);
  }
}
