/** Runs the process that kills itself on a server, and waits until the server has noticed. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Job } from "../../../fixtures/crash-server.ts";
import { startScript } from "../../../fixtures/scene.ts";
import { placeOf } from "../../place/place.ts";

/** Milliseconds for a server to end the session of a process that is gone. */
const patience = 30_000;

/** Resolves when it is gone, and all that it had begun is committed or undone. @throws unless it ended so */
export async function crash(jobs: readonly Job[], end: number | string): Promise<void> {
  const child = startScript("crash-server.ts", [JSON.stringify(jobs)]);
  const how = await child.ended;
  if (how !== end)
    throw new Error(`a process that was to end by ${end} ended with ${how}\n${child.output()}`);
  await Promise.all(jobs.map(({ database }) => untilAlone(database)));
}

async function untilAlone(database: string): Promise<void> {
  const { sessions, nameOf } = placeOf(database);
  const start = performance.now();
  for (let left = 1; left > 0; await sleep(5)) {
    left = (await sessions?.(database)) ?? 0;
    if (performance.now() - start > patience)
      throw new Error(`${left} sessions of a process that was killed are still in ${nameOf(database)}`);
  }
}
