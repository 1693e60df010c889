/** More ends of threads and processes: cancels, crashes, and functions that write to the channel to their worker. */

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { openQueue, task } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchemaAlone, postgresServer } from "../../support/postgres.ts";
import { startedWorker, uniqueName } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { allEnded, ended, next, read } from "../../worker/setup.ts";
import { isDead, newFile, pidIn, started, textIn, workerProcess } from "./setup.ts";
import * as tasks from "./tasks.ts";
import { moduleNamed, places } from "./tasks.ts";

/** The next message of a channel. */
function published(name: string): Promise<unknown> {
  return new Promise((resolve) => {
    subscribe(name, resolve);
    onTestFinished(() => void unsubscribe(name, resolve));
  });
}

describe("of a process", () => {
  test("a function that obeys its signal keeps its process", async () => {
    const { run } = await started({ concurrency: 1 });
    const before = await run(tasks.whereAmI.process);
    const failed = await run(tasks.obeys.process.with({ timeout: 200 }), newFile());
    expect([failed.error?.name, failed.error?.cause]).toEqual(["TimeoutError", undefined]);
    const after = await run(tasks.whereAmI.process);
    expect(after.result).toEqual({ ...(before.result as object), calls: 2 });
  });

  test("a cancel ends a function that blocks", async () => {
    const { queue, worker, enqueue } = await started();
    const file = newFile();
    const id = await enqueue(tasks.blocks.process, file);
    const pid = await pidIn(file);
    const cancelled = next(worker, "cancelled", id);
    await queue.cancelTask(id);
    await cancelled;
    expect([isDead(pid), (await read(queue, id)).status]).toEqual([true, "cancelled"]);
  });

  test("a stop ends the processes that wait for tasks", async () => {
    const { worker, run } = await started();
    const { pid } = (await run(tasks.whereAmI.process)).result as { pid: number };
    expect(isDead(pid)).toBe(false);
    await worker.stop();
    expect(isDead(pid)).toBe(true);
  });

  test("an answer that comes after SIGTERM changes nothing", async () => {
    const { run } = await started({ concurrency: 1 });
    await run(tasks.echo.process);
    const failed = await run(tasks.answersLate.process.with({ timeout: 300 }));
    expect([failed.status, failed.result, failed.error?.name]).toEqual(["failed", undefined, "TimeoutError"]);
    expect(failed.error?.cause?.message).toContain("signal SIGKILL");
  });

  test("a process can fork programs, which talk to it alone", async () => {
    const { run } = await started();
    const program = `${newFile()}.mjs`;
    writeFileSync(program, 'process.send("from a fork"); process.disconnect();');
    expect((await run(tasks.forks.process, program)).result).toBe("from a fork");
  });

  test("a process that aborts fails its own attempt", async () => {
    const { run } = await started();
    const { error } = await run(tasks.aborts.process);
    expect(error).toMatchObject({ name: "ChildEndedError", code: "DBQ_CHILD_ENDED" });
    expect(error?.message).toContain("signal SIGABRT");
  });

  test.each([
    ["no message", "hello\n"],
    ["a message of a wrong form", '{"kind":"returned","call":1,"result":{}}\n{"kind":"toString"}\n7\nnull\n'],
    ["an answer to another call", '{"kind":"returned","call":7,"result":"1"}\n'],
    ["two answers", '{"kind":"returned","call":1,"result":"1"}\n{"kind":"returned","call":1,"result":"2"}\n'],
  ])("a function that writes %s to its channel harms nobody else", async (what, text) => {
    const { run } = await started({ concurrency: 1 });
    const done = await run(tasks.writesGarbage, text);
    const outcome = done.error?.message ?? done.result;
    if (what === "no message") expect(outcome).toContain("signal SIGKILL");
    else expect(outcome).toBe(what === "two answers" ? 1 : "answered");
    expect((await run(tasks.echo.process, 1)).result).toEqual({ args: [1] });
  });
});

