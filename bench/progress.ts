/** Shows the progress of a run: a bar on a terminal, else a line for each setup; always on stderr. */
import { SingleBar } from "cli-progress";
import type { Measurement, Setup } from "./plan.ts";
import type { Watcher } from "./run.ts";

export interface Progress extends Watcher {
  beginning(setup: Setup): void;
  /** Clears the bar while something else is printed. */
  pause(): void;
}

export function progressOf(total: number): Progress {
  return process.stderr.isTTY === true ? bar(total) : silentLines();
}

function bar(total: number): Progress {
  const format = "{bar} {value}/{total}, about {eta_formatted} left: {what}";
  const single = new SingleBar({ format, stream: process.stderr, clearOnComplete: true, barsize: 20 });
  let done = 0;
  let begun = false;
  return {
    beginning: () => undefined,
    measuring: ({ setup, contender }) => {
      const what = `${named(setup)}: ${contender.name}`;
      if (begun) single.update({ what });
      else single.start(total, done, { what });
      begun = true;
    },
    measured: () => {
      done += 1;
      single.update(done);
    },
    pause: () => {
      if (begun) single.stop();
      begun = false;
    },
  };
}

function silentLines(): Progress {
  return {
    beginning: (setup) => process.stderr.write(`measuring ${named(setup)}\n`),
    measuring: (_: Measurement) => undefined,
    measured: (_: Measurement) => undefined,
    pause: () => undefined,
  };
}

function named({ benchmark, variant, synchronous }: Setup): string {
  const durability = benchmark.once ? "" : `synchronous ${synchronous}`;
  return [benchmark.name, variant.name, durability].filter((part) => part !== "").join(", ");
}
