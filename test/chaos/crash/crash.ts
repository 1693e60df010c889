/** Runs the process that kills itself. */
import type { Job } from "../../fixtures/crash.ts";
import { startScript } from "../../fixtures/scene.ts";

/** Resolves when it is gone, with how it ended and what it wrote. */
export async function crash(jobs: readonly Job[]): Promise<{ how: number | string; output: string }> {
  const child = startScript("crash.ts", [JSON.stringify(jobs)]);
  return { how: await child.ended, output: child.output() };
}
