/** How far something is, on stderr: a bar for whoever watches, a line now and then elsewhere. */
import { jsonNote, note } from "./output.ts";

/** Milliseconds. */
const every = { bar: 100, line: 2_000 };
const width = 30;

export interface Standing {
  /** What is under way; another text is another bar. */
  label: string;
  done: number;
  total: number;
}

export class ProgressBar {
  readonly #asJson: boolean;
  readonly #unit: string;
  readonly #live: boolean;
  #label: string | undefined;
  #began = 0;
  #told = 0;
  #drawn = false;

  constructor(unit: string, asJson: boolean) {
    this.#unit = unit;
    this.#asJson = asJson;
    this.#live = !asJson && process.stderr.isTTY === true;
  }

  show(standing: Standing): void {
    const now = performance.now();
    if (standing.label !== this.#label) {
      this.#label = standing.label;
      this.#began = now;
      this.#told = this.#live ? 0 : now;
    }
    const isLast = this.#live && standing.done >= standing.total;
    if (!isLast && now - this.#told < (this.#live ? every.bar : every.line)) return;
    this.#told = now;
    this.#tell(standing, now);
  }

  #tell({ label, done, total }: Standing, now: number): void {
    const perSecond = Math.round(done / Math.max(0.001, (now - this.#began) / 1_000));
    if (this.#asJson) {
      jsonNote({ time: new Date(), event: "progress", label, done, total, perSecond });
      return;
    }
    const told = `${label}: ${done} of ${total} ${this.#unit}, ${perSecond} a second`;
    if (!this.#live) {
      note(told);
      return;
    }
    this.#drawn = true;
    process.stderr.write(`\r\x1b[K${barOf(total === 0 ? 1 : done / total)} ${told}`);
  }

  /** Leaves nothing of the bar. */
  stop(): void {
    if (this.#drawn) process.stderr.write("\r\x1b[K");
    this.#drawn = false;
  }
}

function barOf(part: number): string {
  const full = Math.floor(Math.min(1, part) * width);
  return `${"█".repeat(full)}${"░".repeat(width - full)} ${String(Math.floor(Math.min(1, part) * 100)).padStart(3)} %`;
}
