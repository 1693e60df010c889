/** A populated database: tasks in each status, and workers that died in each way. */
import { openQueue, type Queue } from "../../../src/index.ts";
import { write } from "../../fixtures/event-log.ts";
import { chore } from "../../fixtures/tasks.ts";
import { audit } from "../audit.ts";
import { backendOf, type Kind, openRaw } from "../backends/backend.ts";
import { ManualWorker, outcome } from "./manual-worker.ts";
import type { Files, LogEvent } from "./operation.ts";

/** A pid above Linux's maximum, so no process has it. */
const nobody = 2 ** 30;

/** SQL for one hour before a time, by database. */
const hourBefore: Readonly<Record<Kind, (time: string) => string>> = {
  sqlite: (time) => `${time} - 3600000`,
  postgres: (time) => `${time} - interval '1 hour'`,
  mysql: (time) => `${time} - interval 1 hour`,
};

/** The unique key that one of the pending tasks holds. */
export const heldKey = "held";

/** The unique key of a cancelled task, which was taken for a time that has passed. */
export const passedKey = "passed";

export async function furnish({ database, eventLog }: Files): Promise<void> {
  await using queue = await openQueue(database);
  await audit(database);
  const log: LogEvent = (what, more) => write(eventLog, what, more);
  await finishSome(new ManualWorker("former", queue, log));
  await die(new ManualWorker("dead", queue, log, nobody));
  await vanish(new ManualWorker("gone", queue, log, nobody), database);
  for (const id of await enqueueSome(queue)) log("acknowledged", { task: id });
  const passed = await queue.enqueueTask(chore.with({ uniqueKey: passedKey, uniqueFor: 1 }), 0, "return");
  log("acknowledged", { task: passed });
  await queue.cancelTask(passed);
}

async function finishSome(former: ManualWorker): Promise<void> {
  await former.register();
  const [completed, failed, cancelled] = await former.hold(3);
  if (!completed || !failed || !cancelled) throw new Error("there was nothing to claim");
  await former.turn(
    [outcome(completed, "completed"), outcome(failed, "failed"), outcome(cancelled, "cancelled")],
    0,
  );
  await former.store.unregister(former.id);
}

/** A dead worker that held a task with retries left and one without. */
async function die(dead: ManualWorker): Promise<void> {
  await dead.register();
  await dead.hold(1);
  await dead.hold(1, "return", { maxRetries: 0 });
}

/** A worker whose row was deleted long ago; its tasks are still running. */
async function vanish(gone: ManualWorker, database: string): Promise<void> {
  await gone.register();
  await gone.hold(2);
  await using raw = await openRaw(database);
  const earlier = hourBefore[backendOf(database).kind]("started_at");
  await raw.run(`delete from dbq_workers where id = '${gone.id}'`);
  await raw.run(`update dbq_tasks set started_at = ${earlier} where worker_id = '${gone.id}'`);
}

/** Pending tasks, one with a unique key, and two scheduled tasks that are due. */
async function enqueueSome(queue: Queue): Promise<readonly number[]> {
  const [unique, due] = [chore.with({ uniqueKey: heldKey }), chore.with({ delay: 1 })];
  const plans = [chore, chore, unique, due, due];
  return await queue.enqueueTasks(plans.map((fn) => [fn, 0, "return"] as const));
}
