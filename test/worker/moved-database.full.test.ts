/**
 * Invariant: when the file is deleted, renamed or replaced under a queue, no call on it is acknowledged any more, since
 * no other process that opens the path would see its effect. Each caller gets an error, and a worker reports it once.
 */
import { renameSync, rmSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { DatabaseError, DatabaseMovedError, openQueue, task, type Worker } from "../../src/index.ts";
import { startedWorker, uniqueName } from "../support/queue.ts";
import { ended, queueOnFile, until } from "./setup.ts";

/** The database file, with its -wal and -shm. */
const files = (path: string) => ["", "-wal", "-shm"].map((suffix) => path + suffix);

function move(from: string, to: string): void {
  for (const [i, file] of files(from).entries()) renameSync(file, files(to)[i] as string);
}

function remove(path: string): void {
  for (const file of files(path)) rmSync(file, { force: true });
}

/** The errors that a worker reports. */
function errorsOf(worker: Worker): unknown[] {
  const errors: unknown[] = [];
  worker.on("error", (error) => errors.push(error));
  return errors;
}

const ways: [string, (path: string) => void][] = [
  ["deleted", remove],
  ["renamed", (path) => move(path, `${path}.old`)],
];

test.each(ways)(
  "a database file that is %s is reported, and a new file in its place is not touched",
  async (_, act) => {
    const { queue, path } = await queueOnFile();
    const quick = task(uniqueName(), async () => "ran");
    const worker = await startedWorker(queue);
    const errors = errorsOf(worker);
    await ended(queue, await queue.enqueueTask(quick));
    act(path);
    await vi.waitFor(async () => {
      await expect(queue.enqueueTask(quick)).rejects.toBeInstanceOf(DatabaseMovedError);
    });
    const refused = await queue.getTask(1).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(DatabaseError);
    expect(refused).toMatchObject({ code: "DBQ_DATABASE", message: expect.stringContaining(path) });
    await expect(queue.transaction(() => undefined)).rejects.toBe(refused);
    await expect(queue.awaitTaskCompletion(1)).rejects.toBe(refused);

    await using other = await openQueue(path);
    const id = await other.enqueueTask(quick);
    await until(async () => errors.length > 0);
    await worker.stop({ grace: 0 });
    expect(errors).toEqual([refused]);
    expect(await other.getTask(id)).toMatchObject({ status: "pending", generationId: 1 });
  },
);

test("a worker goes on with a database file that comes back, and settles the outcomes of the meantime", async () => {
  const { queue, path } = await queueOnFile();
  let runs = 0;
  const away = task(uniqueName(), async () => {
    runs += 1;
    move(path, `${path}.old`);
    return "ran";
  });
  const worker = await startedWorker(queue);
  const errors = errorsOf(worker);
  const id = await queue.enqueueTask(away);
  await until(async () => errors.length > 0);
  move(`${path}.old`, path);
  await vi.waitFor(
    async () => expect(await queue.getTask(id)).toMatchObject({ status: "completed" }),
    10_000,
  );
  expect(runs).toBe(1);
  expect(errors).toHaveLength(1);
});
