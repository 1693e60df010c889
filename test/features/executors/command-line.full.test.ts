/** `dbq worker` runs tasks in threads and processes, and leaves none of them behind. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { dbq, folderWithQueue, startDbq } from "../../entries/cli/dbq.ts";
import { ended } from "../../worker/setup.ts";
import { isDead, newFile, pidIn } from "./setup.ts";
import * as tasks from "./tasks.ts";

test("dbq worker runs tasks in threads and processes, and a second signal ends them", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = startDbq(folder, ["worker", fileURLToPath(tasks.moduleNamed("tasks")), "--db", "dbq.db"]);
  for (const runIn of tasks.places)
    expect((await ended(queue, await queue.enqueueTask(tasks.echo[runIn], 1))).result).toEqual({ args: [1] });
  const file = newFile();
  const id = await queue.enqueueTask(tasks.blocks.process, file);
  const pid = await pidIn(file);
  worker.child.kill("SIGTERM");
  await worker.err((line) => line.includes("a second signal stops now"));
  worker.child.kill("SIGTERM");
  const { code } = await worker.ended;
  expect([code, isDead(pid)]).toEqual([0, true]);
  expect(await queue.getTask(id)).toMatchObject({ status: "pending", retryCount: 0 });
});

test("dbq worker --max-tasks-per-child replaces a thread or process after so many tasks", async () => {
  const { folder, queue } = await folderWithQueue();
  const module = fileURLToPath(tasks.moduleNamed("tasks"));
  startDbq(folder, ["worker", module, "--db", "dbq.db", "--max-tasks-per-child", "2"]);
  for (const runIn of ["thread", "process"] as const) {
    const calls: unknown[] = [];
    for (let n = 0; n < 5; n += 1) {
      const { result } = await ended(queue, await queue.enqueueTask(tasks.whereAmI[runIn]));
      calls.push((result as { calls: number }).calls);
    }
    expect(calls).toEqual([1, 2, 1, 2, 1]);
  }
  const refused = await dbq(folder, ["worker", module, "--db", "dbq.db", "--max-tasks-per-child", "0"]);
  expect(refused.code).toBe(2);
  expect(refused.err).toContain("'0'");
});
