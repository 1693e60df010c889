/** A screen of the terminal that is drawn again and again, until a key or a signal ends it; then the terminal is as before. */
import { outputClosed } from "./output.ts";

/** Escape sequences of xterm's alternate screen: what was on the terminal before comes back at the end. */
const enter = "\x1b[?1049h\x1b[?25l";
const leave = "\x1b[?25h\x1b[?1049l";
const home = "\x1b[H";
const clearLine = "\x1b[K";
const clearBelow = "\x1b[J";

/** q, and Ctrl-C, Ctrl-D: in raw mode a terminal sends no signal for them. */
const endKeys = ["q", "Q", "\x03", "\x04"];

const endSignals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export class Terminal {
  readonly #screen: (size: { columns: number; rows: number }) => readonly string[];
  readonly #ended = new AbortController();
  #isOpen = false;

  /** @param screen the lines of the screen: no more than `rows`, and none wider than `columns` */
  constructor(screen: (size: { columns: number; rows: number }) => readonly string[]) {
    this.#screen = screen;
  }

  open(): void {
    this.#isOpen = true;
    process.stdout.write(enter);
    if (process.stdin.isTTY) {
      process.stdin.setRawMode(true);
      process.stdin.on("data", this.#onKeys);
    }
    process.stdout.on("resize", this.draw);
    for (const signal of endSignals) process.on(signal, this.#end);
    process.once("exit", this.close);
    this.draw();
  }

  readonly draw = (): void => {
    if (!this.#isOpen || outputClosed()) return;
    // A terminal that does not tell its size has none of 0.
    const { columns, rows } = process.stdout;
    const lines = this.#screen({ columns: columns || 80, rows: rows || 24 });
    process.stdout.write(home + lines.map((line) => line + clearLine).join("\r\n") + clearBelow);
  };

  /** Whether it goes on after this time; false at once when a key or a signal ends it. */
  async waited(ms: number): Promise<boolean> {
    const { signal } = this.#ended;
    await new Promise<void>((resolve) => {
      if (signal.aborted) return resolve();
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal.addEventListener("abort", done);
    });
    return !signal.aborted && !outputClosed();
  }

  readonly close = (): void => {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    process.stdout.off("resize", this.draw);
    for (const signal of endSignals) process.off(signal, this.#end);
    process.off("exit", this.close);
    if (process.stdin.isTTY) {
      process.stdin.off("data", this.#onKeys);
      process.stdin.setRawMode(false);
      process.stdin.pause();
    }
    process.stdout.write(leave);
  };

  readonly #end = (): void => this.#ended.abort();

  readonly #onKeys = (keys: Buffer): void => {
    const typed = keys.toString("latin1");
    if (endKeys.some((key) => typed.includes(key))) this.#end();
  };
}
