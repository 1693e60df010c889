/** Agents run tasks with `runIn` in threads and processes, as workers do. */
import { expect, test } from "vitest";
import { Agent, type AgentOptions } from "../../../src/features/agent.ts";
import type { TaskFunction } from "../../../src/index.ts";
import { ended } from "../../worker/setup.ts";
import { isDead, newFile, pidIn } from "../executors/setup.ts";
import * as tasks from "../executors/tasks.ts";
import { places } from "../executors/tasks.ts";
import { onFile, startedAgent, startedManager, tokenFor } from "./setup.ts";

type AnyTask = TaskFunction<unknown[], unknown>;

const started = async (...fns: unknown[]) => await startedWith({ concurrency: 2 }, ...fns);

async function startedWith(
  options: Pick<AgentOptions, "concurrency" | "maxTasksPerChild">,
  ...fns: unknown[]
) {
  const queue = await onFile()();
  const used = fns as AnyTask[];
  const token = await tokenFor(
    queue,
    used.map(({ taskName }) => taskName),
  );
  const agent = await startedAgent([await startedManager(queue)], { token, tasks: used, ...options });
  const run = async (fn: unknown, ...args: unknown[]) =>
    await ended(queue, await queue.enqueueTask(fn as AnyTask, ...args));
  return { queue, agent, run };
}

test.each(places)("an agent runs a task in a %s, which ends when the agent stops", async (runIn) => {
  const { agent, run } = await started(tasks.whereAmI[runIn]);
  const [first, second] = [await run(tasks.whereAmI[runIn]), await run(tasks.whereAmI[runIn])];
  const where = first.result as { pid: number; threadId: number };
  expect([where.pid === process.pid, where.threadId > 0]).toEqual(
    runIn === "thread" ? [true, true] : [false, false],
  );
  // The thread or process stays for the next task.
  expect(second.result).toEqual({ ...where, calls: 2 });
  await agent.stop();
  if (runIn === "process") expect(isDead(where.pid)).toBe(true);
});

test.each(places)("an agent replaces a %s after maxTasksPerChild tasks", async (runIn) => {
  const { run } = await startedWith({ concurrency: 1, maxTasksPerChild: 2 }, tasks.whereAmI[runIn]);
  const calls: unknown[] = [];
  for (let n = 0; n < 3; n += 1)
    calls.push(((await run(tasks.whereAmI[runIn])).result as { calls: number }).calls);
  expect(calls).toEqual([1, 2, 1]);
});

test("maxTasksPerChild of an agent is a whole number from 1", () => {
  const managers = "http://127.0.0.1:7420";
  for (const maxTasksPerChild of [0, 1.5, "2" as unknown as number])
    expect(() => new Agent({ managers, token: "dbq_1", maxTasksPerChild })).toThrow(
      /^new Agent: maxTasksPerChild: expected a whole number from 1/,
    );
});

test.each(places)("progress and log lines of a task in a %s reach the Manager", async (runIn) => {
  const { queue, run } = await started(tasks.looksAround[runIn]);
  const done = await run(tasks.looksAround[runIn]);
  expect(done).toMatchObject({ status: "completed", progress: 2, progressNote: "half" });
  expect((await queue.listLogs(done.id)).map(({ message }) => message)).toEqual(["one line"]);
});

test.each(places)(
  "a function that blocks in a %s times out, and the agent runs other tasks meanwhile",
  async (runIn) => {
    const blocks = tasks.blocks[runIn].with({ timeout: 4_000 });
    const { queue, run } = await started(blocks, tasks.echo[runIn]);
    const file = newFile();
    const blocked = await queue.enqueueTask(blocks, file);
    const pid = await pidIn(file);
    expect((await run(tasks.echo[runIn], 1)).result).toEqual({ args: [1] });
    expect((await queue.getTask(blocked))?.status).toBe("running");
    expect(await ended(queue, blocked)).toMatchObject({ status: "failed", retryCount: 0, error: {} });
    if (runIn === "process") expect(isDead(pid)).toBe(true);
  },
);

test("a stop of an agent without grace ends a process, and hands its task back uncharged", async () => {
  const { queue, agent } = await started(tasks.blocks.process);
  const file = newFile();
  const id = await queue.enqueueTask(tasks.blocks.process, file);
  const pid = await pidIn(file);
  await agent.stop({ grace: 0 });
  expect(isDead(pid)).toBe(true);
  expect(await queue.getTask(id)).toMatchObject({ status: "pending", retryCount: 0 });
});
