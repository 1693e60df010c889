/** Shows progress on stderr: a bar on a terminal, elsewhere a line from time to time. Stdout is for the summary alone. */
import { SingleBar } from "cli-progress";
import type { Queue } from "../src/index.ts";

/** Milliseconds between two polls of the database. */
const pollEvery = 100;

/** Milliseconds between lines without a terminal. */
const lineEvery = 2_000;

export interface Display {
  show(ended: number, note: string): void;
  close(): void;
}

/** Shows how many tasks of `requestId` have finished, until `stop`. */
export class Progress {
  readonly #queue: Queue;
  readonly #requestId: string;
  readonly #display: Display;
  readonly #timer: NodeJS.Timeout;
  #note = "";
  #polling = false;
  #stopped = false;

  constructor(queue: Queue, requestId: string, total: number) {
    this.#queue = queue;
    this.#requestId = requestId;
    this.#display = display(total, " tasks");
    this.#timer = setInterval(() => this.#poll(), pollEvery);
  }

  /** Shows a note beside the progress. */
  note(text: string): void {
    this.#note = text;
    void this.#poll();
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#timer);
    this.#display.close();
  }

  async #poll(): Promise<void> {
    if (this.#polling) return;
    this.#polling = true;
    try {
      const { completed, failed, cancelled } = await this.#queue.countTasks({ requestId: this.#requestId });
      if (!this.#stopped) this.#display.show(completed + failed + cancelled, this.#note);
    } catch {
      // The next poll may succeed. If the database fails for good, the await of the last task rejects.
    } finally {
      this.#polling = false;
    }
  }
}

/** @param unit what is counted, with a space before it */
export function display(total: number, unit: string): Display {
  return process.stderr.isTTY ? bar(total, unit) : lines(total, unit);
}

function bar(total: number, unit: string): Display {
  const format = `{bar} {value}/{total}${unit}  {note}`;
  const shown = new SingleBar({ format, barCompleteChar: "█", barIncompleteChar: "░", gracefulExit: false });
  shown.start(total, 0, { note: "" });
  return { show: (ended, note) => shown.update(ended, { note }), close: () => shown.stop() };
}

function lines(total: number, unit: string): Display {
  let lastNote = "";
  let next = performance.now() + lineEvery;
  return {
    show(ended, note) {
      const noted = note !== lastNote;
      if (!noted && performance.now() < next) return;
      lastNote = note;
      next = performance.now() + lineEvery;
      console.error(`${ended}/${total}${unit}${noted ? `: ${note}` : ""}`);
    },
    close: () => undefined,
  };
}
