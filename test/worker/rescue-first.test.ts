/**
 * A worker that starts rescues the tasks of dead workers before its first claim, so that they run before the backlog.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { thisProcess } from "../../src/base/runtime/process-identity.ts";
import { task } from "../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";
import { allEnded } from "./setup.ts";

/** The id of a process that has ended. */
async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ["-e", ""]);
  await once(child, "exit");
  return child.pid ?? 0;
}

test("a worker that starts runs rescued tasks before the backlog", async () => {
  // In memory, no heartbeat of another thread can delay the rescue with its lock.
  const raw = new Database(":memory:");
  onTestFinished(() => void raw.close());
  const queue = await temporaryQueue(undefined, drizzle({ client: raw }));
  const order: string[] = [];
  const note = task(uniqueName(), (what: string) => void order.push(what));
  const cutOff = await queue.enqueueTask(note, "cut off");
  const waiting = await queue.enqueueTasks(Array.from({ length: 3 }, () => [note, "waiting"] as const));
  const { host, bootId, pidNamespace } = thisProcess();
  const dead = { host, bootId, pidNamespace, pid: await deadPid() };
  raw
    .prepare(`insert into dbq_workers (id, queue_names, concurrency, lease, host, boot_id, pid_namespace, pid)
      values ('dead', '["default"]', 1, 3600000, @host, @bootId, @pidNamespace, @pid)`)
    .run(dead);
  raw
    .prepare(`update dbq_tasks set status = 'running', generation_id = 2, worker_id = 'dead',
      started_at = unixepoch('subsec') * 1000 where id = ?`)
    .run(cutOff);
  await startedWorker(queue, { concurrency: 1 });
  await allEnded(queue, [cutOff, ...waiting]);
  expect(order).toEqual(["cut off", "waiting", "waiting", "waiting"]);
});
