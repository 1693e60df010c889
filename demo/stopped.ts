/** Stops a worker process of the demo. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

/** Milliseconds for a worker to stop by itself. */
const stopLimit = 5_000;

/** Resolves when the process has ended: by SIGTERM, or by SIGKILL if that takes too long. */
export async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), stopLimit);
  await exit;
  clearTimeout(timer);
}
