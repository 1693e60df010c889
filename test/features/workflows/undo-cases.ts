/** What the compensation of workflows promises, on each database. */
import { type SQL, sql } from "drizzle-orm";
import { describe, expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { child, sleep, step, waitForEvent } from "../../../src/features/workflows/steps.ts";
import { CancelTask, currentTask, type Queue, type Task, type Worker } from "../../../src/index.ts";
import { deferred, startedWorker, temporaryQueue } from "../../support/queue.ts";
import { atOnce, end, named, until } from "./support.ts";

const bad = { name: "Error", message: "bad" };

/** Dies now: another process rescues what the worker runs. It looks again while the worker beats, or its row is locked. */
async function rescue(queue: Queue, worker: Worker): Promise<void> {
  const { store } = internalsOf(queue);
  for (let charged: number | "busy" = 0; typeof charged !== "number" || charged === 0; ) {
    const known = (await store.workers()).find(({ id }) => id === worker.id);
    charged = await store.rescue(worker.id as string, known?.beat as number);
  }
}

/** As if so many attempts to undo had begun. */
const hasBegun = (queue: Queue, runs: number): Promise<void> =>
  write(queue, sql`update dbq_waits set mode = ${String(runs)} where kind = 'undo'`);

async function write(queue: Queue, statement: SQL): Promise<void> {
  type Tx = Partial<Record<"run" | "execute", (text: typeof statement) => unknown>>;
  await queue.transaction((tx: unknown) => {
    const { run, execute } = tx as Tx;
    return (run ?? execute)?.call(tx, statement) as undefined;
  });
}

const undoing = async (queue: Queue, id: number) => (await queue.getTask(id))?.undoing === true;

/** As if a worker of another machine had run the tasks of this queue to a step that has something to undo. */
async function steppedByHand(queue: Queue, queueName: string): Promise<void> {
  const { store } = internalsOf(queue);
  const other = { host: "elsewhere", bootId: null, pidNamespace: null, pid: 1, processStart: null };
  await store.register({
    ...other,
    id: "elsewhere:1",
    queueNames: [queueName],
    concurrency: 50,
    lease: 600_000,
  });
  const tasks = await queue.listTasks({ queueName, limit: 50 });
  const claim = {
    workerId: "elsewhere:1",
    queueNames: [queueName],
    funcs: [tasks[0]?.func ?? ""],
    limit: 50,
  };
  const { claimed } = await store.settleAndClaim({ outcomes: [], claim });
  for (const task of claimed) {
    const one = { name: "s", seq: 1, value: "1", error: null, startedAt: null, undoes: true };
    expect(await store.workflows.write(task, [one], [])).toEqual([]);
  }
}

/** Fails, and its undo never settles the first time. */
function hangingOnce() {
  const [begun, calls] = [deferred(), [] as string[]];
  const refund = () => {
    calls.push("refund");
    begun.resolve();
    return calls.length === 1 ? new Promise(() => undefined) : undefined;
  };
  const flow = named(
    async () => {
      await step("charge", () => 1, { undo: refund });
      throw new Error("bad");
    },
    { maxRetries: 0 },
  );
  return { flow, begun, calls };
}

const storedStep = { name: "by hand", seq: 1, value: "1", error: null, startedAt: null };

/** A schema by which a text becomes a date. */
const asDate = () => ({
  "~standard": {
    version: 1 as const,
    vendor: "test",
    validate: (value: unknown) => ({ value: new Date(value as string) }),
  },
});

export function undoCases(database: string, place: () => Promise<string>): void {
  async function start(options = {}) {
    const target = await place();
    const queue = await temporaryQueue({}, target);
    const worker = await startedWorker(queue, { pollInterval: 50, concurrency: 1, ...options });
    return { queue, worker, place: target };
  }

  const states = async (queue: Queue, id: number) =>
    (await queue.getRun(id))?.steps.map(({ name, undo }) => [name, undo]);

  const waitsIn = (queue: Queue, id: number) =>
    until(async () => (await queue.getTask(id))?.status === "waiting");

  describe(`undo on ${database}`, () => {
    test("a task that fails undoes its stored steps, the last one first, and ends then", async () => {
      const done: unknown[] = [];
      const { queue, worker } = await start();
      worker.on("failed", ({ error }) => done.push(["event", error?.message]));
      const flow = named(
        async () => {
          await step("charge", () => 7, {
            undo: (paid) => done.push(["refund", paid, currentTask().stepKey]),
          });
          await step("note", () => "kept");
          await step("ship", () => "box", { undo: { run: async (box) => done.push(["return", box]) } });
          throw new Error("bad");
        },
        { maxRetries: 1, ...atOnce, onFailure: (task) => done.push(["hook", task.status, task.retryCount]) },
      );
      const id = await queue.enqueueTask(flow);
      const ended = await end(queue, id);
      expect(ended).toMatchObject({ status: "failed", undoing: false, error: bad, retryCount: 1 });
      expect(ended.error?.undo).toBeUndefined();
      await until(async () => done.length >= 5);
      expect(done).toEqual([
        ["hook", "scheduled", 1],
        ["return", "box"],
        ["refund", 7, expect.stringMatching(/undo%20charge~1$/)],
        ["hook", "failed", 1],
        ["event", "bad"],
      ]);
      expect(await states(queue, id)).toEqual([
        ["charge", "done"],
        ["note", undefined],
        ["ship", "done"],
      ]);
      expect((await queue.listAttempts(id)).length).toBe(2);
    });

    test("a saga that is cancelled while it waits is undone, in spite of a pause, and holds its key until then", async () => {
      const { queue } = await start();
      const hold = deferred();
      const refunds: number[] = [];
      const flow = named(async () => {
        const paid = await step("charge", () => 7, {
          undo: async (value) => {
            await hold.promise;
            refunds.push(value);
          },
        });
        await waitForEvent("confirmed", { timeout: "3d" });
        return paid;
      });
      const id = await queue.enqueueTask(flow.with({ uniqueKey: "saga" }));
      await waitsIn(queue, id);
      await queue.pause({ queueName: "default" });
      const cancelled = await queue.cancelTask(id, { reason: "no" });
      expect(cancelled).toMatchObject({ undoing: true, error: { message: "no" }, waitUntil: null });
      expect(["pending", "scheduled", "running"]).toContain(cancelled.status);
      expect(await queue.enqueueTask(flow.with({ uniqueKey: "saga" }))).toBe(id);
      await until(async () => (await queue.getTask(id))?.status === "running");
      hold.resolve();
      expect(await end(queue, id)).toMatchObject({ status: "cancelled", error: { message: "no" } });
      expect(refunds).toEqual([7]);
      expect(await queue.enqueueTask(flow.with({ uniqueKey: "saga" }))).not.toBe(id);
    });

    test("a task whose worker died in the last attempt is undone", async () => {
      const { queue, worker } = await start();
      const undone: string[] = [];
      const shipping = deferred();
      const flow = named(
        async () => {
          await step("charge", () => 7, { undo: () => undone.push("refund") });
          shipping.resolve();
          await step("ship", () => new Promise(() => undefined), { undo: () => undone.push("return") });
        },
        { maxRetries: 0 },
      );
      const id = await queue.enqueueTask(flow);
      await shipping.promise;
      await rescue(queue, worker);
      expect(await end(queue, id)).toMatchObject({ status: "failed", error: { name: "WorkerCrashed" } });
      expect(undone).toEqual(["refund"]);
    });

    test("a cancelled function stops before its steps are undone, and the step that it was in is undone, too", async () => {
      const { queue } = await start();
      const said: string[] = [];
      const [inStep, goOn] = [deferred(), deferred()];
      const flow = named(async () => {
        await step("charge", () => 1, { undo: () => said.push("refund") });
        await step(
          "ship",
          async () => {
            inStep.resolve();
            await goOn.promise;
            said.push("shipped");
          },
          { undo: () => said.push("return") },
        );
        await step("more", () => said.push("more"));
      });
      const id = await queue.enqueueTask(flow);
      await inStep.promise;
      expect(await queue.cancelTask(id)).toMatchObject({ undoing: true });
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(said).toEqual([]);
      goOn.resolve();
      expect(await end(queue, id)).toMatchObject({ status: "cancelled" });
      expect(said).toEqual(["shipped", "return", "refund"]);
    });

    test("a function that waits in its slot is undone when another process cancels its task", async () => {
      const { queue, place: target } = await start({ concurrency: 2 });
      const other = await temporaryQueue({}, target);
      const undone: string[] = [];
      const flow = named(async () => {
        await step("charge", () => 1, { undo: () => undone.push("refund") });
        await waitForEvent("never");
      });
      const id = await queue.enqueueTask(flow);
      await until(async () => (await queue.getRun(id))?.steps.length === 1);
      expect(await other.cancelTask(id)).toMatchObject({ undoing: true });
      expect(await end(queue, id)).toMatchObject({ status: "cancelled" });
      expect(undone).toEqual(["refund"]);
    });

    test("a step that is being committed when its task is cancelled is undone", async () => {
      const { queue, place: target } = await start();
      // On SQLite nothing comes between.
      if (internalsOf(queue).store.synchronous) return;
      const other = await temporaryQueue({}, target);
      const undone: string[] = [];
      const [inside, goOn] = [deferred(), deferred()];
      const flow = named(async () => {
        const book = async () => {
          inside.resolve();
          await goOn.promise;
        };
        await step.within("book", book, { undo: async () => undone.push("unbook") });
        await waitForEvent("never");
      });
      const id = await queue.enqueueTask(flow);
      await inside.promise;
      // The step has no lock until it is stored: then the cancel waits for it.
      const within = queue.transaction(async (tx: unknown) => {
        const { workflows } = internalsOf(queue).store.within(tx);
        expect(await workflows.storeStep({ id, generationId: 2 }, { ...storedStep, undoes: true })).toBe(
          true,
        );
        const cancelled = other.cancelTask(id);
        await new Promise((resolve) => setTimeout(resolve, 300));
        return { cancelled };
      });
      const { cancelled } = (await within) as unknown as { cancelled: Promise<Task> };
      expect(await cancelled).toMatchObject({ undoing: true });
      goOn.resolve();
      // The function does not come to the step that the test has stored.
      expect((await end(queue, id)).error?.undo).toEqual([
        { step: "book", status: "done" },
        { step: "by hand", status: "unknown" },
      ]);
      expect(undone).toEqual(["unbook"]);
    });

    test("tasks that nobody may undo yet hide no other one, and an undo keeps no slot from other tasks", async () => {
      const { queue } = await start();
      const hold = deferred();
      const part = named(async () => await waitForEvent("never"));
      const elsewhere = part.with({ queueName: "nobody's" });
      const blocked = named(async () => {
        await step("charge", () => 1, { undo: () => undefined });
        await child(elsewhere);
      });
      const ids = await queue.enqueueTasks(Array.from({ length: 12 }, () => [blocked] as const));
      for (const id of ids) await waitsIn(queue, id);
      await steppedByHand(queue, "nobody's");
      for (const id of ids) expect(await queue.cancelTask(id)).toMatchObject({ undoing: true });
      const slow = named(
        async () => {
          await step("charge", () => 1, { undo: () => hold.promise });
          throw new Error("bad");
        },
        { maxRetries: 0 },
      );
      const id = await queue.enqueueTask(slow);
      await until(async () => (await queue.getTask(id))?.status === "running" && (await undoing(queue, id)));
      expect(await end(queue, await queue.enqueueTask(named(() => "beside")))).toMatchObject({
        result: "beside",
      });
      hold.resolve();
      expect(await end(queue, id)).toMatchObject({ status: "failed", error: bad });
      expect(await queue.countTasks({ func: blocked.taskName } as never)).toMatchObject({ scheduled: 12 });
    });

    test("an undo gets what the schema has made of the arguments, and beforeRun runs before it", async () => {
      const { queue } = await start();
      const said: unknown[] = [];
      const input = asDate();
      const flow = named(
        async (at: Date) => {
          await step("charge", () => 1, { undo: () => said.push(at.getTime()) });
          throw new Error("bad");
        },
        { maxRetries: 0, input, beforeRun: () => said.push("before") } as never,
      );
      expect(await end(queue, await queue.enqueueTask(flow, "1970-01-01T00:00:01Z" as never))).toMatchObject({
        status: "failed",
        error: bad,
      });
      expect(said).toEqual(["before", "before", 1_000]);
    });

    test("a step that was not undone is undone when a task that was retried fails again", async () => {
      const { queue } = await start();
      let broken = true;
      const refunds: number[] = [];
      const refund = () => {
        if (broken) throw new Error("no bank");
        refunds.push(1);
      };
      const flow = named(
        async () => {
          await step("charge", () => 1, { undo: { run: refund, maxRetries: 0 } });
          throw new Error("bad");
        },
        { maxRetries: 0 },
      );
      const id = await queue.enqueueTask(flow);
      expect((await end(queue, id)).error?.undo).toMatchObject([{ status: "failed" }]);
      broken = false;
      await queue.retryTask(id);
      const ended = await end(queue, id);
      expect([ended.status, ended.error?.undo, refunds]).toEqual(["failed", undefined, [1]]);
    });

    test("an undo that fails for good stops no other; retryTask undoes it again, and the task ends as it was to end", async () => {
      const { queue } = await start();
      let broken = true;
      const mended = deferred();
      const calls: string[] = [];
      const refund = async () => {
        calls.push("refund");
        if (broken) throw new Error("no bank");
        await mended.promise;
      };
      const flow = named(async () => {
        await step("charge", () => 1, { undo: { run: refund, maxRetries: 1, ...atOnce } });
        await step("ship", () => 2, { undo: () => calls.push("return") });
        throw new CancelTask("enough");
      });
      const id = await queue.enqueueTask(flow);
      const failed = await end(queue, id);
      expect(failed).toMatchObject({ status: "failed", error: { name: "CancelTask", message: "enough" } });
      expect(failed.error?.undo).toEqual([
        { step: "ship", status: "done" },
        { step: "charge", status: "failed", error: { name: "Error", message: "no bank" } },
      ]);
      expect((await queue.getRun(id))?.steps[0]).toMatchObject({
        undo: "failed",
        undoError: { message: "no bank" },
      });
      expect(calls).toEqual(["return", "refund", "refund"]);
      const open = async () => (await queue.listFailures()).map((kind) => kind.open);
      expect(await open()).toEqual([1]);
      broken = false;
      expect(await queue.retryTask(id, { undo: true })).toMatchObject({ undoing: true, finishedAt: null });
      // While it undoes its steps, it is not failed.
      expect((await open()).filter((tasks) => tasks > 0)).toEqual([]);
      mended.resolve();
      const ended = await end(queue, id);
      expect(ended).toMatchObject({ status: "cancelled", error: { message: "enough" } });
      expect(ended.error?.undo).toBeUndefined();
      expect(calls).toEqual(["return", "refund", "refund", "refund"]);
      await expect(queue.retryTask(id, { undo: true })).rejects.toThrow("no step whose undo has failed");
    });

    test("a stored step that the function does not come to is unknown", async () => {
      const { queue } = await start();
      let deployed = false;
      const undone: string[] = [];
      const flow = named(
        async () => {
          if (!deployed) await step("old", () => 1, { undo: () => undone.push("old") });
          await step("kept", () => 1, { undo: () => undone.push("kept") });
          deployed = true;
          await sleep("a while", "1d");
        },
        { maxRetries: 0 },
      );
      const id = await queue.enqueueTask(flow);
      await waitsIn(queue, id);
      await queue.cancelTask(id);
      expect(await end(queue, id)).toMatchObject({
        status: "failed",
        error: {
          undo: [
            { step: "kept", status: "done" },
            { step: "old", status: "unknown" },
          ],
        },
      });
      expect(undone).toEqual(["kept"]);
    });

    test("step.within undoes in one transaction with its mark", async () => {
      const { queue } = await start();
      const leaf = named((text: string) => text, { maxRetries: 0 });
      const key = (name: string) => leaf.with({ requestId: `${name}-of-the-flow` });
      let tries = 0;
      const flow = named(
        async () => {
          await step.within("book", (tx) => queue.within(tx).enqueueTask(key("booked"), "booked"), {
            undo: {
              ...atOnce,
              run: (tx, booked) => {
                const made = queue.within(tx).enqueueTask(key("undone"), `undo ${booked}`);
                tries += 1;
                if (tries === 1) throw new Error("rolled back");
                return made;
              },
            },
          });
          throw new Error("bad");
        },
        { maxRetries: 0 },
      );
      const id = await queue.enqueueTask(flow);
      expect(await end(queue, id)).toMatchObject({ status: "failed", error: bad });
      const [booked] = await queue.listTasks({ requestId: "booked-of-the-flow" });
      const undone = await queue.listTasks({ requestId: "undone-of-the-flow" });
      expect(undone.map(({ args }) => args)).toEqual([[`undo ${booked?.id}`]]);
      expect(tries).toBe(2);
    });

    test("nobody retries, changes, cancels or deletes a task that undoes its steps", async () => {
      const { queue } = await start();
      const hold = deferred();
      const flow = named(
        async () => {
          await step("charge", () => 1, { undo: () => hold.promise });
          throw new Error("bad");
        },
        { maxRetries: 0 },
      );
      const id = await queue.enqueueTask(flow);
      await until(async () => (await queue.getTask(id))?.undoing === true);
      const refused = { code: "DBQ_TASK_UNDOING" };
      await expect(queue.retryTask(id)).rejects.toMatchObject(refused);
      await expect(queue.retryTask(id, { fromStep: "charge" })).rejects.toMatchObject(refused);
      await expect(queue.updateTask(id, { priority: 7 })).rejects.toMatchObject(refused);
      const { generationId } = await queue.cancelTask(id);
      expect(await queue.cancelTask(id)).toMatchObject({ undoing: true, error: bad });
      expect((await queue.getTask(id))?.generationId).toBeLessThanOrEqual(generationId + 1);
      const every = { func: flow.taskName } as never;
      for (const act of [queue.cancelTasks, queue.retryTasks, queue.deleteTasks])
        expect(await act(every)).toEqual({ changed: 0, skipped: 1 });
      expect(await queue.purgeTasks({ includeRunning: true })).toMatchObject({ purged: 0 });
      const { workflows } = internalsOf(queue).store;
      expect([await workflows.lastWaiting(10), await workflows.firstWaits([id], 10)]).toEqual([[], []]);
      expect((await queue.getRun(id))?.waits).toEqual([]);
      hold.resolve();
      expect(await end(queue, id)).toMatchObject({ status: "failed", error: bad });
    });

    test("children that are cancelled with their parent undo their steps before it does", async () => {
      const { queue } = await start({ concurrency: 2 });
      const undone: string[] = [];
      const part = named(async () => {
        await step("part", () => 1, {
          undo: async () => {
            await new Promise((resolve) => setTimeout(resolve, 200));
            undone.push("part");
          },
        });
        await waitForEvent("never");
      });
      const whole = named(async () => {
        await step("whole", () => 1, { undo: () => undone.push("whole") });
        await child(part);
      });
      const id = await queue.enqueueTask(whole);
      await until(async () => (await queue.listWaiting("never")).length === 1);
      await waitsIn(queue, id);
      await queue.cancelTask(id);
      expect(await end(queue, id)).toMatchObject({ status: "cancelled" });
      expect(undone).toEqual(["part", "whole"]);
    });

    test("the undo of a child that failed comes before its parent hears of it", async () => {
      const { queue } = await start();
      const undone: string[] = [];
      const part = named(
        async () => {
          await step("part", () => 1, { undo: () => undone.push("part") });
          throw new Error("bad");
        },
        { maxRetries: 0 },
      );
      const whole = named(async () => {
        await child(part).catch(() => undone.push("caught"));
      });
      const id = await queue.enqueueTask(whole);
      expect(await end(queue, id)).toMatchObject({ status: "completed" });
      expect(undone).toEqual(["part", "caught"]);
    });

    test.each([
      ["a retry", undefined],
      ["a retry from this step", { fromStep: "charge" }],
    ])(
      "an undone step counts as not stored: %s runs it again under another key, and undoes it again",
      async (_, options) => {
        const { queue } = await start();
        const [keys, undone] = [[] as unknown[], [] as unknown[]];
        const flow = named(
          async () => {
            await step("charge", () => keys.push(currentTask().stepKey), {
              undo: () => undone.push(currentTask().stepKey),
            });
            if (keys.length < 3) throw new Error("bad");
            return "done";
          },
          { maxRetries: 0 },
        );
        const id = await queue.enqueueTask(flow);
        for (const times of [1, 2]) {
          expect(await end(queue, id)).toMatchObject({ status: "failed" });
          expect([new Set(keys).size, new Set(undone).size]).toEqual([times, times]);
          await queue.retryTask(id, options);
        }
        expect(await end(queue, id)).toMatchObject({ status: "completed", result: "done" });
        expect([new Set(keys).size, undone.length]).toEqual([3, 2]);
        expect(await states(queue, id)).toEqual([["charge", "wanted"]]);
      },
    );

    test("a worker that stops leaves its undos to the next one", async () => {
      const { queue, worker } = await start();
      const { flow, begun, calls } = hangingOnce();
      const id = await queue.enqueueTask(flow);
      await begun.promise;
      await worker.stop({ grace: 0 });
      expect(await queue.getTask(id)).toMatchObject({ undoing: true, status: "scheduled" });
      await startedWorker(queue, { concurrency: 1 });
      expect(await end(queue, id)).toMatchObject({ status: "failed", error: bad });
      expect(calls).toEqual(["refund", "refund"]);
    });

    test("a worker that is unregistered hands its undos to the next one", async () => {
      const { queue, worker } = await start();
      const { flow, begun, calls } = hangingOnce();
      const id = await queue.enqueueTask(flow);
      await begun.promise;
      await queue.pause({ queueName: "default" });
      expect(await internalsOf(queue).store.unregister(worker.id as string)).toBe(1);
      expect(await queue.getTask(id)).toMatchObject({ undoing: true, status: "scheduled" });
      expect(await end(queue, id)).toMatchObject({ status: "failed", error: bad });
      expect(calls).toEqual(["refund", "refund"]);
    });

    test("a function that ends its process each time is given up after ten attempts to undo", async () => {
      const { queue, worker } = await start();
      let attempts = 0;
      const flow = named(async () => {
        attempts += 1;
        if (attempts === 2) await hasBegun(queue, 9);
        if (attempts > 1) await rescue(queue, worker);
        await step("charge", () => 1, { undo: () => undefined });
        throw new CancelTask("enough");
      });
      const id = await queue.enqueueTask(flow);
      expect(await end(queue, id)).toMatchObject({
        status: "failed",
        retryCount: 0,
        error: { message: "enough", undo: [{ step: "charge", status: "unknown" }] },
      });
      expect(attempts).toBe(3);
    });

    test("a task whose arguments cannot be read any more ends without its undos, and its function is not called", async () => {
      const { queue } = await start();
      let calls = 0;
      const flow = named(
        async () => {
          calls += 1;
          await step("charge", () => 1, { undo: () => undefined });
          await waitForEvent("never");
        },
        { timeout: "1m" },
      );
      const id = await queue.enqueueTask(flow);
      await waitsIn(queue, id);
      await write(queue, sql`update dbq_tasks set args = '{"no":"array"}' where id = ${id}`);
      expect(await queue.cancelTask(id)).toMatchObject({ undoing: true });
      expect(await end(queue, id)).toMatchObject({
        status: "failed",
        error: { undo: [{ step: "charge", status: "unknown" }] },
      });
      expect(calls).toBe(1);
    });

    test("a task without a stored undo ends at once", async () => {
      const { queue } = await start();
      const flow = named(async () => {
        await step("plain", () => 1);
        await waitForEvent("never");
        await step("later", () => 1, { undo: () => undefined });
      });
      const id = await queue.enqueueTask(flow);
      await waitsIn(queue, id);
      expect(await queue.cancelTask(id)).toMatchObject({ status: "cancelled", undoing: false });
    });
  });
}
