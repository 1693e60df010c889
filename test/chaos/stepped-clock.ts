/** Steps the time of day of running processes with libfaketime. Their steady clock is not affected. */
import { existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { StartOptions } from "../fixtures/harness.ts";

/** Where Debian's package installs it, in a folder for each architecture. */
function libraryPath(): string | undefined {
  const root = "/usr/lib";
  if (!existsSync(root)) return undefined;
  return readdirSync(root)
    .map((name) => join(root, name, "faketime/libfaketimeMT.so.1"))
    .find((path) => existsSync(path));
}

/** Why no clock can be stepped here; undefined when it can. */
export const noClock = (): string | undefined =>
  libraryPath() === undefined ? "it needs libfaketime: apt-get install faketime" : undefined;

/** The clock of one process, or of several. */
export class SteppedClock {
  readonly #file: string;
  /** Milliseconds ahead of the host's clock. */
  #offset = 0;

  constructor(folder: string, name: string) {
    mkdirSync(folder, { recursive: true });
    this.#file = join(folder, name);
    this.step(0);
  }

  get offset(): number {
    return this.#offset;
  }

  /** How to start a process that uses this clock. */
  get how(): StartOptions {
    const env = {
      LD_PRELOAD: libraryPath(),
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
      NO_FAKE_STAT: "1",
    };
    return { env };
  }

  /** Replaces the file at once: a process reads it whenever it asks for the time. */
  step(offset: number): void {
    this.#offset = offset;
    const next = `${this.#file}.next`;
    writeFileSync(next, `${offset < 0 ? "-" : "+"}${Math.abs(offset) / 1_000}\n`);
    renameSync(next, this.#file);
  }
}