describe.each(places)("of a %s", (runIn) => {
  test("a function that takes all memory fails its attempt", async () => {
    const { run } = await started({ concurrency: 1 });
    const { error } = await run(tasks.eatsMemory[runIn]);
    expect(error).toMatchObject({ name: "ChildEndedError", code: "DBQ_CHILD_ENDED" });
    expect(runIn === "thread" ? error?.cause?.message : error?.message).toMatch(/memory/);
    expect(error?.message).toContain(
      "ran out of memory (its limit is 64 MiB) before the function had settled: ",
    );
    expect((await run(tasks.echo[runIn], 1)).result).toEqual({ args: [1] });
  });

  test("a rejection that an earlier task has left ends no child", async () => {
    const { run } = await started({ concurrency: 1 });
    await run(tasks.leavesARejection[runIn]);
    const file = newFile();
    const waiting = run(tasks.waitsFor[runIn], file);
    setTimeout(() => writeFileSync(file, ""), 50);
    expect((await waiting).result).toBe("seen");
  });

  test("a rejection that no code has handled is a warning that names the module and the last task", async () => {
    const { run } = await started({ concurrency: 1 });
    const warned = published("dbq:warning");
    const { id } = await run(tasks.leavesARejection[runIn]);
    const [module, func] = [moduleNamed("tasks"), tasks.leavesARejection[runIn].taskName];
    const about = `in the ${runIn} of ${module}, whose last task was "${func}" (${id})`;
    expect(await warned).toEqual({
      message: `no code has handled a rejection ${about}: Error: nobody has waited for this`,
      ...{ module, func, taskId: id },
      error: expect.objectContaining({ name: "Error", stack: expect.any(String) }),
    });
  });

  test("an exception after the end of a task is an error of the worker that names the module and the task", async () => {
    const { run, worker } = await started({ concurrency: 1 });
    const reported = once(worker, "error");
    const { id, status } = await run(tasks.leavesAnException[runIn]);
    expect(status).toBe("completed");
    const [error, where] = await reported;
    const about = `whose last task was "${tasks.leavesAnException[runIn].taskName}" (${id})`;
    expect(error).toMatchObject({ code: "DBQ_CHILD_ENDED", exitCode: 1 });
    expect(error.message).toContain(
      `the ${runIn} of ${moduleNamed("tasks")} ended between two tasks, ${about}: exit code 1`,
    );
    // A thread ends with the error itself, and Node prints that of a process.
    expect(runIn === "thread" ? error.cause.message : error.stderr).toContain("nobody has waited for this");
    expect(where).toBe(`waiting for tasks in a ${runIn}`);
    await worker.stop();
  });

  test("a module whose import hangs is ended by the timeout", async () => {
    const { run } = await started();
    const module = moduleNamed("hanging-module");
    const fn = task(uniqueName(), () => 1, { runIn, module, maxRetries: 0, timeout: 300 });
    const { error } = await run(fn);
    expect(error?.name).toBe("TimeoutError");
    expect(error?.cause?.message).toContain(`was ended by the worker while it imported ${module}`);
  });

  test("what a function sends by other channels is no answer", async () => {
    const { run } = await started();
    expect((await run(tasks.talksToItsParent[runIn])).result).toBe("answered");
  });

  test("the reason of a cancel crosses", async () => {
    const { queue, enqueue } = await started();
    const [begun, why] = [newFile(), newFile()];
    const id = await enqueue(tasks.writesItsReason[runIn], begun, why);
    await textIn(begun);
    await queue.cancelTask(id, { reason: "enough" });
    expect(await textIn(why)).toBe(`task ${id} was cancelled: enough`);
  });

  test("what does not cross back in time is fenced off: a cancel while a child starts", async () => {
    const { queue, worker, enqueue, run } = await started({ concurrency: 1 });
    const id = await enqueue(tasks.obeys[runIn], newFile());
    await next(worker, "started", id);
    await queue.cancelTask(id);
    expect((await run(tasks.echo[runIn], 1)).result).toEqual({ args: [1] });
    expect((await read(queue, id)).status).toBe("cancelled");
  });
});

