/** What `queue.listFailures()` tells of real attempts, on any database. */
import { expect, test } from "vitest";
import { step } from "../../../src/features/workflows/steps.ts";
import { CancelTask, type Queue, remoteTask, task, type Worker } from "../../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { Broker, newDrain } from "../drain/broker.ts";
import { startedAgent, startedManager, tokenFor } from "../manager/setup.ts";

/** A task that fails with the message that it is given. */
export function failing(maxRetries = 0) {
  const name = uniqueName("fails");
  return task(
    name,
    (message: string) => {
      throw message.startsWith("wrong") ? new TypeError(message) : new Error(message);
    },
    { maxRetries, backoff: () => 0 },
  );
}

/** Runs the tasks with these messages to their ends. What the worker has counted is written at its stop. */
export async function run(queue: Queue, fails: ReturnType<typeof failing>, messages: string[]) {
  const worker: Worker = await startedWorker(queue);
  const ids = await queue.enqueueTasks(messages.map((message) => [fails, message] as const));
  for (const id of ids) await queue.awaitTaskCompletion(id, { timeout: "20s" });
  await worker.stop();
  return ids;
}

export function testsOn(place: () => Promise<string>) {
  test("failures that differ by their values are one kind, and the one with the most failed tasks comes first", async () => {
    const queue = await temporaryQueue({}, await place());
    expect(await queue.listFailures()).toEqual([]);
    const fails = failing(1);
    const began = Date.now();
    const ids = await run(queue, fails, [
      "no user 7",
      "wrong host 'a'",
      "no user 8",
      "no user 9",
      "wrong host 'b'",
    ]);
    const found = await queue.listFailures();
    expect(found).toMatchObject([
      { func: fails.taskName, errorName: "Error", message: "no user <n>", count: 6, open: 3, sample: ids[3] },
      { errorName: "TypeError", message: "wrong host '…'", count: 4, open: 2, sample: ids[4] },
    ]);
    for (const { id, firstAt, lastAt } of found) {
      expect(id).toMatch(/^[0-9a-f]{12}$/);
      expect(firstAt.getTime()).toBeGreaterThanOrEqual(began);
      expect(lastAt.getTime()).toBeGreaterThanOrEqual(firstAt.getTime());
      expect(lastAt.getTime()).toBeLessThanOrEqual(Date.now());
    }
    const attempts = await queue.listAttempts(ids[0] as number);
    expect(attempts.map(({ failure }) => failure)).toEqual([found[0]?.id, found[0]?.id]);
  });

  test("all tasks of a kind are retried, counted, listed and deleted by its id", async () => {
    const queue = await temporaryQueue({}, await place());
    const fails = failing();
    const ids = await run(queue, fails, ["no user 7", "no user 8", "wrong", "no user 9"]);
    const [users, wrong] = await queue.listFailures();
    const failure = String(users?.id);
    expect((await queue.listTasks({ failure })).map(({ id }) => id)).toEqual([ids[3], ids[1], ids[0]]);
    expect(await queue.countTasks({ failure })).toMatchObject({ failed: 3, completed: 0 });
    expect(await queue.retryTasks({ failure }, { limit: 2 })).toEqual({ changed: 2, skipped: 0 });
    expect(await queue.countTasks({ failure })).toMatchObject({ failed: 1 });
    expect((await queue.listFailures())[0]).toMatchObject({ id: failure, open: 1, count: 3 });
    expect(await queue.cancelTasks({ failure })).toEqual({ changed: 0, skipped: 1 });
    expect(await queue.deleteTasks({ failure: String(wrong?.id) })).toEqual({ changed: 1, skipped: 0 });
    // What was counted stays, and its only task is gone.
    const kinds = new Map((await queue.listFailures()).map((kind) => [kind.id, kind]));
    expect(kinds.get(String(wrong?.id))).toMatchObject({ count: 1, open: 0, sample: null });
    expect(await queue.retryTasks({ failure: "nothing" })).toEqual({ changed: 0, skipped: 0 });
  });

  test("what completes, is cancelled, or fails at first and then completes is no open failure", async () => {
    const queue = await temporaryQueue({}, await place());
    let runs = 0;
    const name = uniqueName("later");
    const later = task(
      name,
      (how: string) => {
        if (how === "cancel") throw new CancelTask("enough");
        runs += 1;
        if (how === "later" && runs === 1) throw new Error("not yet");
      },
      { maxRetries: 1, backoff: () => 0 },
    );
    const worker = await startedWorker(queue, { concurrency: 1 });
    for (const how of ["later", "cancel", "complete"])
      await queue.awaitTaskCompletion(await queue.enqueueTask(later, how), { timeout: "20s" });
    await worker.stop();
    expect(await queue.listFailures()).toMatchObject([{ message: "not yet", count: 1, open: 0 }]);
  });

  test("each failed attempt of a task that undoes its steps counts, also the last one", async () => {
    const queue = await temporaryQueue({}, await place());
    const saga = task(
      uniqueName("saga"),
      async () => {
        await step("charge", () => 1, { undo: () => undefined });
        throw new Error("sold out");
      },
      { maxRetries: 1, backoff: () => 0 },
    );
    const worker = await startedWorker(queue);
    await queue.awaitTaskCompletion(await queue.enqueueTask(saga), { timeout: "20s" });
    await worker.stop();
    expect(await queue.listFailures()).toMatchObject([{ message: "sold out", count: 2, open: 1 }]);
  });

  test("`func`, `since` and `limit` choose kinds", async () => {
    const queue = await temporaryQueue({}, await place());
    const [a, b] = [failing(), failing()];
    await run(queue, a, ["one", "two", "three"]);
    await run(queue, b, ["one"]);
    expect(await queue.listFailures({ func: b.taskName })).toMatchObject([
      { func: b.taskName, message: "one" },
    ]);
    expect(await queue.listFailures({ limit: 2 })).toHaveLength(2);
    const later = await queue.listFailures({ since: new Date(Date.now() + 120_000) });
    expect(later.map(({ count, open }) => [count, open])).toEqual(Array(4).fill([0, 1]));
    expect(await queue.listFailures({ since: "1h", limit: 1_000 })).toHaveLength(4);
  });

  test("attempts of agents and messages that a drain could not send have kinds, too", async () => {
    const queue = await temporaryQueue({}, await place());
    const fails = failing();
    const manager = await startedManager(queue);
    await startedAgent([manager], { token: await tokenFor(queue, [fails.taskName]), tasks: [fails] });
    await queue.awaitTaskCompletion(await queue.enqueueTask(fails, "agent 7"), { timeout: "20s" });
    await manager.stop();
    const broker = new Broker();
    broker.faults = [async (messages) => messages.map(() => new Error("message 5 is too odd"))];
    const { carrier } = newDrain(queue, { to: broker, queueName: "mail" });
    const sent = await queue.enqueueTask(remoteTask("mail").with({ queueName: "mail" }));
    await carrier.start();
    await queue.awaitTaskCompletion(sent, { timeout: "20s" });
    await carrier.stop();
    const found = (await queue.listFailures()).map(({ func, message, count, open }) => [
      func,
      message,
      count,
      open,
    ]);
    expect(found.sort()).toEqual([
      [fails.taskName, "agent <n>", 1, 1],
      ["mail", "message <n> is too odd", 1, 1],
    ]);
  });
}
