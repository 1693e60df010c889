/** Workers, apps and other moves that act while a queue is moved. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { type MoveProgress, moveQueue, openQueue, type Queue, remoteTask } from "../../../src/index.ts";
import { newWorker } from "../../conformance/arrange.ts";
import { temporaryFolder, temporaryQueue } from "../../support/queue.ts";
import { makeQueue, sameTasks } from "./moved-rows.ts";

const task = remoteTask<() => Promise<void>>("f");

async function filledQueue(tasks: number): Promise<{ path: string; queue: Queue }> {
  const path = join(temporaryFolder(), "dbq.db");
  await makeQueue(path, tasks);
  return { path, queue: await temporaryQueue({}, path) };
}

test("a worker that registers during the copy ends the move and keeps working", async () => {
  const { queue: old } = await filledQueue(20);
  const next = await temporaryQueue();
  const { store } = internalsOf(old);
  let coming: Promise<void> | undefined;
  const onProgress = () => {
    coming ??= store.register(newWorker("w1"));
  };
  await expect(moveQueue(old, next, { onProgress })).rejects.toThrow(
    "the old database: a worker runs on it: w1 (heartbeat",
  );
  await coming;
  expect(await store.heartbeat("w1")).toBe(true);
  await store.register(newWorker("w2"));
  await old.enqueueTask(task);
  await expect(next.enqueueTask(task)).rejects.toThrow("are being moved to this database");
  for (const id of ["w1", "w2"]) await store.unregister(id);
  expect(await moveQueue(old, next)).toMatchObject({ tasks: 21, resumed: true });
  await sameTasks(old, next);
});

test("a task enqueued to the new database just before the freeze is kept", async () => {
  const { queue: old } = await filledQueue(20);
  const next = await temporaryQueue();
  const { transfer } = internalsOf(next).store;
  const { freeze } = transfer;
  transfer.freeze = async (run) => {
    await next.enqueueTask(task);
    return await freeze(run);
  };
  await expect(moveQueue(old, next)).rejects.toThrow("the new database: it has 1 task of its own");
  transfer.freeze = freeze;
  expect(await next.countTasks()).toMatchObject({ pending: 1 });
  await next.enqueueTask(task);
  await old.enqueueTask(task);
  await next.purgeTasks();
  expect(await moveQueue(old, next)).toMatchObject({ tasks: 21, resumed: false });
});

test("a failed move restores the earlier freeze of the new database and its error message", async () => {
  const { queue: old } = await filledQueue(20);
  const next = await temporaryQueue();
  const { transfer } = internalsOf(next).store;
  const mark = { moveId: "m", run: "r", phase: "moved", other: "x", refusal: "all went to x" } as const;
  expect(await transfer.setState(mark, undefined)).toBe(true);
  expect(await transfer.freeze("r")).toBe(true);
  const { freeze } = transfer;
  transfer.freeze = async (run) => {
    if (run === "r") return await freeze(run);
    await freeze(run);
    await expect(next.enqueueTask(task)).rejects.toThrow("are being moved to this database");
    throw new Error("no permission");
  };
  await expect(moveQueue(old, next)).rejects.toThrow("no permission");
  expect(await transfer.state()).toEqual(mark);
  await expect(next.enqueueTask(task)).rejects.toThrow("all went to x");
});

test("a move aborted at any step rejects with the reason, and the old database takes tasks", async () => {
  const { queue: old } = await filledQueue(2_500);
  const next = await temporaryQueue();
  const steps: MoveProgress["state"][] = [];
  for (let stop = 1; ; stop += 1) {
    const aborter = new AbortController();
    let seen = 0;
    const onProgress = ({ state }: MoveProgress) => {
      seen += 1;
      if (seen !== stop) return;
      steps.push(state);
      aborter.abort(new Error("enough"));
    };
    const moved = await moveQueue(old, next, { onProgress, signal: aborter.signal }).catch((e: Error) => e);
    if (seen < stop) break;
    // The last step has ended when its progress is reported.
    if (!(moved instanceof Error)) break;
    expect(moved.message).toBe("enough");
    await old.enqueueTask(task);
  }
  expect(steps).toContain("closing");
  await sameTasks(old, next);
  await expect(old.enqueueTask(task)).rejects.toThrow("this queue moves to");
});

test("tasks purged after they were copied are removed from the new database, over several pages", async () => {
  const { queue: old } = await filledQueue(0);
  const next = await temporaryQueue();
  const entries = Array.from({ length: 5_300 }, (_, i) => [i % 53 === 0 ? task : remoteTask("old")] as const);
  await old.enqueueTasks(entries);
  const aborter = new AbortController();
  const onProgress = ({ state }: MoveProgress) => {
    if (state === "closing") aborter.abort(new Error("enough"));
  };
  await expect(moveQueue(old, next, { onProgress, signal: aborter.signal })).rejects.toThrow("enough");
  expect(await internalsOf(next).store.transfer.size("dbq_tasks")).toBe(5_300);
  await old.purgeTasks({ func: "old" });
  expect(await moveQueue(old, next)).toMatchObject({ tasks: 100, removed: 5_200, written: 0 });
  await sameTasks(old, next);
});

test("three concurrent moves of one queue copy every task once", async () => {
  for (let round = 0; round < 5; round += 1) {
    const { path, queue: old } = await filledQueue(1_200);
    const next = await temporaryQueue();
    const others = await Promise.all([openQueue(path), openQueue(path)]);
    const ended = await Promise.allSettled([moveQueue(old, next), ...others.map((o) => moveQueue(o, next))]);
    const failed = ended.flatMap((each) => (each.status === "rejected" ? [each.reason as Error] : []));
    for (const { message } of failed) expect(message).toMatch(/another process|are the same|of a move from/);
    await Promise.all(others.map((queue) => queue.close()));
    await moveQueue(old, next);
    await sameTasks(old, next);
    await expect(old.enqueueTask(task)).rejects.toThrow("this queue moves to");
    await next.enqueueTask(task);
  }
});
