/** Rows with ids beyond 2^53, which JavaScript rounds: a worker runs the other tasks, and names one of these in a warning. */
import { once } from "node:events";
import { expect, test } from "vitest";
import { task } from "../../src/index.ts";
import { startedWorker, uniqueName } from "../support/queue.ts";
import { queueOnFile } from "./setup.ts";

test("a worker passes over a task whose id JavaScript rounds, and warns of it once, by its exact id", async () => {
  const { queue, raw } = await queueOnFile();
  const ran: unknown[] = [];
  const fn = task(uniqueName(), (which: string) => void ran.push(which));
  const plain = raw.prepare("insert into dbq_tasks (id, func, args) values (?, ?, ?)");
  for (const id of [9007199254740992n, 9007199254740993n]) plain.run(id, fn.taskName, '["beyond"]');
  plain.run(7n, fn.taskName, '["seven"]');
  const warnings: string[] = [];
  const note = ({ message }: Error) => void warnings.push(message);
  process.on("warning", note);
  const warning = once(process, "warning");
  await startedWorker(queue, { pollInterval: 20 });
  await queue.awaitTaskCompletion(7);
  await warning;
  plain.run(9007199254740994n, fn.taskName, '["beyond"]');
  const later = raw.prepare("insert into dbq_tasks (id, func, status) values (8, ?, 'scheduled')");
  later.run(fn.taskName);
  // It is promoted by a later look at what is due.
  await queue.awaitTaskCompletion(8);
  process.off("warning", note);
  expect(ran).toEqual(["seven", undefined]);
  expect(warnings.filter((text) => /no number/.test(text))).toEqual([
    "no worker runs the task with the id 9007199254740993: JavaScript has no number for it; dbq doctor names all such tasks, and what to do",
  ]);
  const ids = (await queue.listTasks()).map(({ id }) => id);
  expect(ids).toEqual(["9007199254740994", "9007199254740993", "9007199254740992", 8, 7]);
});
