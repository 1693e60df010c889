/** Shared by the tests of executors: workers, tasks that write their pids, and processes that have ended. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { livenessOf, thisProcess } from "../../../src/base/runtime/process-identity.ts";
import type { TaskFunction } from "../../../src/index.ts";
import { startedWorker, temporaryFolder, temporaryQueue } from "../../support/queue.ts";
import { ended, until } from "../../worker/setup.ts";
import { moduleNamed } from "./tasks.ts";

type AnyTask = TaskFunction<unknown[], unknown>;

export async function started(options?: Parameters<typeof startedWorker>[1]) {
  const queue = await temporaryQueue();
  const worker = await startedWorker(queue, options);
  const enqueue = (fn: unknown, ...args: unknown[]) => queue.enqueueTask(fn as AnyTask, ...args);
  const run = async (fn: unknown, ...args: unknown[]) => await ended(queue, await enqueue(fn, ...args));
  return { queue, worker, enqueue, run };
}

export const newFile = () => join(temporaryFolder(), "pid");

/** The number that a task has written. */
export const pidIn = async (file: string) => Number(await textIn(file));

/** A process that nobody has waited for is a zombie, which is dead, too. */
export const isDead = (pid: number) => livenessOf({ ...thisProcess(), pid, processStart: null }) === "dead";

/** What a task has written. The file is empty for a moment. */
export const textIn = (file: string) =>
  until(() => (existsSync(file) && readFileSync(file, "utf8")) || undefined);

/** A worker in a process of its own. What it writes to stderr is thrown away. */
export async function workerProcess() {
  const path = join(temporaryFolder(), "dbq.db");
  const queue = await temporaryQueue({}, path);
  const program = fileURLToPath(moduleNamed("worker-process"));
  const loader = program.endsWith(".ts") ? ["--import", "tsx"] : [];
  const worker = spawn(process.execPath, [...loader, program, path], { stdio: "ignore" });
  const exit = once(worker, "exit");
  const kill = async () => {
    worker.kill("SIGKILL");
    await exit;
  };
  onTestFinished(kill);
  return { queue, pid: worker.pid as number, kill };
}
