/** Starts the process that kills itself on a server, and waits until the server has noticed. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Job } from "../../../fixtures/crash-server.ts";
import { startScript } from "../../../fixtures/harness.ts";
import { backendOf } from "../../backends/backend.ts";

/** Milliseconds within which a server must end the session of a killed process. */
const patience = 30_000;

/**
 * Resolves when the process is gone and all its transactions are committed or rolled back. @throws Error unless it
 * exited like this
 */
export async function crash(jobs: readonly Job[], end: number | string): Promise<void> {
  const child = startScript("crash-server.ts", [JSON.stringify(jobs)]);
  const how = await child.ended;
  if (how !== end)
    throw new Error(`a process that was to end by ${end} ended with ${how}\n${child.output()}`);
  await Promise.all(jobs.map(({ database }) => untilAlone(database)));
}

async function untilAlone(database: string): Promise<void> {
  const { sessions, nameOf } = backendOf(database);
  const start = performance.now();
  for (let left = 1; left > 0; await sleep(5)) {
    left = (await sessions?.(database)) ?? 0;
    if (performance.now() - start > patience)
      throw new Error(`${left} sessions of a process that was killed are still in ${nameOf(database)}`);
  }
}
