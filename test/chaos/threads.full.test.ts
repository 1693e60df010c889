/**
 * Invariant: workers in several threads of one process are alive as long as they run, whichever thread looks. A task of
 * one of them does not run a second time in another.
 */

import { once } from "node:events";
import { Worker as Thread } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { thisProcess } from "../../src/base/runtime/process-identity.ts";
import { task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { next, queueOnFile, read } from "../worker/setup.ts";
import { onLinux, patient } from "./linux.ts";

onLinux("a worker in another thread of this process", () => {
  test("a worker in one thread does not rescue the worker of another thread", patient, async () => {
    const { queue, path, raw } = await queueOnFile();
    const release = deferred();
    let runs = 0;
    const hold = task(uniqueName("hold"), async () => {
      runs += 1;
      await release.promise;
    });
    const worker = await startedWorker(queue);
    const started = next(worker, "started");
    const id = await queue.enqueueTask(hold);
    await started;
    // A thread does not inherit the TypeScript loader, so it registers one first.
    const script = JSON.stringify(new URL("../fixtures/thread.ts", import.meta.url).href);
    const code = `import("tsx/esm/api").then(({ register }) => (register(), import(${script})))`;
    const thread = new Thread(code, { eval: true, workerData: { database: path }, execArgv: [] });
    onTestFinished(async () => {
      await thread.terminate();
    });
    const [ready] = await once(thread, "message");
    expect(ready).toBe("ready");
    // Inserts dead workers until one is rescued: by then the thread has looked at the live worker as well.
    const insert = raw.prepare(`insert into dbq_workers (id, queue_names, concurrency, lease, host, boot_id,
      pid_namespace, pid, process_start) values (?, '["default"]', 1, 15000, ?, ?, ?, 4194305, '1')`);
    const hold1 = raw.prepare(
      "insert into dbq_tasks (func, status, worker_id, max_retries) values ('x', 'running', ?, 0)",
    );
    const { host, bootId, pidNamespace } = thisProcess();
    let dead = 0;
    const feed = setInterval(() => {
      dead += 1;
      insert.run(`dead-${dead}`, host, bootId, pidNamespace);
      hold1.run(`dead-${dead}`);
    }, 50);
    onTestFinished(() => clearInterval(feed));
    const [rescued] = (await once(thread, "message")) as [{ workerId: string }];
    clearInterval(feed);
    expect(rescued.workerId).toMatch(/^dead-/);
    expect(await read(queue, id)).toMatchObject({ status: "running", workerId: worker.id, generationId: 2 });
    release.resolve();
    await worker.idle();
    expect(runs).toBe(1);
  });
});
