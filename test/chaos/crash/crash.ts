/** Starts the process that kills itself. */
import type { Job } from "../../fixtures/crash.ts";
import { startScript } from "../../fixtures/harness.ts";

/** Resolves when the process is gone, with its exit and its output. */
export async function crash(jobs: readonly Job[]): Promise<{ how: number | string; output: string }> {
  const child = startScript("crash.ts", [JSON.stringify(jobs)]);
  return { how: await child.ended, output: child.output() };
}
