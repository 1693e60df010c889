/** Passes the stderr of a child on to the stderr of this process, and keeps its last 8 KiB for errors. */
import type { Readable } from "node:stream";

/** Bytes. */
const kept = 8_192;

/** The streams that wait until this process's stderr takes more. */
const waiting = new Set<Readable>();

function resumeWhenDrained(stream: Readable): void {
  if (waiting.size === 0)
    process.stderr.once("drain", () => {
      for (const each of waiting) each.resume();
      waiting.clear();
    });
  waiting.add(stream);
}

export class StderrTail {
  #tail: Buffer = Buffer.alloc(0);

  /** Reads no faster than this process's stderr accepts it, so that a child's output does not fill the memory. */
  constructor(stderr: Readable) {
    stderr.on("data", (chunk: Buffer) => {
      this.#tail = Buffer.concat([this.#tail, chunk.subarray(-kept)]).subarray(-kept);
      if (process.stderr.write(chunk)) return;
      stderr.pause();
      resumeWhenDrained(stderr);
    });
    stderr.on("error", () => undefined);
  }

  clear(): void {
    this.#tail = Buffer.alloc(0);
  }

  /** The last 8 KiB, from the first whole character on. */
  get text(): string {
    let from = 0;
    while (this.#tail.length === kept && from < 4 && ((this.#tail[from] ?? 0) & 0xc0) === 0x80) from += 1;
    return this.#tail.subarray(from).toString("utf8");
  }
}
