/** What workflows promise, on each database. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { describe, expect, onTestFinished, test } from "vitest";
import { TestClock } from "../../../src/base/runtime/clock.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import {
  all,
  child,
  race,
  settled,
  sleep,
  step,
  waitForEvent,
} from "../../../src/features/workflows/steps.ts";
import {
  CancelTask,
  currentTask,
  getRunBeginning,
  type Queue,
  type Run,
  type TaskFunction,
  task,
  type WorkerOptions,
} from "../../../src/index.ts";
import { deferred, queueByClock, startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { schemaOf } from "../../support/schemas.ts";
import { atOnce, end, named, patience, until } from "./support.ts";

export function workflowCases(database: string, place: () => Promise<string>): void {
  const places = new WeakMap<Queue, string>();
  /** The same database once more. */
  const beside = async (queue: Queue) => await temporaryQueue({}, places.get(queue) as string);

  /** One slot: a task that waits gives it up at once. */
  async function start(options: WorkerOptions<unknown> = { concurrency: 1 }, clock?: TestClock) {
    const target = await place();
    const queue = clock ? (await queueByClock(target, clock)).queue : await temporaryQueue({}, target);
    places.set(queue, target);
    await startedWorker(queue, { pollInterval: 50, ...options } as WorkerOptions<unknown>);
    return queue;
  }

  const statusOf = async (queue: Queue, id: number) => (await queue.getTask(id))?.status;
  const waitsIn = (queue: Queue, id: number) => until(async () => (await statusOf(queue, id)) === "waiting");

  describe(`steps on ${database}`, () => {
    test("a step that is stored does not run again; what is outside of steps does", async () => {
      const queue = await start();
      const [outside, inside] = [[] as string[], [] as string[]];
      const flow = named(async () => {
        outside.push("x");
        const one = await step("same", () => inside.push("one"));
        const two = await step("same", () => inside.push("two"));
        const three = await step("same#2", () => inside.push("three"));
        const nothing = await step("nothing", () => undefined);
        if (outside.length < 3) throw new Error("again");
        return [one, two, three, nothing === undefined];
      }, atOnce);
      const done = await end(queue, await queue.enqueueTask(flow));
      expect(done).toMatchObject({ status: "completed", result: [1, 2, 3, true], retryCount: 2 });
      expect([outside.length, inside]).toEqual([3, ["one", "two", "three"]]);
      const run = await queue.getRun(done.id);
      expect(run?.steps.map(({ name, value }) => [name, value])).toEqual([
        ["same", 1],
        ["same#2", 2],
        ["same#2#2", 3],
        ["nothing", undefined],
      ]);
    });

    test("a step that fails runs again with the next attempt, unless the function has caught its error and gone on", async () => {
      const queue = await start();
      const calls: string[] = [];
      let attempts = 0;
      const flow = named(async () => {
        attempts += 1;
        const caught = await step("caught", () => {
          calls.push("caught");
          throw new RangeError("no luck");
        }).catch((error: Error) => `${error.name}: ${error.message}`);
        await step("next", () => calls.push("next"));
        await step("uncaught", () => {
          calls.push("uncaught");
          if (attempts < 3) throw new Error("not yet");
        });
        return caught;
      }, atOnce);
      const done = await end(queue, await queue.enqueueTask(flow));
      expect(done.result).toBe("RangeError: no luck");
      expect(calls).toEqual(["caught", "next", "uncaught", "uncaught", "uncaught"]);
    });

    test("an error that is stored since another step has gone on, but was not caught, does not stay", async () => {
      const queue = await start();
      let attempts = 0;
      const flow = named(async () => {
        attempts += 1;
        const failed = deferred();
        const other = (async () => {
          await failed.promise;
          await step("beside", () => "b");
        })();
        await Promise.all([
          step("fails once", async () => {
            if (attempts > 1) return;
            throw new Error("no luck");
          }).catch(async (error) => {
            failed.resolve();
            await other;
            throw error;
          }),
          attempts > 1 ? failed.resolve() : other,
        ]);
        return attempts;
      }, atOnce);
      expect(await end(queue, await queue.enqueueTask(flow))).toMatchObject({
        status: "completed",
        result: 2,
      });
    });

    test("a step is tried again by its own options, and its key stays the same", async () => {
      const queue = await start();
      const keys: (string | undefined)[] = [];
      const flow = named(async () => {
        const call = () => {
          keys.push(currentTask().stepKey);
          if (keys.length < 3) throw new Error("again");
          return keys.length;
        };
        const tries = await step("charge / 1", call, { maxRetries: 2, backoff: () => 1 });
        await step("other", () => keys.push(currentTask().stepKey));
        return [tries, currentTask().stepKey === undefined];
      });
      const done = await end(queue, await queue.enqueueTask(flow));
      expect(done).toMatchObject({ result: [3, true], retryCount: 0 });
      expect(new Set(keys.slice(0, 3)).size).toBe(1);
      expect(keys[3]).not.toBe(keys[0]);
      expect(keys[0]).toMatch(new RegExp(`^dbq-${done.id}-[0-9a-z]+-charge%20%2F%201$`));
    });

    test("a step has no steps, waits or children of its own, and race needs a promise", async () => {
      const queue = await start();
      const leaf = named(() => 1);
      const flow = named(async () => {
        const inside = [
          () => step("inner", () => 1),
          () => step.within("inner", () => 1),
          () => sleep("inner", 1),
          () => waitForEvent("inner"),
          () => child(leaf),
          () => child.start(leaf),
        ];
        const outside = [
          (act: () => unknown) => step("outer", act),
          (act: () => unknown) => step("outer", async () => await act()),
          (act: () => unknown) => step.within("outer", () => act()),
        ];
        const messages: string[] = [];
        for (const run of outside)
          for (const act of inside) messages.push(String(await run(act).catch((error) => error.message)));
        return [...messages, await race([]).catch((error) => error.message)];
      });
      const messages = (await end(queue, await queue.enqueueTask(flow))).result as string[];
      expect(messages.slice(0, 18)).toEqual(Array(18).fill(expect.stringContaining("outside of step")));
      expect(messages[18]).toContain("at least one promise");
    });

    test("a child that cannot be enqueued rejects, and the others go on", async () => {
      const queue = await start();
      const leaf = named((text: unknown) => text);
      const strict = task(uniqueName(), async (_given: string) => 1, {
        input: schemaOf<string, string>(() => ({ issues: [{ message: "no" }] })),
      });
      const taken = leaf.with({ uniqueKey: "k", onDuplicate: "error" });
      const flow = named(async () => {
        const ends = await settled([
          child(leaf, "fine"),
          child(strict, 7 as never),
          child(leaf, 7n as never),
          child(taken, "x"),
        ]);
        return ends.map((one) => (one.status === "fulfilled" ? one.value : one.reason.name));
      });
      expect((await end(queue, await queue.enqueueTask(flow))).result).toEqual([
        ...["fine", "InvalidArgumentsError", "NotSerializableError", "TypeError"],
      ]);
    });

    test("a step that runs when the function throws or returns is stored all the same", async () => {
      const queue = await start();
      const calls: string[] = [];
      let attempts = 0;
      const slow = async (name: string) => {
        await new Promise((resolve) => setTimeout(resolve, 50));
        calls.push(name);
      };
      const flow = named(async () => {
        attempts += 1;
        void step("not awaited", () => slow("not awaited"));
        const flaky = () => {
          if (attempts < 3) throw new Error("flaky");
        };
        await all([step("flaky", flaky), step("beside", () => slow("beside"))]);
      }, atOnce);
      expect(await end(queue, await queue.enqueueTask(flow))).toMatchObject({ status: "completed" });
      expect([attempts, ...calls.sort()]).toEqual([3, "beside", "not awaited"]);
    });

    test("an error that is wrapped before it is thrown is not caught", async () => {
      const queue = await start();
      let tries = 0;
      const flow = named(async () => {
        try {
          return await step("flaky", () => {
            tries += 1;
            if (tries < 3) throw new Error("flaky");
            return tries;
          });
        } catch (error) {
          throw new Error("wrapped", { cause: error });
        }
      }, atOnce);
      expect((await end(queue, await queue.enqueueTask(flow))).result).toBe(3);
    });

    test("a step after the task was completed in a transaction ends the attempt, and frees the slot", async () => {
      const queue = await start();
      const flow = named(async () => {
        await queue.transaction((tx: unknown) => currentTask().within(tx).complete("early"));
        await step("after", () => 1);
      });
      const id = await queue.enqueueTask(flow);
      expect((await end(queue, id)).result).toBe("early");
      expect((await end(queue, await queue.enqueueTask(named(() => "next")))).result).toBe("next");
    });

    test("an attempt that has lost its task stores nothing", async () => {
      const queue = await start();
      const { store } = internalsOf(queue);
      const go = deferred();
      const id = await queue.enqueueTask(named(() => go.promise));
      await until(async () => (await statusOf(queue, id)) === "running");
      const lost = { id, generationId: 1 };
      const one = { name: "a", seq: 1, value: "1", error: null, startedAt: null };
      const two = { ...one, name: "b", seq: 2 };
      expect(await store.workflows.write(lost, [one], [])).toBeUndefined();
      expect(await store.workflows.write(lost, [one, two], [])).toBeUndefined();
      const wait = { name: "w", kind: "time", target: null, until: { at: 0 }, mode: null } as const;
      expect(await store.workflows.wait(lost, [wait], true)).toBeUndefined();
      const within = await queue.transaction((tx: unknown) =>
        store.within(tx).workflows.storeStep(lost, one),
      );
      expect(within).toBe(false);
      expect([await store.workflows.steps(id), await store.workflows.waits([id])]).toEqual([[], []]);
      go.resolve();
      expect((await end(queue, id)).status).toBe("completed");
    });

    test("an attempt that has lost its task after a step stores no other one", async () => {
      const queue = await start();
      const { store } = internalsOf(queue);
      const go = deferred();
      const flow = named(async () => {
        await step("before", () => 1);
        await go.promise;
      });
      const id = await queue.enqueueTask(flow);
      await until(async () => (await store.workflows.steps(id)).length === 1);
      const one = { name: "a", seq: 2, value: "1", error: null, startedAt: null };
      expect(await store.workflows.write({ id, generationId: 1 }, [one], [])).toBeUndefined();
      expect((await store.workflows.steps(id)).map(({ name }) => name)).toEqual(["before"]);
      go.resolve();
      expect((await end(queue, id)).status).toBe("completed");
    });

    test("what a task has logged before it waits is kept", async () => {
      const queue = await start();
      const flow = named(async () => {
        currentTask().log("before");
        await waitForEvent("never");
      });
      const id = await queue.enqueueTask(flow);
      await waitsIn(queue, id);
      expect((await queue.listLogs(id)).map(({ message }) => message)).toEqual(["before"]);
    });

    test("channels tell that a task has begun to wait, and that a worker begins to undo its steps", async () => {
      const queue = await start();
      const told: unknown[] = [];
      const hear = (message: unknown, channel: unknown) => told.push([channel, message]);
      for (const channel of ["dbq:waiting", "dbq:undoing"]) {
        subscribe(channel, hear);
        onTestFinished(() => void unsubscribe(channel, hear));
      }
      const event = uniqueName("event");
      const flow = named(async () => {
        await step("charge", () => 1, { undo: () => undefined });
        await settled([waitForEvent(event), sleep("cool-off", "1d")]);
      });
      const id = await queue.enqueueTask(flow);
      await until(async () => told.length > 0);
      await queue.cancelTask(id);
      await end(queue, id);
      const waits = [
        { name: event, kind: "event", target: event },
        { name: "cool-off", kind: "time", target: null },
      ];
      expect(told).toEqual([
        ["dbq:waiting", { task: expect.objectContaining({ id, status: "waiting" }), waits }],
        ["dbq:undoing", { task: expect.objectContaining({ id, status: "running", undoing: true }) }],
      ]);
    });

    test("an argument of a child that cannot be stored is refused with the name of the child's function", async () => {
      class Order {}
      const queue = await start();
      const part = named(async (_one: number, _order: unknown) => 1);
      const flow = named(async () => await child(part, 1, { of: [new Order()] }), { maxRetries: 0 });
      const { error } = await end(queue, await queue.enqueueTask(flow));
      expect(error).toMatchObject({
        name: "NotSerializableError",
        message: expect.stringMatching(
          `^task "${part.taskName}": args\\[1\\]\\.of\\[0\\]: an Order cannot be kept as JSON`,
        ),
      });
    });

    test("a retry from a step that is not stored names the first ten steps and children that are", async () => {
      const queue = await start();
      const part = named(async () => 1);
      const flow = named(async () => {
        await step("charge", () => ({ note: "x".repeat(3_000) }));
        await child(part);
        for (let n = 0; n < 10; n += 1) await step(`page ${n}`, () => n);
      });
      const id = await queue.enqueueTask(flow);
      await end(queue, id);
      const refused = async (one: number, fromStep: string) => {
        const error = await queue.retryTask(one, { fromStep }).catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(TypeError);
        return (error as Error).message;
      };
      const pages = Array.from({ length: 8 }, (_, n) => `"page ${n}"`).join(", ");
      expect(await refused(id, "ship")).toBe(
        `retryTask: fromStep: task ${id} has stored no step "ship": it has "charge", ${JSON.stringify(part.taskName)}, ${pages}, and others`,
      );
      const plain = await queue.enqueueTask(part);
      await end(queue, plain);
      expect(await refused(plain, "a")).toBe(
        `retryTask: fromStep: task ${plain} has stored no step "a": it has stored none`,
      );
    });

    test("retryTask keeps the steps; with fromStep, that one and the later ones run again", async () => {
      const queue = await start();
      const calls: string[] = [];
      let fails = true;
      const keys: unknown[] = [];
      const flow = named(
        async () => {
          for (const name of ["a", "b", "c"])
            await step(name, () => {
              calls.push(name);
              keys.push(currentTask().stepKey);
            });
          if (fails) throw new Error("no");
        },
        { maxRetries: 0 },
      );
      const id = await queue.enqueueTask(flow);
      expect((await end(queue, id)).status).toBe("failed");
      await queue.retryTask(id);
      expect((await end(queue, id)).status).toBe("failed");
      expect(calls.join("")).toBe("abc");
      await expect(queue.retryTask(id, { fromStep: "z" })).rejects.toThrow(
        'has stored no step "z": it has "a", "b", "c"',
      );
      fails = false;
      const waits = await queue.enqueueTask(
        named(async () => {
          await step("a", () => 1);
          await waitForEvent("never");
        }),
      );
      await waitsIn(queue, waits);
      await expect(queue.retryTask(waits, { fromStep: "a" })).rejects.toThrow("is waiting");
      await queue.retryTask(id, { fromStep: "b" });
      expect((await end(queue, id)).status).toBe("completed");
      expect(calls.join("")).toBe("abcbc");
      // Their effects stand: the other side is to give its old answer, and not to do the same twice.
      expect(keys.slice(3)).toEqual(keys.slice(1, 3));
      expect(new Set(keys).size).toBe(3);
    });

    test("a deploy may rename, remove, swap and add steps of a task that waits", async () => {
      const queue = await start();
      const calls: string[] = [];
      const call = (name: string) => step(name, () => `${name}: call ${calls.push(name)}`);
      const [left, right] = [named((n: number) => `left ${n}`), named((n: number) => `right ${n}`)];
      const deployed = [
        async () => {
          const values = [await call("charge"), await call("book"), await call("mail")];
          const parts = await all([child(left, 1), child(right, 2)]);
          await waitForEvent("old");
          return [...values, ...parts];
        },
        async () => {
          const first = [await call("check"), await call("mail"), await call("reserve")];
          const parts = await all([child(right, 2), child(left, 1)]);
          const event = await waitForEvent("new");
          return [...first, ...parts, event, await call("charge")];
        },
      ] as const;
      let version = 0;
      const flow = named(async () => await deployed[version]?.());
      const id = await queue.enqueueTask(flow);
      const waitsFor = async (name: string) => (await queue.listWaiting(name)).some((one) => one.id === id);
      await until(() => waitsFor("old"));
      version = 1;
      await queue.emitEvent("old");
      await until(() => waitsFor("new"));
      await queue.emitEvent("new", "here");
      expect(await end(queue, id)).toMatchObject({
        status: "completed",
        result: [
          "check: call 4",
          "mail: call 3",
          "reserve: call 5",
          "right 2",
          "left 1",
          "here",
          "charge: call 1",
        ],
      });
      expect(calls).toEqual(["charge", "book", "mail", "check", "reserve"]);
      const run = await queue.getRun(id);
      const names = ["charge", "book", "mail", "old", "check", "reserve", "new"];
      expect(run?.steps.map(({ name }) => name)).toEqual(names);
      expect([run?.waits, run?.children.length]).toEqual([[], 2]);
    });

    test("a deploy may rename steps of a task that failed, and of one whose worker was stopped", async () => {
      const target = await place();
      const queue = await temporaryQueue({}, target);
      const worker = await startedWorker(queue, { concurrency: 1 });
      const calls: string[] = [];
      const call = (name: string) => step(name, () => calls.push(name));
      const hangs = deferred();
      let version = 0;
      const flow = named(
        async () => {
          const value = await call("same");
          if (version === 0) {
            await call("old");
            hangs.resolve();
            await new Promise(() => undefined);
          }
          await call("new");
          if (version === 1) throw new Error("bad");
          return value;
        },
        { maxRetries: 0 },
      );
      const id = await queue.enqueueTask(flow);
      await hangs.promise;
      await worker.stop({ grace: 0 });
      version = 1;
      await startedWorker(queue, { concurrency: 1, pollInterval: 50 });
      expect(await end(queue, id)).toMatchObject({ status: "failed", error: { message: "bad" } });
      version = 2;
      await queue.retryTask(id, { fromStep: "old" });
      expect(await end(queue, id)).toMatchObject({ status: "completed", result: 1 });
      expect(calls).toEqual(["same", "old", "new", "new"]);
    });

    test("a retry from a step that a worker takes at once is no error", async () => {
      const queue = await start();
      const go = deferred();
      let runs = 0;
      const flow = named(async () => {
        runs += 1;
        await step("a", () => 1);
        if (runs > 1) await go.promise;
      });
      const id = await queue.enqueueTask(flow);
      await end(queue, id);
      const { workflows } = internalsOf(queue).store;
      const retryFrom = workflows.retryFrom;
      workflows.retryFrom = async (...about) => {
        const operated = await retryFrom(...about);
        await until(async () => (await statusOf(queue, id)) === "running");
        return operated;
      };
      expect(await queue.retryTask(id, { fromStep: "a" })).toMatchObject({ id, status: "pending" });
      await until(async () => (await workflows.steps(id)).length === 1);
      await expect(queue.retryTask(id, { fromStep: "a" })).rejects.toMatchObject({
        code: "DBQ_TASK_RUNNING",
      });
      go.resolve();
      expect(await end(queue, id)).toMatchObject({ status: "completed" });
    });

    test("a purge deletes the steps and waits of its tasks", async () => {
      const queue = await start();
      const flow = named(async () => {
        await step("a", () => 1);
        await waitForEvent("never");
      });
      const id = await queue.enqueueTask(flow);
      await waitsIn(queue, id);
      const { workflows } = internalsOf(queue).store;
      expect([(await workflows.steps(id)).length, (await workflows.waits([id])).length]).toEqual([1, 1]);
      expect((await queue.purgeTasks()).purged).toBe(1);
      expect([await workflows.steps(id), await workflows.waits([id])]).toEqual([[], []]);
    });
  });

  describe(`waits on ${database}`, () => {
    test.each([1, 5])(
      "a task sleeps without a slot, of %i, and goes on when its time has come",
      async (concurrency) => {
        const queue = await start({ concurrency });
        let begun = 0;
        const flow = named(async () => {
          begun += 1;
          await sleep("long", 1_500);
          return begun;
        });
        const id = await queue.enqueueTask(flow);
        await waitsIn(queue, id);
        const waiting = await queue.getTask(id);
        expect(waiting).toMatchObject({ retryCount: 0 });
        expect(Number(waiting?.waitUntil)).toBeGreaterThan(Date.now());
        expect(await queue.awaitTaskResult(await queue.enqueueTask(named(() => "free")), patience)).toBe(
          "free",
        );
        const done = await end(queue, id);
        expect(done).toMatchObject({ status: "completed", result: 2, retryCount: 0, waitUntil: null });
      },
    );

    test("a short wait ends in the slot, where no other task needs it", async () => {
      const queue = await start({ concurrency: 5 });
      let begun = 0;
      const leaf = named(() => "child");
      const flow = named(async () => {
        begun += 1;
        await sleep("short", 30);
        return [await waitForEvent("soon"), await child(leaf), begun];
      });
      const id = await queue.enqueueTask(flow);
      await new Promise((resolve) => setTimeout(resolve, 200));
      await queue.emitEvent("soon", 1);
      expect((await end(queue, id)).result).toEqual([1, "child", 1]);
    });

    test("a wait ends while a step runs beside it, and the winner of a race stays the winner", async () => {
      const clock = new TestClock();
      const queue = await start({ concurrency: 5 }, clock);
      const [begun, goOn] = [deferred(), deferred()];
      const waits: string[] = [];
      const flow = named(async () => {
        const slow = step("slow", async () => {
          begun.resolve();
          await goOn.promise;
          return "step";
        });
        const first = await race([slow, sleep("short", 50).then(() => "sleep")]);
        waits.push(first);
        goOn.resolve();
        // It is parked for this: the function runs again.
        await sleep("later", "1h");
        return first;
      });
      const id = await queue.enqueueTask(flow);
      await begun.promise;
      // The sleep counts from its look, which comes a turn later.
      await until(async () => {
        clock.advance(50);
        return waits.length > 0;
      });
      await waitsIn(queue, id);
      clock.advance(3_600_000);
      const done = await end(queue, id);
      expect(done.result).toBe("sleep");
      expect(waits.length).toBeGreaterThan(1);
      expect(new Set(waits)).toEqual(new Set(["sleep"]));
    });

    test("a wait whose name a step has taken does not stop the others", async () => {
      const queue = await start({ concurrency: 2 });
      const { workflows } = internalsOf(queue).store;
      const go = deferred();
      const id = await queue.enqueueTask(named(() => go.promise));
      await until(async () => (await statusOf(queue, id)) === "running");
      const other = await queue.enqueueTask(named(async () => void (await sleep("x", 200))));
      const version = { id, generationId: 2 };
      await workflows.wait(
        version,
        [{ name: "taken", kind: "time", target: null, until: { after: 50 }, mode: null }],
        false,
      );
      await workflows.write(
        version,
        [{ name: "taken", seq: 1, value: "1", error: null, startedAt: null }],
        [],
      );
      expect((await end(queue, other)).status).toBe("completed");
      expect((await workflows.steps(id)).map(({ value }) => value)).toEqual(["1"]);
      go.resolve();
    });

    test("an event is told to those that wait and to those that will; the first of a name counts", async () => {
      const queue = await start();
      const event = uniqueName("paid");
      const flow = named(() => waitForEvent(event));
      const waiting = [await queue.enqueueTask(flow), await queue.enqueueTask(flow)];
      for (const id of waiting) await waitsIn(queue, id);
      expect(await queue.emitEvent(event, { by: "eva" })).toBe(true);
      expect(await queue.emitEvent(event, { by: "ben" })).toBe(false);
      for (const id of [...waiting, await queue.enqueueTask(flow)])
        expect((await end(queue, id)).result).toEqual({ by: "eva" });
    });

    test("a wait for an event that came first is over at once", async () => {
      const queue = await start();
      const go = deferred();
      const id = await queue.enqueueTask(named(() => go.promise));
      await until(async () => (await statusOf(queue, id)) === "running");
      await queue.emitEvent("first", [1]);
      const wait = { name: "first", kind: "event", target: "first", until: null, mode: null } as const;
      const { workflows } = internalsOf(queue).store;
      const waited = await workflows.wait({ id, generationId: 2 }, [wait], true);
      expect(waited).toMatchObject({ parked: false, steps: [{ name: "first", value: "[1]" }] });
      expect(await statusOf(queue, id)).toBe("running");
      go.resolve();
    });

    test("an event without a payload gives null, and a timeout gives undefined for good", async () => {
      const queue = await start();
      const flow = named(async (event: string, timeout: number) => {
        const given = await waitForEvent(event, { timeout });
        return given === undefined ? "timeout" : given;
      });
      const late = await queue.enqueueTask(flow, "late", 30);
      expect((await end(queue, late)).result).toBe("timeout");
      await queue.emitEvent("late");
      await queue.retryTask(late);
      expect((await end(queue, late)).result).toBe("timeout");
      expect((await end(queue, await queue.enqueueTask(flow, "late", 30_000))).result).toBe(null);
    });

    test("an event in a transaction counts if that commits", async () => {
      const queue = await start();
      const id = await queue.enqueueTask(named(() => waitForEvent("in-tx")));
      await waitsIn(queue, id);
      const rolledBack = queue.transaction((_tx: unknown, q) => {
        const emitted = q.emitEvent("in-tx", 1);
        const fail = () => {
          throw new Error("no");
        };
        return emitted instanceof Promise ? emitted.then(fail) : fail();
      });
      await expect(rolledBack).rejects.toThrow("no");
      expect(await queue.transaction((_tx: unknown, q) => q.emitEvent("in-tx", 2))).toBe(true);
      expect((await end(queue, id)).result).toBe(2);
    });

    test("no event is lost that comes in the moment in which the wait begins", async () => {
      const queue = await start({ concurrency: 20 });
      const emitter = await beside(queue);
      const flow = named((event: string) => waitForEvent(event));
      const ids: number[] = [];
      for (let i = 0; i < 60; i += 1) {
        const event = uniqueName("now");
        const id = await queue.enqueueTask(flow, event);
        if (i % 3 > 0) await until(async () => (await statusOf(queue, id)) !== "pending");
        await emitter.emitEvent(event, i);
        ids.push(id);
      }
      const results = await Promise.all(
        ids.map(async (id) => (await end(queue, id)).result ?? (await queue.getTask(id))?.error),
      );
      expect(results).toEqual(ids.map((_, i) => i));
    });

    test("the tasks that wait for an event or a task are found by its name or id", async () => {
      const queue = await start();
      const event = uniqueName("found");
      const flow = named((name: string) => all([waitForEvent(name), waitForEvent(name)]));
      const never = named(() => 1, { queueName: "elsewhere" });
      const parent = named(async () => await child(never));
      const ids = await queue.enqueueTasks([
        [flow, event],
        [flow, event.toUpperCase()],
        [flow, event],
        [parent],
      ]);
      for (const id of ids) await waitsIn(queue, id);
      const waitingFor = async (name: string, options = {}) =>
        (await queue.listWaiting(name, options)).map(({ id }) => id);
      expect(await waitingFor(event)).toEqual([ids[0], ids[2]]);
      expect(await waitingFor(event, { limit: 1 })).toEqual([ids[0]]);
      expect(await waitingFor(event, { limit: 1, after: ids[0] as number })).toEqual([ids[2]]);
      expect(await waitingFor(event, { after: ids[2] as number })).toEqual([]);
      const [wait] = (await queue.getRun(ids[3]))?.waits ?? [];
      expect(await waitingFor(String(wait?.target))).toEqual([ids[3]]);
      await queue.cancelTask(ids[0]);
      expect(await waitingFor(event)).toEqual([ids[2]]);
      await queue.emitEvent(event);
      expect(await waitingFor(event)).toEqual([]);
      await expect(queue.listWaiting(event, { limit: 0 })).rejects.toThrow("listWaiting: limit");
    });

    test("a store names the tasks that stored a step last, those that wait, some of their waits, and the first steps", async () => {
      const queue = await start();
      const { workflows } = internalsOf(queue).store;
      const leaf = named(() => 1, { queueName: "elsewhere" });
      const flow = named(async (name: string) => {
        await step("one", () => 1);
        await step("two", () => 2);
        await all([child(leaf), child(leaf), waitForEvent(name)]);
      });
      const ids: number[] = [];
      for (const name of [uniqueName("event"), uniqueName("event")]) {
        ids.unshift(await queue.enqueueTask(flow, name));
        await waitsIn(queue, ids[0] ?? 0);
      }
      const active = await workflows.lastActive(100);
      expect([active.tasks.slice(0, 2).map(({ taskId }) => taskId), active.last]).toEqual([ids, undefined]);
      // Two steps and two children.
      const newest = await workflows.lastActive(4);
      expect(newest.tasks).toMatchObject([{ taskId: ids[0] }]);
      expect((await workflows.lastActive(4, newest.last)).tasks).toMatchObject([{ taskId: ids[1] }]);
      expect((await workflows.lastWaiting(100)).slice(0, 2)).toEqual(ids);
      expect((await workflows.lastWaiting(100, ids[0]))[0]).toBe(ids[1]);
      const waits = await workflows.firstWaits(ids, 2);
      expect(waits.map(({ taskId }) => taskId)).toEqual(ids.flatMap((id) => [id, id]));
      const [cut, whole] = [await queue.getRun(ids[0] ?? 0, { limit: 1 }), await queue.getRun(ids[0] ?? 0)];
      expect([cut?.steps.map(({ name }) => name), cut?.more]).toEqual([["one"], true]);
      expect([whole?.steps.map(({ name }) => name), whole?.more]).toEqual([["one", "two"], false]);
    });

    test("upkeep wakes what another program has let go by plain SQL", async () => {
      const queue = await temporaryQueue({}, await place());
      const worker = await startedWorker(queue, { concurrency: 1 });
      const never = named(() => 1, { queueName: "elsewhere" });
      const flow = named(async () => await child(never));
      const id = await queue.enqueueTask(flow);
      await waitsIn(queue, id);
      await worker.stop();
      const { store } = internalsOf(queue);
      const [waits] = await store.workflows.waits([id]);
      const [gone] = await store.get([Number(waits?.target)]);
      expect(await store.workflows.repair(0, 10)).toEqual({ woken: 0, last: undefined });
      // The transaction that deletes a child tells its parent.
      await queue.deleteTasks({ func: gone?.func ?? "" });
      expect(await statusOf(queue, id)).toBe("pending");
    });
  });

  describe(`children on ${database}`, () => {
    test("a child runs once, and its result is the parent's; both know each other", async () => {
      const queue = await start();
      let runs = 0;
      const leaf = named((n: number) => {
        runs += 1;
        return n * 2;
      });
      const flow = named(async () => {
        const parts = await all([child(leaf, 1), child(leaf, 2), step("own", () => 3)]);
        return [...parts, await child(leaf, 10)];
      });
      const id = await queue.enqueueTask(flow);
      expect((await end(queue, id)).result).toEqual([2, 4, 3, 20]);
      expect(runs).toBe(3);
      const run = await queue.getRun(id);
      expect(run?.children.map(({ task }) => [task.result, task.parentId, task.rootId])).toEqual(
        [2, 4, 20].map((result) => [result, id, id]),
      );
      expect(run?.task).toMatchObject({ parentId: null, rootId: null });
      expect(await queue.getRun(id, { depth: 1 })).toMatchObject({
        more: true,
        leftOut: { steps: 0, children: 3 },
      });
      expect((await queue.getRun(id, { limit: 2 }))?.children).toHaveLength(2);
    });

    test("a run says how many steps and children it leaves out, of each task and in all, and whether waits", async () => {
      const queue = await start();
      const leaf = named(async () => {
        for (const n of [1, 2, 3]) await step("turn", () => n);
        await waitForEvent("go");
      });
      const flow = named(async () => {
        await step("one", () => 1);
        await step("two", () => 2);
        await all([child(leaf), child(leaf), child(leaf), waitForEvent("go"), sleep("long", "1h")]);
      });
      const id = await queue.enqueueTask(flow);
      await until(async () => (await queue.countTasks()).waiting === 4);
      const whole = await queue.getRun(id);
      expect(whole).toMatchObject({ more: false, children: Array(3).fill({ more: false }) });
      expect(whole).not.toHaveProperty("leftOut");
      expect(await queue.getRun(id, { limit: 2 })).toMatchObject({
        ...{ more: true, leftOut: { steps: 0, children: 1 }, steps: [{}, {}], waits: [{}, {}] },
        children: Array(2).fill({ more: true, leftOut: { steps: 1, children: 0 } }),
      });
      expect(await queue.getRun(id, { limit: 3 })).toMatchObject({ more: true, waits: [{}, {}, {}] });
      expect(await queue.getRun(id, { limit: 3 })).not.toHaveProperty("leftOut");
      const few = await queue.getRun(id, { total: 7 });
      expect(few?.children.map(({ steps, more, leftOut }) => [steps.length, more, leftOut?.steps])).toEqual([
        [2, true, 1],
        [0, true, 3],
        [0, true, 3],
      ]);
      expect(await queue.getRun(id, { total: 1 })).toMatchObject({
        ...{ steps: [{ name: "one" }], children: [], more: true, leftOut: { steps: 1, children: 3 } },
      });
    });

    test("a run for a page has the beginnings of long texts, counted in characters, and the bytes of the whole ones", async () => {
      const queue = await start();
      const long = "🙂".repeat(100_000);
      const leaf = named((_text: string) => long, atOnce);
      const flow = named(async () => {
        await step("short", () => ({ n: 1 }));
        await step("long", () => long);
        await step("fails", () => {
          throw new RangeError(`no ${"é".repeat(10_000)}`);
        }).catch(() => {});
        await child(leaf, long);
      });
      const id = await queue.enqueueTask(flow);
      await end(queue, id);
      const { steps, children } = (await getRunBeginning(queue, id)) as Run;
      const beginning = `"${"🙂".repeat(1_999)}`;
      expect(steps).toMatchObject([
        { name: "short", value: { n: 1 } },
        { name: "long", value: beginning, cut: { value: 400_002 } },
        { name: "fails", error: { name: "RangeError", message: expect.stringMatching(/^no é{1000}/) } },
      ]);
      expect(JSON.stringify(steps[2]).length).toBeLessThan(2_200);
      expect(children[0]?.task).toMatchObject({ result: beginning, cut: { args: 400_004, result: 400_002 } });
      expect((await queue.getRun(id))?.steps[1]).toMatchObject({ value: long });
    });

    test("thousands of children, which take several transactions, each give the end that is theirs", async () => {
      const queue = await start({ concurrency: 20 });
      const ran = new Map<number, number>();
      const leaf = named((n: number) => {
        ran.set(n, (ran.get(n) ?? 0) + 1);
        if (n === 2_000) throw new CancelTask("no");
        return n;
      });
      const flow = named(async () => {
        const ends = await settled(Array.from({ length: 2_500 }, (_, n) => child(leaf, n)));
        return ends.filter((end, n) => end.status !== "fulfilled" || end.value !== n).length;
      });
      const id = await queue.enqueueTask(flow);
      expect((await end(queue, id)).result).toBe(1);
      expect([ran.size, Math.max(...ran.values())]).toEqual([2_500, 1]);
    });

    test("a child's final failure rejects in the parent, which may catch it", async () => {
      const queue = await start();
      const bad = named(
        () => {
          throw new RangeError("too wide");
        },
        { maxRetries: 0 },
      );
      const cancels = named(() => {
        throw new CancelTask("not wanted");
      });
      const good = named(() => 1);
      const flow = named(async () => {
        const codes: unknown[] = [];
        for (const fn of [bad, cancels])
          await child(fn).catch((error) => codes.push([error.code, error.cause?.message ?? ""]));
        const ends = await settled([child(bad), child(good)]);
        return [...codes, ...ends.map(({ status }) => status)];
      });
      expect((await end(queue, await queue.enqueueTask(flow))).result).toEqual([
        ["DBQ_TASK_FAILED", "too wide"],
        ["DBQ_TASK_CANCELLED", ""],
        "rejected",
        "fulfilled",
      ]);
    });

    test("all rejects at the first failure, while the others go on", async () => {
      const queue = await start();
      const bad = named(
        () => {
          throw new Error("bad");
        },
        { maxRetries: 0, priority: 9 },
      );
      const slow = named(() => "slow", { delay: "1h" });
      const flow = named(async () => {
        return await all([child(slow), child(bad)]).catch((error) => error.code);
      });
      const id = await queue.enqueueTask(flow);
      expect((await end(queue, id)).result).toBe("DBQ_TASK_FAILED");
      expect((await queue.getRun(id))?.children.map(({ task }) => task.status)).toEqual([
        "scheduled",
        "failed",
      ]);
    });

    test("race gives the first, and child.start does not wait", async () => {
      const queue = await start();
      const late = named(() => "late", { delay: "1h" });
      const first = named(() => "first");
      const flow = named(async () => {
        const id = await child.start(late);
        return [typeof id, await race([child(late), child(first)])];
      });
      expect((await end(queue, await queue.enqueueTask(flow))).result).toEqual(["number", "first"]);
    });

    test("levels of children share one slot", async () => {
      const queue = await start();
      const nest: TaskFunction<[number], Promise<number>> = named(
        async (depth: number): Promise<number> => (depth === 0 ? 0 : 1 + (await child(nest, depth - 1))),
      ) as never;
      expect((await end(queue, await queue.enqueueTask(nest, 15))).result).toBe(15);
    });

    test("the last two children that end at once on two connections wake their parent once", async () => {
      const queue = await start({ concurrency: 4 });
      const other = await beside(queue);
      await startedWorker(other, { concurrency: 4, pollInterval: 50 });
      const leaf = named(async () => 1);
      const begun = new Map<number, number>();
      const flow = named(async (n: number) => {
        begun.set(n, (begun.get(n) ?? 0) + 1);
        return (await all([child(leaf), child(leaf)])).length;
      });
      const ids = await queue.enqueueTasks(Array.from({ length: 40 }, (_, n) => [flow, n] as const));
      for (const id of ids) expect((await end(queue, id)).result).toBe(2);
      expect(Math.max(...begun.values())).toBeLessThanOrEqual(2);
    });

    test("a cancel takes the tree, and without tree only the task", async () => {
      const queue = await start();
      const leaf = named(() => waitForEvent("never"));
      const middle = named(async () => await child(leaf));
      const top = named(async () => await all([child(middle), child(leaf)]));
      const trees = [await queue.enqueueTask(top), await queue.enqueueTask(top)];
      for (const id of trees)
        await until(async () => {
          const run = await queue.getRun(id);
          const tasks = run
            ? [run, ...run.children, ...run.children.flatMap(({ children }) => children)]
            : [];
          return tasks.length === 4 && tasks.every(({ task }) => task.status === "waiting");
        });
      const [one, two] = trees as [number, number];
      await queue.cancelTask(one, { reason: "enough" });
      const counts = await queue.countTasks();
      expect(counts).toMatchObject({ cancelled: 4, waiting: 4 });
      await queue.cancelTask(two, { tree: false });
      expect(await queue.countTasks()).toMatchObject({ cancelled: 5, waiting: 3 });
    });

    test("the end of a child that a parent has met stays, also when the child is deleted", async () => {
      const queue = await start();
      const good = named(() => ({ n: 1 }));
      const bad = named(
        () => {
          throw new RangeError("bad");
        },
        { maxRetries: 0 },
      );
      const flow = named(async () => {
        const value = await child(good);
        const why = await child(bad).catch((error) => [error.code, error.cause.message, error.task.func]);
        return [value, why, await waitForEvent("later")];
      });
      const id = await queue.enqueueTask(flow);
      await until(async () => (await queue.getRun(id))?.waits[0]?.kind === "event");
      await waitsIn(queue, id);
      await queue.purgeTasks({ func: good.taskName });
      await queue.purgeTasks({ func: bad.taskName });
      await queue.emitEvent("later", 3);
      const failed = ["DBQ_TASK_FAILED", "bad", bad.taskName];
      expect((await end(queue, id)).result).toEqual([{ n: 1 }, failed, 3]);
    });

    test("a child that is not awaited starts all the same, before its parent ends", async () => {
      const queue = await start();
      const leaf = named(() => 1, { delay: "1h" });
      const late = schemaOf<number, number>(async (value) => {
        await new Promise((resolve) => setTimeout(resolve, 30));
        return { value: value as number };
      });
      const checked = task(uniqueName("checked"), async (n) => n, { input: late, delay: "1h" });
      const flow = named(async () => {
        void child(leaf);
        void child.start(leaf);
        void child(checked, 1);
      });
      const id = await queue.enqueueTask(flow);
      expect((await end(queue, id)).status).toBe("completed");
      expect((await queue.getRun(id))?.children).toHaveLength(3);
    });

    test.each([
      ["step", false],
      ["step", true],
      ["step.within", false],
      ["step.within", true],
    ] as const)(
      "a %s that is not awaited runs all the same (behind another one: %s)",
      async (kind, behind) => {
        const queue = await start();
        const flow = named(async () => {
          if (behind) await step("first", () => 1);
          void (kind === "step" ? step("last", () => 2) : step.within("last", () => 2 as never));
        });
        const id = await queue.enqueueTask(flow);
        expect((await end(queue, id)).status).toBe("completed");
        expect((await queue.getRun(id))?.steps.at(-1)).toMatchObject({ name: "last", value: 2 });
      },
    );

    test.each(["step", "step.within", "sleep", "waitForEvent"] as const)(
      "a %s by the name of a child that was started is refused: it would get nothing, and do nothing",
      async (kind) => {
        const queue = await start();
        const leaf = named(() => "leaf");
        const name = leaf.taskName as string;
        const instead = {
          step: () => step(name, () => "again"),
          "step.within": () => step.within(name, () => "again"),
          sleep: () => sleep(name, 1),
          waitForEvent: () => waitForEvent(name, { timeout: 1 }),
        };
        let isDeployed = false;
        const flow = named(
          async () => {
            await (isDeployed ? instead[kind]() : child(leaf));
            return await waitForEvent("deployed");
          },
          { maxRetries: 0 },
        );
        const id = await queue.enqueueTask(flow);
        await until(async () => (await queue.getRun(id))?.waits[0]?.kind === "event");
        await waitsIn(queue, id);
        isDeployed = true;
        await queue.emitEvent("deployed");
        const { status, error } = await end(queue, id);
        expect(status).toBe("failed");
        expect(error?.message).toContain(
          `the step ${JSON.stringify(name)} of this task has started a child in an earlier attempt`,
        );
      },
    );

    test("retention keeps what has ended while its parent or the task behind its group may ask for it", async () => {
      const queue = await start({ concurrency: 1 });
      const { store } = internalsOf(queue);
      const pruned = () => store.prune({ completed: 0, failed: 0, cancelled: 0 }, 1_000, () => undefined);
      const leaf = named((n: number) => n);
      const held = leaf.with({ queueName: "held" });
      const inner = named(async () => await child(leaf, 1));
      const flow = named(async () => [
        ...(await settled([child(leaf, 1), child(held, 2), child(inner)])).map(
          (one) => one.status === "fulfilled" && one.value,
        ),
      ]);
      const report = named(async () => {
        const all: unknown[] = [];
        for await (const { result } of currentTask().group.results()) all.push(result);
        return all;
      });
      const id = await queue.enqueueTask(flow);
      const then = report.with({ queueName: "held" });
      const group = await queue.enqueueGroup(
        [
          [leaf, 3],
          [leaf, 4],
        ],
        { then },
      );
      const plain = await queue.enqueueTask(leaf, 5);
      await end(queue, group.id);
      await end(queue, plain);
      await until(async () => (await queue.countTasks()).completed === 7);
      await new Promise((resolve) => setTimeout(resolve, 5));
      expect(await pruned()).toBe(1);
      expect(await queue.getTask(plain)).toBeUndefined();
      expect(await queue.countTasks()).toMatchObject({ completed: 6, waiting: 1, pending: 2 });
      await startedWorker(queue, { queueName: "held", pollInterval: 50 });
      expect((await end(queue, id)).result).toEqual([1, 2, 1]);
      expect((await end(queue, group.thenId as number)).result).toEqual([3, 4]);
      await until(async () => (await queue.countTasks()).completed === 9);
      await new Promise((resolve) => setTimeout(resolve, 5));
      expect(await pruned()).toBe(9);
      expect(await queue.countTasks()).toMatchObject({ completed: 0, waiting: 0, pending: 0 });
    });

    test("a child that is purged rejects in its parent", async () => {
      const queue = await start();
      const never = named(() => 1, { queueName: "elsewhere" });
      const flow = named(async () => await child(never).catch((error) => error.code));
      const id = await queue.enqueueTask(flow);
      await waitsIn(queue, id);
      const run = await queue.getRun(id);
      expect(run?.waits).toEqual([
        { kind: "child", target: String(run?.children[0]?.task.id), deadline: null },
      ]);
      await queue.deleteTasks({ queueName: "elsewhere" });
      await internalsOf(queue).store.workflows.repair(0, 10);
      expect((await end(queue, id)).result).toBe("DBQ_TASK_NOT_FOUND");
    });
  });

  describe(`keys of children on ${database}`, () => {
    test("a child with the key of its parent or of an ancestor is refused: it would wait for itself", async () => {
      const queue = await start({ concurrency: 2 });
      const leaf = named(() => "leaf");
      const keyed = leaf.with({ uniqueKey: "the-key" });
      const middle = named(async () => await child(keyed), { maxRetries: 0 });
      const top = named(async (deep: boolean) => await (deep ? child(middle) : child(keyed)), {
        maxRetries: 0,
      });
      const own = await end(queue, await queue.enqueueTask(top.with({ uniqueKey: "the-key" }), false));
      expect(own.error?.message).toContain(
        'this task holds the uniqueKey "the-key", and would wait for itself',
      );
      const deep = await queue.enqueueTask(top.with({ uniqueKey: "the-key" }), true);
      expect((await end(queue, deep)).error).toMatchObject({ name: "TaskFailedError" });
      expect((await queue.getRun(deep))?.children[0]?.task.error?.message).toContain(
        `task ${deep}, which waits for this one, holds the uniqueKey`,
      );
    });
  });

  describe(`groups and chains on ${database}`, () => {
    const results = async () => {
      const all: unknown[] = [];
      for await (const { status, result = null } of currentTask().group.results()) all.push([status, result]);
      return all;
    };

    test("then runs once when all members have ended, and reads how", async () => {
      const queue = await start();
      const leaf = named((n: number) => n);
      const group = await queue.enqueueGroup(
        [1, 2, 3].map((n) => [leaf, n] as const),
        { then: named(results) },
      );
      expect(await queue.awaitGroup(group.id, patience)).toMatchObject({
        total: 3,
        completed: 3,
        waiting: 0,
      });
      expect((await end(queue, group.thenId as number)).result).toEqual(
        [1, 2, 3].map((n) => ["completed", n]),
      );
      await expect(queue.awaitGroup(group.ids[0] as number)).rejects.toThrow("is no group");
    });

    test("a group takes no unique keys, and its own task cannot be retried", async () => {
      const queue = await start();
      const leaf = named(() => 1);
      const keyed = leaf.with({ uniqueKey: "k" });
      for (const group of [
        queue.enqueueGroup([[keyed]]),
        queue.enqueueGroup([[leaf]], { then: keyed }),
        queue.enqueueChain([[keyed]]),
      ])
        await expect(group).rejects.toThrow("uniqueKey has no meaning here");
      const { id } = await queue.enqueueGroup([[leaf]]);
      await queue.awaitGroup(id, patience);
      expect(await queue.retryTask(id)).toMatchObject({ status: "completed" });
    });

    test("the first failure cancels what has not started, or nothing", async () => {
      const clock = new TestClock();
      const queue = await start({ concurrency: 1 }, clock);
      const bad = named(
        () => {
          throw new Error("bad");
        },
        { maxRetries: 0, priority: 9 },
      );
      const leaf = named(() => 1, { delay: "1h" });
      const cut = await queue.enqueueGroup([[bad], [leaf]], { then: named(results) });
      expect(await queue.awaitGroup(cut.id, patience)).toMatchObject({ total: 2, failed: 1, cancelled: 1 });
      expect(await end(queue, cut.thenId as number)).toMatchObject({ status: "cancelled" });
      const kept = await queue.enqueueGroup([[bad], [leaf]], { then: named(results), onFailure: "continue" });
      await end(queue, kept.ids[0] as number);
      clock.advance(3_600_000);
      expect(await queue.awaitGroup(kept.id, patience)).toMatchObject({ total: 2, failed: 1, completed: 1 });
      expect((await end(queue, kept.thenId as number)).result).toEqual([
        ["failed", null],
        ["completed", 1],
      ]);
    });

    test("an empty group runs then at once, and a member adds members", async () => {
      const queue = await start();
      const empty = await queue.enqueueGroup([], { then: named(results) });
      expect(await queue.awaitGroup(empty.id, patience)).toMatchObject({ total: 0 });
      expect((await end(queue, empty.thenId as number)).result).toEqual([]);
      const leaf = named((n: number) => n);
      const first = named(async () => (await currentTask().group.add([[leaf, 7]])).length);
      const group = await queue.enqueueGroup([[first]], { then: named(results) });
      expect((await end(queue, group.thenId as number)).result).toEqual([
        ["completed", 1],
        ["completed", 7],
      ]);
      const outside = named(async () => await currentTask().group.add([]));
      expect(await end(queue, await queue.enqueueTask(outside.with({ maxRetries: 0 })))).toMatchObject({
        status: "failed",
        error: { message: expect.stringContaining("is in no group") },
      });
    });

    test("a chain passes results on, in one transaction with the app's writes", async () => {
      const queue = await start();
      const first = named((text: string) => `${text}.`);
      const none = named((_: string) => undefined);
      const last = named((prefix: string, before: unknown) => [prefix, before]);
      const chain = (await queue.transaction((_tx: unknown, q) =>
        q.enqueueChain([[first, "a"], [none], [last, "p"]]),
      )) as { ids: number[] };
      expect((await end(queue, chain.ids[2] as number)).result).toEqual(["p", null]);
      expect((await queue.getTask(chain.ids[1] as number))?.args).toEqual(["a."]);
    });

    test("the schema of a link judges its arguments together with the result before it, when it runs", async () => {
      const queue = await start();
      const text = schemaOf<string, string>((value) =>
        typeof value === "string" ? { value } : { issues: [{ message: "expected a text" }] },
      );
      const pair = schemaOf<[string, number], [string, number]>((value) =>
        Array.isArray(value) && value.length === 2
          ? { value: value as [string, number] }
          : { issues: [{ message: "expected two arguments" }] },
      );
      const download = task(uniqueName("download"), async (url) => `text of ${url}`, { input: text });
      const count = task(uniqueName("count"), async (given) => given.length, { input: text });
      const sum = task(uniqueName("sum"), async (unit, n) => `${n} ${unit}`, { args: pair });
      const { ids } = await queue.enqueueChain([[download, "a"], [count], [sum, "letters"]]);
      expect((await end(queue, ids[2] as number)).result).toBe("9 letters");
      const wrong = await queue.enqueueChain([[sum, "a", 1], [count], [named(() => 1)], [count]]);
      expect(await end(queue, wrong.ids[3] as number)).toMatchObject({
        status: "failed",
        error: { code: "DBQ_INVALID_ARGUMENTS" },
      });
      await expect(async () => await queue.enqueueChain([[count] as never, [count]])).rejects.toThrow(
        "expected a text",
      );
    });

    test("a failure in a chain cancels the rest, and a cancel of the last one cancels all", async () => {
      const queue = await start();
      const bad = named(
        () => {
          throw new Error("bad");
        },
        { maxRetries: 0 },
      );
      const leaf = named(() => 1);
      const failed = await queue.enqueueChain([[bad], [leaf], [leaf]]);
      expect((await end(queue, failed.ids[2] as number)).error?.message).toContain("was cancelled");
      expect((await end(queue, failed.ids[1] as number)).error?.message).toContain("has failed");
      const later = leaf.with({ delay: "1h" });
      const { ids } = await queue.enqueueChain([[later], [leaf], [leaf]]);
      expect(await queue.retryTask(ids[1] as number)).toMatchObject({ status: "waiting", generationId: 1 });
      await queue.cancelTask(ids[2] as number);
      for (const id of ids) expect(await statusOf(queue, id)).toBe("cancelled");
    });

    test("the first link of a long chain fails or is cancelled, and each link names the one before", async () => {
      const queue = await start();
      const bad = named(() => Promise.reject(new Error("bad")), { maxRetries: 0 });
      const leaf = named(() => 1);
      const rest = Array.from({ length: 500 }, () => [leaf] as const);
      const failed = (await queue.enqueueChain([[bad], ...rest])).ids as number[];
      const last = await end(queue, failed[500] as number);
      expect(last.error?.message).toBe(`task ${failed[499]}, which it waited for, was cancelled`);
      expect((await queue.getTask(failed[1] as number))?.error?.message).toContain("has failed");
      expect(await queue.countTasks()).toMatchObject({ failed: 1, cancelled: 500, waiting: 0 });
      const later = (await queue.enqueueChain([[leaf.with({ delay: "1h" })], ...rest])).ids as number[];
      await queue.cancelTask(later[0] as number);
      expect(await queue.countTasks()).toMatchObject({ cancelled: 1_001, waiting: 0 });
      expect(await internalsOf(queue).store.workflows.lastWaiting(10)).toEqual([]);
    });
  });
}
