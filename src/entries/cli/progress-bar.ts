/**
 * Shows progress on stderr: a bar on a terminal, elsewhere a line from time to time. A package such as cli-progress would
 * bring five more packages into each app that installs dbq.
 */
import { jsonNote, note } from "./output.ts";
import { fitted } from "./text.ts";

/** Milliseconds between updates. */
const interval = { bar: 100, line: 2_000 };
const barWidth = 30;

export interface ProgressState {
  /** A new label begins a new bar. */
  label: string;
  done: number;
  total: number;
}

export class ProgressBar {
  readonly #asJson: boolean;
  readonly #unit: string;
  readonly #live: boolean;
  #label: string | undefined;
  #startedAt = 0;
  #updatedAt = 0;
  #isDrawn = false;

  constructor(unit: string, asJson: boolean) {
    this.#unit = unit;
    this.#asJson = asJson;
    this.#live = !asJson && process.stderr.isTTY === true;
  }

  show(state: ProgressState): void {
    const now = performance.now();
    if (state.label !== this.#label) {
      this.#label = state.label;
      this.#startedAt = now;
      this.#updatedAt = this.#live ? 0 : now;
    }
    const isLast = this.#live && state.done >= state.total;
    if (!isLast && now - this.#updatedAt < (this.#live ? interval.bar : interval.line)) return;
    this.#updatedAt = now;
    this.#write(state, now);
  }

  #write({ label, done, total }: ProgressState, now: number): void {
    const perSecond = Math.round(done / Math.max(0.001, (now - this.#startedAt) / 1_000));
    if (this.#asJson) {
      jsonNote({ time: new Date(), event: "progress", label, done, total, perSecond });
      return;
    }
    const text = `${label}: ${done} of ${total} ${this.#unit}, ${perSecond} a second`;
    if (!this.#live) {
      note(text);
      return;
    }
    this.#isDrawn = true;
    const line = `${barOf(total === 0 ? 1 : done / total)} ${text}`;
    // A line that the terminal breaks could not be overwritten.
    const columns = process.stderr.columns ?? 0;
    process.stderr.write(`\r\x1b[K${columns > 1 ? fitted(line, columns - 1) : line}`);
  }

  /** Erases the bar. */
  stop(): void {
    if (this.#isDrawn) process.stderr.write("\r\x1b[K");
    this.#isDrawn = false;
  }
}

function barOf(part: number): string {
  const full = Math.floor(Math.min(1, part) * barWidth);
  return `${"█".repeat(full)}${"░".repeat(barWidth - full)} ${String(Math.floor(Math.min(1, part) * 100)).padStart(3)} %`;
}
