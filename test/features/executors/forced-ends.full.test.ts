/** The ends of threads and processes: timeouts, cancels, stops and crashes fail one attempt, and leave nothing behind. */

import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ChildEndedError } from "../../../src/index.ts";
import { allEnded, ended, read, until } from "../../worker/setup.ts";
import { isDead, newFile, pidIn, started, textIn, workerProcess } from "./setup.ts";
import * as tasks from "./tasks.ts";
import { places } from "./tasks.ts";

describe("of a process", () => {
  test("a timeout ends a function that blocks, and its error tells how", async () => {
    const { run, queue } = await started({ concurrency: 1 });
    const file = newFile();
    await run(tasks.echo.process);
    const failed = await run(tasks.blocks.process.with({ timeout: 500 }), file);
    const pid = await pidIn(file);
    expect([isDead(pid), failed.status, failed.error?.name]).toEqual([true, "failed", "TimeoutError"]);
    expect(failed.error?.cause).toMatchObject({ name: "ChildEndedError", code: "DBQ_CHILD_ENDED" });
    expect(failed.error?.cause?.message).toContain(
      "was ended by the worker before the function had settled: signal SIGTERM",
    );
    const error = tasks.failures.at(-1) as Error;
    expect(error.cause).toBeInstanceOf(ChildEndedError);
    for (const each of [error, error.cause])
      expect(each).toMatchObject({ exitCode: null, signal: "SIGTERM", stderr: "" });
    expect(await queue.listAttempts(failed.id)).toMatchObject([{ outcome: "timeout" }]);
    expect((await run(tasks.echo.process, 1)).result).toEqual({ args: [1] });
  });

  test("SIGKILL ends a process that ignores SIGTERM, and the error has the end of its stderr", async () => {
    const { run } = await started({ concurrency: 1 });
    const file = newFile();
    await run(tasks.echo.process);
    const failed = await run(tasks.ignoresSigterm.process.with({ timeout: 500 }), file);
    expect(isDead(await pidIn(file))).toBe(true);
    expect(failed.error?.cause?.message).toMatch(
      /signal SIGKILL\nThe end of its stderr:\nI do not care\nnot yet$/,
    );
  });

  test("a stop hands the task back without a charge, when its process has ended", async () => {
    const { queue, worker, enqueue } = await started();
    const file = newFile();
    const id = await enqueue(tasks.blocks.process, file);
    const pid = await pidIn(file);
    let wasDead: boolean | undefined;
    worker.once("interrupted", () => {
      wasDead = isDead(pid);
    });
    await worker.stop({ grace: 0 });
    expect(wasDead).toBe(true);
    expect(await read(queue, id)).toMatchObject({ status: "pending", retryCount: 0, error: null });
  });

  test("what the process has started ends with it", async () => {
    const { run } = await started({ concurrency: 1 });
    const file = newFile();
    await run(tasks.echo.process);
    await run(tasks.startsOthers.process.with({ timeout: 500 }), file);
    await until(async () => isDead(await pidIn(file)));
  });
});

describe.each(places)("of a %s", (runIn) => {
  test("an exit in the middle of a function fails its attempt, and no other", async () => {
    const { run, enqueue, queue } = await started({ concurrency: 2 });
    const file = newFile();
    const other = await enqueue(tasks.waitsFor[runIn], file);
    const { error } = await run(tasks.exits[runIn], 0);
    expect(error).toMatchObject({ name: "ChildEndedError", code: "DBQ_CHILD_ENDED" });
    expect(error?.message).toMatch(/: exit code 0\nThe end of its stderr:\non my way out$/);
    writeFileSync(file, "");
    expect((await ended(queue, other)).result).toBe("seen");
  });

  test("an exception between two tasks is charged to none of them", async () => {
    const { queue } = await started({ concurrency: 1 });
    await queue.awaitTaskCompletion(await queue.enqueueTask(tasks.echo[runIn]));
    const ids = await queue.enqueueTasks([[tasks.leavesAnException[runIn]], [tasks.whereAmI[runIn]]]);
    const [first, second] = await allEnded(queue, ids as never);
    expect([first?.status, second?.status, second?.retryCount]).toEqual(["completed", "completed", 0]);
    expect(second?.result).toMatchObject({ calls: 1 });
  });
});

test("a process whose worker was killed ends within a second, with what it has started, even while it blocks", async () => {
  const { queue, kill } = await workerProcess();
  const [file, other] = [newFile(), newFile()];
  const id = await queue.enqueueTask(tasks.blocksWithAnother.process, file);
  await queue.enqueueTask(tasks.obeys.process, other);
  const pids = [...(await textIn(file)).split(" ").map(Number), await pidIn(other)];
  expect(pids.map(isDead)).toEqual([false, false, false]);
  await kill();
  const at = performance.now();
  await until(() => pids.every(isDead));
  console.log(`ended ${Math.round(performance.now() - at)} ms after their worker`);
  expect(performance.now() - at).toBeLessThan(1_000);
  expect(await read(queue, id)).toMatchObject({ status: "running" });
});
