/** Invariant: when the server crashes under `durability: "relaxed"`, tasks may run again, and each enqueued task is completed. */
import { expect, it, onTestFinished } from "vitest";
import { task } from "../../../src/index.ts";
import { noPostgres, OwnPostgres } from "../../chaos/servers/own-postgres.ts";
import { startedWorker, temporaryQueue } from "../../support/queue.ts";

const unable = noPostgres();
const skips = unable !== undefined && process.env.DBQ_REQUIRE_ALL !== "1";
if (skips) console.log(`the crash of a server is skipped: ${unable}`);

it.skipIf(skips)("a crash of the server loses no enqueued task", { timeout: 120_000 }, async () => {
  if (unable !== undefined) throw new Error(`cannot run here: ${unable}`);
  const server = await OwnPostgres.start();
  onTestFinished(() => server[Symbol.asyncDispose]());
  const runs = new Map<number, number>();
  const note = task("note", async (n: number) => {
    runs.set(n, (runs.get(n) ?? 0) + 1);
    return n;
  });
  const queue = await temporaryQueue({ durability: "relaxed" }, server.url);
  const numbers = Array.from({ length: 3_000 }, (_, n) => n);
  await queue.enqueueTasks(numbers.map((n) => [note, n] as const));
  await startedWorker(queue, { pollInterval: "50ms" });
  await expect.poll(() => runs.size, { timeout: 30_000, interval: 1 }).toBeGreaterThan(500);
  await server.down("crash");
  await server.up();
  const unfinished = async () => {
    const { pending, scheduled, running } = await queue.countTasks();
    return pending + scheduled + running;
  };
  await expect.poll(unfinished, { timeout: 60_000 }).toBe(0);
  expect((await queue.countTasks()).completed).toBe(numbers.length);
  expect([...runs.keys()].sort((a, b) => a - b)).toEqual(numbers);
});
