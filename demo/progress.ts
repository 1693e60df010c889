/** How far it is: a bar on a terminal, a line now and then elsewhere. Standard output stays free for the summary. */
import { SingleBar } from "cli-progress";
import type { Queue } from "../src/index.ts";

/** Milliseconds between looks at the database. */
const lookEvery = 100;

/** Milliseconds between lines where there is no terminal. */
const lineEvery = 2_000;

interface Display {
  show(ended: number, note: string): void;
  close(): void;
}

/** Shows how many of the tasks with `requestId` have ended, until it is stopped. */
export class Progress {
  readonly #queue: Queue;
  readonly #requestId: string;
  readonly #display: Display;
  readonly #timer: NodeJS.Timeout;
  #note = "";
  #looking = false;
  #stopped = false;

  constructor(queue: Queue, requestId: string, total: number) {
    this.#queue = queue;
    this.#requestId = requestId;
    this.#display = process.stderr.isTTY ? bar(total) : lines(total);
    this.#timer = setInterval(() => this.#look(), lookEvery);
  }

  /** Says what has just happened. */
  note(text: string): void {
    this.#note = text;
    void this.#look();
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#timer);
    this.#display.close();
  }

  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      const { completed, failed, cancelled } = await this.#queue.countTasks({ requestId: this.#requestId });
      if (!this.#stopped) this.#display.show(completed + failed + cancelled, this.#note);
    } catch {
      // The next look may succeed; whoever awaits the tasks hears of a database that is broken.
    } finally {
      this.#looking = false;
    }
  }
}

function bar(total: number): Display {
  const format = "{bar} {value}/{total} tasks  {note}";
  const shown = new SingleBar({ format, barCompleteChar: "█", barIncompleteChar: "░", gracefulExit: false });
  shown.start(total, 0, { note: "" });
  return { show: (ended, note) => shown.update(ended, { note }), close: () => shown.stop() };
}

function lines(total: number): Display {
  let lastNote = "";
  let next = performance.now() + lineEvery;
  return {
    show(ended, note) {
      const noted = note !== lastNote;
      if (!noted && performance.now() < next) return;
      lastNote = note;
      next = performance.now() + lineEvery;
      console.error(`${ended}/${total} tasks${noted ? `: ${note}` : ""}`);
    },
    close: () => undefined,
  };
}
