/** Healing: after a kill, the queue needs nothing but a live worker. */
import { openQueue, type Task, Worker } from "../../../src/index.ts";
import { write } from "../../fixtures/event-log.ts";
import { type Context, chore } from "../../fixtures/tasks.ts";
import { audit } from "../audit.ts";
import { openRaw } from "../backends/backend.ts";
import { drain } from "../drain.ts";
import { untilFired } from "../slots.ts";
import type { Files } from "./operation.ts";

/**
 * Opens the database that a killed process has left, enqueues one more task, and lets a worker fire what is due and finish
 * all tasks.
 */
export async function heal({ database, eventLog }: Files): Promise<void> {
  // Many heal at a time, and a server limits all connections.
  await using queue = await openQueue(database, { synchronous: "normal", poolSize: 2 });
  if (!(await isAudited(database))) await audit(database);
  write(eventLog, "acknowledged", { task: await queue.enqueueTask(chore, 0, "return") });
  const context: Context = { eventLog, queue };
  const worker = new Worker(queue, { context, tasks: [chore], concurrency: 16, lease: "1s" });
  logOutcomes(worker, eventLog);
  worker.on("error", (error, where) => write(eventLog, "error", { note: `${where}: ${String(error)}` }));
  await worker.start();
  await untilFired(queue, Date.now());
  await drain({ database });
  await worker.stop();
}

/** Writes each accepted outcome to the event log. */
export function logOutcomes(worker: Worker<Context>, eventLog: string): void {
  const events = ["completed", "failed", "cancelled", "retrying", "snoozed", "interrupted", "lost"] as const;
  for (const event of events) {
    worker.on(event, ({ id, generationId, error }: Task) => {
      // The worker that rescues a task reports its crash; what this process has run is logged here.
      if ((event === "failed" || event === "retrying") && error?.name === "WorkerCrashed") return;
      write(eventLog, event, { task: id, generation: generationId });
    });
  }
}

/** A database that was just created has no audit yet. */
async function isAudited(database: string): Promise<boolean> {
  await using raw = await openRaw(database);
  return await raw.all("select 1 as one from audit limit 1").then(
    () => true,
    () => false,
  );
}
