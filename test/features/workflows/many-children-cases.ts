/** What a task promises that waits for more children than it has single waits for, on each database. */
import { sql } from "drizzle-orm";
import { describe, expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { manyChildren } from "../../../src/features/workflows/sql/fan-in.ts";
import { all, child, settled, waitForEvent } from "../../../src/features/workflows/steps.ts";
import { currentTask, type Queue, type WorkerOptions } from "../../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { end, named, patience, until } from "./support.ts";

const many = manyChildren + 20;

/** The numbers from 0 to `many`, without `many`. */
const numbers = Array.from({ length: many }, (_, n) => n);

export function manyChildrenCases(database: string, place: () => Promise<string>): void {
  async function start(options: WorkerOptions<unknown> = { concurrency: 1 }): Promise<Queue> {
    const queue = await temporaryQueue({}, await place());
    await startedWorker(queue, { pollInterval: 50, ...options } as WorkerOptions<unknown>);
    return queue;
  }

  const statusOf = async (queue: Queue, id: number) => (await queue.getTask(id))?.status;
  const parked = (queue: Queue, id: number) => until(async () => (await statusOf(queue, id)) === "waiting");
  const waitsOf = (queue: Queue, id: number) => internalsOf(queue).store.workflows.waits([id]);

  async function childrenOf(queue: Queue, id: number): Promise<number[]> {
    return await internalsOf(queue).store.workflows.children(id, 10_000);
  }

  /** As other programs do, which tell no parent. */
  async function deleteByHand(queue: Queue, ids: readonly number[]): Promise<void> {
    const text = sql.raw(`delete from dbq_tasks where id in (${ids.join()})`);
    await queue.transaction((tx: unknown) => {
      const { run, execute } = tx as Record<"run" | "execute", ((text: unknown) => unknown) | undefined>;
      return run ? void run.call(tx, text) : execute?.call(tx, text);
    });
  }

  describe(`many children on ${database}`, () => {
    test("all has one wait for them, which names the last that has not ended, and runs the task once more", async () => {
      const queue = await start();
      let runs = 0;
      const leaf = named((n: number) => n);
      const held = leaf.with({ queueName: "held" });
      const flow = named(async () => {
        runs += 1;
        return await all(numbers.map((n) => child(n % 40 === 39 ? held : leaf, n)));
      });
      const id = await queue.enqueueTask(flow);
      await parked(queue, id);
      const ids = await childrenOf(queue, id);
      const openIds = ids.filter((_, n) => n % 40 === 39);
      const only = { taskId: id, kind: "child", target: String(openIds.at(-1)) };
      await until(async () => (await waitsOf(queue, id))[0]?.target === only.target);
      expect(await waitsOf(queue, id)).toMatchObject([only]);
      await until(async () => (await statusOf(queue, ids.at(-2) as number)) === "completed");
      expect((await queue.listWaiting(String(openIds[0]))).map((task) => task.id)).toEqual([id]);
      const { waits } = (await queue.getRun(id, { limit: 2 })) ?? {};
      expect(waits?.map((wait) => wait.target)).toEqual(openIds.slice(0, 2).map(String));
      expect(await queue.listWaiting(String(ids[0]))).toEqual([]);
      await startedWorker(queue, { queueName: "held", pollInterval: 50 });
      expect((await end(queue, id)).result).toEqual(numbers);
      expect(runs).toBe(2);
      expect(await waitsOf(queue, id)).toEqual([]);
    });

    test("the wait names one child after the other when they end from the last to the first", async () => {
      const queue = await start({ concurrency: 3 });
      const leaf = named((n: number) => n);
      const flow = named(async () => {
        const levels = numbers.map((n) => leaf.with({ priority: Math.min(n, 100) }));
        return await all(numbers.map((n) => child(levels[n] as typeof leaf, n)));
      });
      expect((await end(queue, await queue.enqueueTask(flow))).result).toEqual(numbers);
    });

    test("the failure of any child wakes the task of all at once, and settled only at the end", async () => {
      const queue = await start();
      const leaf = named((n: number) => n);
      const [bad, last] = [
        named(() => Promise.reject(new Error("bad")), { maxRetries: 0 }),
        named(() => 1, { queueName: "held" }),
      ];
      const children = () => [...numbers.map((n) => child(n === 5 ? bad : leaf, n as never)), child(last)];
      const strict = named(() => all(children()).catch((error) => error.code));
      expect((await end(queue, await queue.enqueueTask(strict))).result).toBe("DBQ_TASK_FAILED");
      const patient = await queue.enqueueTask(named(() => settled(children()).then((ends) => ends.length)));
      await parked(queue, patient);
      const before = await childrenOf(queue, patient);
      await until(async () => (await statusOf(queue, before.at(-2) as number)) === "completed");
      expect(await statusOf(queue, patient)).toBe("waiting");
      await startedWorker(queue, { queueName: "held", pollInterval: 50 });
      expect((await end(queue, patient)).result).toBe(many + 1);
    });

    test.each([
      ["as many others between them", many],
      ["one other between them, and one of them that another task has started", 1],
    ])("all waits for its own ones alone, with %s", async (_, others) => {
      const queue = await start({ concurrency: 4 });
      const leaf = named((n: number) => n);
      const never = named(() => 0, { queueName: "held" });
      const key = leaf.with({ uniqueKey: "shared", queueName: "later" });
      const foreign = await queue.enqueueTask(key, -1);
      const flow = named(async () => {
        const own = numbers.map((n) => {
          if (n < others) void child.start(never);
          return child(leaf, n);
        });
        return await all([...own, child(key, -2)]);
      });
      const id = await queue.enqueueTask(flow);
      await parked(queue, id);
      await until(async () => (await waitsOf(queue, id)).length === 1);
      await startedWorker(queue, { queueName: "later", pollInterval: 50 });
      await end(queue, foreign);
      await internalsOf(queue).store.workflows.repair(0, 10);
      expect((await end(queue, id)).result).toEqual([...numbers, -1]);
    });

    test("two sets of them wake the task each for itself, and an event beside them", async () => {
      const queue = await start({ concurrency: 2 });
      const leaf = named((n: number) => n);
      const held = leaf.with({ queueName: "held" });
      const flow = named(async () => {
        const [first, second] = [leaf, held].map((fn) => settled(numbers.map((n) => child(fn, n))));
        const event = await waitForEvent<string>("beside");
        return [event, (await first)?.length, (await second)?.length];
      });
      const id = await queue.enqueueTask(flow);
      await parked(queue, id);
      await queue.emitEvent("beside", "heard");
      await until(async () => (await queue.getRun(id))?.steps.some(({ name }) => name === "beside") ?? false);
      await startedWorker(queue, { queueName: "held", pollInterval: 50 });
      expect((await end(queue, id)).result).toEqual(["heard", many, many]);
      expect(await waitsOf(queue, id)).toEqual([]);
    });

    test("the last children that end at once on two connections wake their parent once", async () => {
      const target = await place();
      const [queue, other] = [await temporaryQueue({}, target), await temporaryQueue({}, target)];
      for (const each of [queue, other]) await startedWorker(each, { concurrency: 8, pollInterval: 50 });
      const leaf = named(async (n: number) => n);
      const begun = new Map<number, number>();
      const flow = named(async (nth: number) => {
        begun.set(nth, (begun.get(nth) ?? 0) + 1);
        return (await all(numbers.map((n) => child(leaf, n)))).length;
      });
      const ids = await queue.enqueueTasks(numbers.slice(0, 10).map((nth) => [flow, nth] as const));
      for (const id of ids) expect((await end(queue, id)).result).toBe(many);
      expect(Math.max(...begun.values())).toBe(2);
    });

    test("upkeep goes on with a wait whose child another program has ended", async () => {
      const queue = await temporaryQueue({}, await place());
      const worker = await startedWorker(queue, { concurrency: 1 });
      const never = named((n: number) => n, { queueName: "held" });
      const last = named(() => -1, { queueName: "held" });
      const flow = named(() => settled([...numbers.map((n) => child(never, n)), child(last)]));
      const id = await queue.enqueueTask(flow);
      await parked(queue, id);
      await worker.stop();
      const ids = await childrenOf(queue, id);
      const { workflows } = internalsOf(queue).store;
      await deleteByHand(queue, [ids.at(-1) as number]);
      expect(await workflows.repair(0, 10)).toEqual({ woken: 1, last: undefined });
      expect(await waitsOf(queue, id)).toMatchObject([{ target: String(ids.at(-2)) }]);
      await deleteByHand(queue, ids);
      await workflows.repair(0, 10);
      expect(await statusOf(queue, id)).toBe("pending");
    });

    test("the ends of all children that a task has met stay in its steps, also when the children are deleted", async () => {
      const queue = await start({ concurrency: 4 });
      const long = "x".repeat(700_000);
      const texts = numbers.map((n) => (n === 3 || n === 60 ? long : `"${n}" \\ \u{1F30A} %s ?`));
      const leaf = named((n: number) => (n === 4 ? undefined : texts[n]));
      const bad = named(() => Promise.reject(new Error("it's bad")), { maxRetries: 0 });
      const name = uniqueName("go");
      const flow = named(async () => {
        const ends = await settled([...numbers.map((n) => child(leaf, n)), child(bad)]);
        await waitForEvent(name);
        return ends.map((one) =>
          one.status === "fulfilled" ? (one.value?.length ?? null) : one.reason.cause.message,
        );
      });
      const id = await queue.enqueueTask(flow);
      await until(async () => (await waitsOf(queue, id))[0]?.kind === "event");
      await parked(queue, id);
      const steps = await internalsOf(queue).store.workflows.steps(id);
      expect(steps.slice(0, many).map(({ value }) => value)).toEqual(
        texts.map((text, n) => (n === 4 ? null : JSON.stringify(text))),
      );
      expect(steps.every(({ startedAt }) => startedAt !== null)).toBe(true);
      await deleteByHand(queue, await childrenOf(queue, id));
      await queue.emitEvent(name);
      const lengths = texts.map((text, n) => (n === 4 ? null : text.length));
      expect((await end(queue, id)).result).toEqual([...lengths, "it's bad"]);
    });

    test("a deleted child wakes the task of all at once, and that of settled with the last of them", async () => {
      const queue = await temporaryQueue({}, await place());
      const worker = await startedWorker(queue, { concurrency: 2 });
      const held = named((n: number) => n, { queueName: "held" });
      const deleted = named((n: number) => n, { queueName: "held" });
      const children = () => numbers.map((n) => child(n === 7 ? deleted : held, n));
      const strict = await queue.enqueueTask(named(() => all(children())));
      const patient = await queue.enqueueTask(named(() => settled(children())));
      for (const id of [strict, patient]) await parked(queue, id);
      await worker.stop();
      await queue.deleteTasks({ func: deleted.taskName });
      expect(await statusOf(queue, strict)).toBe("pending");
      expect(await statusOf(queue, patient)).toBe("waiting");
      await queue.deleteTasks({ queueName: "held" });
      expect(await statusOf(queue, patient)).toBe("pending");
    });
  });

  describe(`groups of many on ${database}`, () => {
    test("a deleted member cancels a group with onFailure cancel, and what is behind it", async () => {
      const queue = await temporaryQueue({}, await place());
      const leaf = named((n: number) => n);
      const deleted = named((n: number) => n);
      const members = numbers.map((n) => [n === 5 ? deleted : leaf, n] as const);
      const group = await queue.enqueueGroup(members, { then: leaf.with({ priority: 9 }) as never });
      await queue.deleteTasks({ func: deleted.taskName });
      expect(await queue.awaitGroup(group.id, patience)).toMatchObject({ cancelled: many - 1 });
      const behind = await end(queue, group.thenId as number);
      expect([behind.status, behind.error?.message]).toEqual([
        "cancelled",
        expect.stringContaining("cancelled"),
      ]);
      expect((await end(queue, group.id)).error?.message).toContain(
        `task ${group.ids[5]}, which it waited for, was deleted`,
      );
    });

    test("a group has one wait, takes more members, and ends with the last of them", async () => {
      const queue = await start({ concurrency: 2 });
      const leaf = named((n: number) => n);
      const adds = named(
        async () => (await currentTask().group.add(numbers.map((n) => [leaf, n] as const))).length,
      );
      const after = named(() => "after");
      const group = await queue.enqueueGroup([[adds], ...numbers.map((n) => [leaf, n] as const)], {
        then: after,
      });
      expect(await waitsOf(queue, group.id)).toHaveLength(1);
      expect(await queue.awaitGroup(group.id, patience)).toMatchObject({
        ...{ total: 2 * many + 1, completed: 2 * many + 1 },
      });
      expect((await end(queue, group.thenId as number)).result).toBe("after");
    });

    test.each(["cancel", "continue"] as const)(
      "the first failure of one with onFailure %s",
      async (onFailure) => {
        const queue = await start();
        const leaf = named((n: number) => n);
        const bad = named(() => Promise.reject(new Error("bad")), { maxRetries: 0, priority: 9 });
        const group = await queue.enqueueGroup([...numbers.map((n) => [leaf, n] as const), [bad]], {
          onFailure,
        });
        const { failed, cancelled, completed } = await queue.awaitGroup(group.id, patience);
        expect(failed).toBe(1);
        expect(cancelled + completed).toBe(many);
        if (onFailure === "continue") expect(completed).toBe(many);
        else expect(cancelled).toBeGreaterThan(0);
        expect(await waitsOf(queue, group.id)).toEqual([]);
      },
    );
  });
}
