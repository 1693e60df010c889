/**
 * The program of one measurement, in a separate process: one contender's compiled code and heap do not affect
 * another's.
 */
import type { Figures, Settings } from "./benchmark.ts";
import { benchmarks } from "./benchmarks.ts";

/** The names of what to measure. */
export interface Request {
  readonly benchmark: string;
  readonly contender: string;
  readonly settings: Settings;
}

export type Reply = { readonly figures: Figures } | { readonly error: string };

async function measure({ benchmark, contender, settings }: Request): Promise<Reply> {
  try {
    const found = benchmarks
      .find(({ name }) => name === benchmark)
      ?.contenders.find(({ name }) => name === contender);
    if (!found) throw new TypeError(`there is no ${contender} in ${benchmark}`);
    return { figures: await found.measure(settings) };
  } catch (error) {
    return { error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

function reply(answer: Reply): void {
  process.send?.(answer, () => process.exit());
}

process.on("uncaughtException", (error) => reply({ error: error.stack ?? error.message }));
// The parent process is gone, and so is the reader of the figures.
process.on("disconnect", () => process.exit(1));
process.once("message", (request: Request) => void measure(request).then(reply));
