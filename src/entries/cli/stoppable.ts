/** Long work of a command, with a progress bar, which Ctrl-C stops: what is done stays done. */
import type { ProgressBar } from "./progress-bar.ts";
import { signals } from "./watch.ts";

/** Does the work until a signal aborts it: then the command ends with the exit code 1. Returns whether it was stopped. */
export async function untilStopped(
  bar: ProgressBar,
  work: (signal: AbortSignal) => Promise<unknown>,
): Promise<boolean> {
  const stopped = new AbortController();
  const stop = () => stopped.abort();
  for (const signal of signals) process.once(signal, stop);
  try {
    await work(stopped.signal);
  } catch (error) {
    if (!stopped.signal.aborted) throw error;
    process.exitCode = 1;
  } finally {
    bar.stop();
    for (const signal of signals) process.off(signal, stop);
  }
  return stopped.signal.aborted;
}