describe("of a thread", () => {
  test("a timeout, a cancel and a stop end a function that blocks", async () => {
    const { queue, worker, run, enqueue } = await started({ concurrency: 1 });
    const failed = await run(tasks.blocks.thread.with({ timeout: 300 }), newFile());
    expect([failed.error?.name, failed.error?.cause?.name]).toEqual(["TimeoutError", "ChildEndedError"]);
    const file = newFile();
    const id = await enqueue(tasks.blocks.thread, file);
    await pidIn(file);
    const cancelled = next(worker, "cancelled", id);
    await queue.cancelTask(id);
    await cancelled;
    const other = newFile();
    const stopped = await enqueue(tasks.blocks.thread, other);
    await pidIn(other);
    await worker.stop({ grace: 0 });
    expect(await read(queue, stopped)).toMatchObject({ status: "pending", retryCount: 0 });
  });
});

test("crashes of some tasks do not disturb the others", async () => {
  const { queue } = await started({ concurrency: 3 });
  const crashing = Array.from({ length: 6 }, (_, i) => [tasks.exits.process, i] as const);
  const fine = Array.from({ length: 12 }, (_, i) => [tasks.echo.process, i] as const);
  const [crashed, done] = await Promise.all([queue.enqueueTasks(crashing), queue.enqueueTasks(fine)]);
  expect((await allEnded(queue, crashed)).map(({ status }) => status)).toEqual(Array(6).fill("failed"));
  expect((await allEnded(queue, done)).map(({ result }) => result)).toEqual(
    Array.from({ length: 12 }, (_, i) => ({ args: [i] })),
  );
});

test("a process has no file of the database open", async () => {
  const { queue, pid } = await workerProcess();
  const { result } = await ended(queue, await queue.enqueueTask(tasks.openFiles.process));
  const ofDatabase = (files: readonly string[]) => files.filter((file) => file.includes("dbq.db"));
  const ofWorker = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
  expect(ofDatabase(ofWorker)).not.toEqual([]);
  expect(ofDatabase(result ?? [])).toEqual([]);
  expect(result?.length).toBeGreaterThan(4);
});

test("a gigabyte on stderr takes no memory of the worker, and the error has its end", async () => {
  const { queue, pid } = await workerProcess();
  await ended(queue, await queue.enqueueTask(tasks.echo.process));
  const before = residentMegabytes(pid);
  const failed = await ended(queue, await queue.enqueueTask(tasks.writesToStderr.process, 1_024));
  const grown = residentMegabytes(pid) - before;
  console.log(`the worker has grown by ${grown} MB at most`);
  expect(grown).toBeLessThan(150);
  expect(failed.error?.message).toMatch(/exit code 3\nThe end of its stderr:\nx+the end$/);
  expect(failed.error?.message.length).toBeLessThan(9_000);
});

/** The most memory that a process has had. */
function residentMegabytes(pid: number): number {
  const [, kilobytes] = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Math.round(Number(kilobytes) / 1_024);
}

describe("on servers", async () => {
  const [postgres, mysql] = [await postgresServer(), await mysqlServer()];

  const cases = [
    { server: "Postgres", found: postgres, newTarget: newSchemaAlone },
    { server: "MariaDB", found: mysql, newTarget: newDatabase },
  ];

  for (const { server, found, newTarget } of cases)
    test.skipIf(isMissing(found))(
      `tasks in threads and processes run, fail and time out on ${server}`,
      async () => {
        const { url, drop } = await newTarget();
        onTestFinished(drop);
        await expectToRunOn(url);
      },
    );
});

async function expectToRunOn(url: string): Promise<void> {
  const queue = await openQueue(url);
  onTestFinished(() => queue.close());
  await startedWorker(queue, { concurrency: 4 });
  for (const runIn of places) {
    const ids = await queue.enqueueTasks([
      [tasks.echo[runIn], 1],
      [tasks.exits[runIn], 5],
      [tasks.blocks[runIn].with({ timeout: 200 }), newFile()],
    ]);
    const [echoed, exited, blocked] = await allEnded(queue, ids as never);
    expect(echoed?.result).toEqual({ args: [1] });
    expect(exited?.error?.message).toContain("exit code 5");
    expect(blocked?.error?.cause?.message).toContain(runIn === "thread" ? "exit code 1" : "signal SIGTERM");
  }
}
