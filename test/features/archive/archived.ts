/** Queues with finished tasks of every kind, and a look at what they have. */
import { join } from "node:path";
import { expect } from "vitest";
import { type CountFilter, exportTasks, importTasks, type Queue, remoteTask } from "../../../src/index.ts";
import { temporaryFolder, temporaryQueue } from "../../support/queue.ts";
import { makeQueue } from "../transfer/moved-rows.ts";

/** A queue with so many tasks, of which three in five have finished. Each step of the workflow has a value. */
export async function queueWithTasks(tasks: number): Promise<Queue> {
  const path = join(temporaryFolder(), "dbq.db");
  await makeQueue(path, tasks);
  return await temporaryQueue({}, path);
}

export async function linesOf(queue: Queue, filter: CountFilter = {}): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of exportTasks(queue, filter)) lines.push(line);
  return lines;
}

/** A line as a copy of it is exported: that holds no unique key whose time has passed. */
export function asImported(line: string): string {
  const { uniqueUntil, ...task } = JSON.parse(line);
  return Date.parse(uniqueUntil) > Date.now() ? line : JSON.stringify(task);
}

/** Imports lines, and returns those that the queue then has. */
export async function copied(lines: readonly string[], into: Queue): Promise<string[]> {
  await importTasks(into, lines);
  return await linesOf(into);
}

/** Imports the task of a schedule's slot, of which the app has made another one meanwhile, and a task of another slot with it. */
export async function importTakenSlot(queue: Queue): Promise<void> {
  const [first, second] = [new Date("2026-01-01T00:00Z"), new Date("2026-01-02T00:00Z")];
  await queue.schedule("nightly", { cron: "0 0 * * *" }, remoteTask("report"));
  await queue.backfillSchedule("nightly", first, second);
  await queue.cancelTasks({});
  const lines = await linesOf(queue);
  await queue.deleteTasks({});
  await queue.backfillSchedule("nightly", first, first);
  expect(await importTasks(queue, lines)).toEqual({ imported: 2, skipped: 0 });
  const tasks = await queue.listTasks({ scheduleName: "nightly" });
  expect(tasks.map(({ slot, status }) => `${status} ${slot?.toISOString().slice(0, 10)}`).sort()).toEqual([
    "cancelled 2026-01-02",
    "cancelled undefined",
    "pending 2026-01-01",
  ]);
}
