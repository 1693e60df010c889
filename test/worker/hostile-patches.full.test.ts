/**
 * Invariant: a handler that replaces built-ins may harm its own process and the tasks that run there. It harms no other
 * process, and unfinished tasks run in processes without the change. The tests separate harmless replacements from
 * others: no worker can go on without `setImmediate`.
 */
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { type Queue, type Task, TaskFailedError } from "../../src/index.ts";
import { onLinux, patient } from "../chaos/linux.ts";
import { failing, harmful, harmless, patch, plain } from "../fixtures/hostile-patches.ts";
import { type Child, start, type TestHarness, testHarness } from "../fixtures/processes.ts";
import { amount } from "../support/amount.ts";
import { allEnded, read, rejection, until } from "./setup.ts";

async function hostileWorker({ database, eventLog }: TestHarness, options: object): Promise<Child> {
  const child = start("hostile-worker.ts", database, eventLog.path, JSON.stringify(options));
  await eventLog.until("ready", ({ pid }) => pid === child.pid);
  return child;
}

const values = [{ n: [1, -0, "\ud800"] }, null, "é".repeat(10_000)];

/** Checks that a worker runs all kinds of tasks correctly. */
async function isWell(queue: Queue, { pid }: Child, queueName: string): Promise<void> {
  const ids = await queue.enqueueTasks(values.map((value) => [plain.with({ queueName }), value] as const));
  const done = await allEnded(queue, ids);
  expect(done.map(({ result }) => result)).toStrictEqual(values.map((value) => ({ pid, value })));
  // Its retry is due at once, by a timer; without timers another worker promotes it.
  const failed = await queue.enqueueTask(failing.with({ queueName, maxRetries: 0 }));
  const error = await rejection(queue.awaitTaskResult(failed, { timeout: "20s" }));
  expect(error).toBeInstanceOf(TaskFailedError);
  expect((error as TaskFailedError).task.error).toMatchObject({ name: "Error", message: "patched" });
}

onLinux("a handler that changes its process", () => {
  test("a handler that replaces built-ins that dbq does not need: its worker goes on", patient, async () => {
    const all = await testHarness();
    const { queue } = all;
    const worker = await hostileWorker(all, {});
    for (const name of Object.keys(harmless)) {
      const patched = await queue.awaitTaskResult(await queue.enqueueTask(patch, name), { timeout: "20s" });
      expect(patched, name).toBe("patched");
      await isWell(queue, worker, "default").catch((error: unknown) => {
        throw new Error(`after ${name}: ${worker.output()}`, { cause: error });
      });
    }
    expect(all.eventLog.entries("error")).toEqual([]);
  });

  // Each patch runs in its own process.
  const every = Object.keys(harmful);
  const names = every.slice(0, amount(1, 1, every.length));

  test("a handler that replaces built-ins that dbq needs: workers of other processes run its tasks", {
    timeout: 120_000,
  }, async () => {
    const all = await testHarness();
    const { queue } = all;
    const beside = await hostileWorker(all, { queueName: "beside" });
    const harmed: { name: string; ids: number[] }[] = [];
    for (const name of names) {
      const child = await hostileWorker(all, { queueName: name, concurrency: 2 });
      const first = await queue.enqueueTask(patch.with({ queueName: name }), name);
      // The task has started. With some patches the process shows no further sign.
      await until(async () => (await read(queue, first)).status !== "pending");
      const rest = await queue.enqueueTasks(
        values.map((value) => [plain.with({ queueName: name }), value] as const),
      );
      await isWell(queue, beside, "beside");
      // A process that stands still does not report it.
      const ids = [first, ...rest];
      await Promise.all(ids.map((id) => queue.awaitTaskCompletion(id, { timeout: "1s" }).catch(() => 0)));
      const tasks = await Promise.all(ids.map((id) => read<unknown>(queue, id)));
      console.log(`${name}: ${tasks.map(told).join(", ")}`);
      await child.kill();
      harmed.push({ name, ids });
    }
    const heir = await hostileWorker(all, { queueName: harmed.map(({ name }) => name) });
    for (const { name, ids } of harmed) {
      const ended = await allEnded<unknown>(queue, ids);
      const byHeir = ended.filter(({ workerId }) => workerId?.includes(`:${heir.pid}:`));
      for (const one of byHeir) expect(one, name).toMatchObject({ status: "completed", error: null });
      for (const { result, args } of byHeir.filter(({ func }) => func === plain.taskName))
        expect(result, name).toStrictEqual({ pid: heir.pid, value: args[0] });
    }
    await isWell(queue, heir, Object.keys(harmful)[0] as string);
    const raw = new Database(all.database, { readonly: true });
    expect(raw.pragma("integrity_check", { simple: true })).toBe("ok");
    raw.close();
  });
});

function told({ status, error, result, args, func }: Task): string {
  if (status === "failed") return `failed (${error?.message})`;
  if (status !== "completed" || func === patch.taskName) return status;
  const value = (result as { value?: unknown }).value;
  return JSON.stringify(value) === JSON.stringify(args[0]) ? "completed" : "completed with nonsense";
}
