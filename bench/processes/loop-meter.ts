/** How long an event loop was blocked: the time between two turns of a timer of 1 ms, with nothing subtracted. */
import { createHistogram, type RecordableHistogram } from "node:perf_hooks";

/** In milliseconds. An idle event loop shows 1 to 2. */
export interface Blocks {
  p999: number;
  max: number;
}

export class LoopMeter {
  #histogram: RecordableHistogram = createHistogram();
  #last = performance.now();

  constructor() {
    setInterval(() => this.#turn(), 1);
  }

  reset(): void {
    this.#histogram = createHistogram();
    this.#last = performance.now();
  }

  read(): Blocks {
    // A block that has just ended counts.
    this.#turn();
    const milliseconds = (nanoseconds: number) => nanoseconds / 1e6;
    return {
      p999: milliseconds(this.#histogram.percentile(99.9)),
      max: milliseconds(this.#histogram.max),
    };
  }

  #turn(): void {
    const now = performance.now();
    this.#histogram.record(Math.max(1, Math.round((now - this.#last) * 1e6)));
    this.#last = now;
  }
}
