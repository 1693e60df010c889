/** What Managers and agents promise, on any database. */
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { listAgents, revokeAgent } from "../../../src/features/manager/index.ts";
import { type FullInternals, internalsOf } from "../../../src/features/queue.ts";
import { CancelTask, currentTask, SnoozeTask, task } from "../../../src/index.ts";
import { deferred, uniqueName } from "../../support/queue.ts";
import { ByHand, type Open, startedAgent, startedManager, tokenFor, urlOf, version } from "./setup.ts";

const long = { timeout: "20s" } as const;

/** `place`: a new database for one test. */
export function managerCases(name: string, place: () => Open | Promise<Open>): void {
  describe(name, () => {
    describe("an agent", () => {
      it("runs tasks, and their results, errors, kwargs and progress are those of a worker's tasks", async () => {
        const queue = await (await place())();
        const names = Array.from({ length: 4 }, () => uniqueName());
        const [sum, bad, told, off] = [
          task(names[0] as string, (a: number, b: number, { c }: { c: number }) => a + b + c),
          task(names[1] as string, () => Promise.reject(new RangeError("no luck")), { maxRetries: 0 }),
          task(names[2] as string, () => {
            currentTask().progress(0.5, "half");
            currentTask().log("a line");
          }),
          task(names[3] as string, () => {
            throw new CancelTask("not now");
          }),
        ];
        const manager = await startedManager(queue);
        await startedAgent([manager], { token: await tokenFor(queue, names), tasks: [sum, bad, told, off] });
        const ids = {
          sum: await queue.enqueueTask(sum.with({ kwargs: { c: 3 } }) as never, ...([1, 2] as never)),
          bad: await queue.enqueueTask(bad),
          told: await queue.enqueueTask(told),
          off: await queue.enqueueTask(off),
        };
        expect(await queue.awaitTaskCompletion(ids.sum, long)).toMatchObject({
          status: "completed",
          result: 6,
        });
        const failed = await queue.awaitTaskCompletion(ids.bad, long);
        expect(failed).toMatchObject({ status: "failed", error: { name: "RangeError", message: "no luck" } });
        expect(failed.error?.stack).toContain("cases.ts");
        expect(await queue.awaitTaskCompletion(ids.told, long)).toMatchObject({
          progress: 0.5,
          progressNote: "half",
        });
        expect((await queue.listLogs(ids.told)).map(({ message }) => message)).toEqual(["a line"]);
        expect(await queue.awaitTaskCompletion(ids.off, long)).toMatchObject({ status: "cancelled" });
      });

      it("is named with its Manager's host in the task's worker_id and in its attempts", async () => {
        const queue = await (await place())();
        const fails = task(uniqueName(), () => Promise.reject(new Error("no")), { maxRetries: 0 });
        const manager = await startedManager(queue);
        const agent = await startedAgent([manager], {
          token: await tokenFor(queue, [fails.taskName]),
          tasks: [fails],
        });
        const id = await queue.enqueueTask(fails);
        const { workerId } = await queue.awaitTaskCompletion(id, long);
        expect(workerId).toMatch(new RegExp(`^.+:${process.pid}:[0-9a-f]+/agent-\\d+/${agent.session}$`));
        expect(await queue.listAttempts(id)).toMatchObject([{ workerId, outcome: "failed" }]);
      });

      it("retries by the function's own backoff, and a snooze charges no retry", async () => {
        const queue = await (await place())();
        let calls = 0;
        const flaky = task(
          uniqueName(),
          () => {
            calls += 1;
            if (calls === 1) throw new Error("first");
            if (calls === 2) throw new SnoozeTask(1);
            return currentTask().retryCount;
          },
          { backoff: () => 1 },
        );
        const manager = await startedManager(queue);
        await startedAgent([manager], { token: await tokenFor(queue, [flaky.taskName]), tasks: [flaky] });
        expect(await queue.awaitTaskResult(await queue.enqueueTask(flaky), long)).toBe(1);
        expect(calls).toBe(3);
      });

      it("hears of a cancel within a second, and its late result is not accepted", async () => {
        const queue = await (await place())();
        const begun = deferred();
        const aborted = deferred<unknown>();
        const waits = task(uniqueName(), async () => {
          const { signal } = currentTask();
          begun.resolve();
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          aborted.resolve(signal.reason);
          return "late";
        });
        const manager = await startedManager(queue);
        await startedAgent([manager], { token: await tokenFor(queue, [waits.taskName]), tasks: [waits] });
        const id = await queue.enqueueTask(waits);
        await begun.promise;
        const before = performance.now();
        await queue.cancelTask(id, { reason: "enough" });
        expect(await aborted.promise).toMatchObject({
          code: "DBQ_TASK_CANCELLED",
          message: `task ${id} was cancelled: enough`,
        });
        expect(performance.now() - before).toBeLessThan(2_000);
        expect(await queue.getTask(id)).toMatchObject({ status: "cancelled", result: undefined });
      });

      it("that stops finishes what runs within its grace, and hands the rest back with no retry charged", async () => {
        const queue = await (await place())();
        const [quick, slow] = [deferred(), deferred()];
        const [finishes, hangs] = [
          task(uniqueName(), async () => await quick.promise),
          task(uniqueName(), async () => {
            slow.resolve();
            await new Promise(() => undefined);
          }),
        ];
        const manager = await startedManager(queue);
        const funcs = [finishes.taskName, hangs.taskName];
        const agent = await startedAgent([manager], {
          token: await tokenFor(queue, funcs),
          tasks: [finishes, hangs],
        });
        const ids = [await queue.enqueueTask(finishes), await queue.enqueueTask(hangs)] as const;
        await slow.promise;
        const stopped = agent.stop({ grace: 300 });
        quick.resolve();
        await stopped;
        expect(await queue.getTask(ids[0])).toMatchObject({ status: "completed" });
        expect(await queue.getTask(ids[1])).toMatchObject({ status: "pending", retryCount: 0 });
      });

      it("that stops while it claims ahead leaves no task running", async () => {
        const queue = await (await place())();
        const begun = deferred();
        let calls = 0;
        const quick = task(uniqueName(), async () => {
          calls += 1;
          if (calls === 500) begun.resolve();
          await new Promise((resolve) => setTimeout(resolve, 2));
        });
        await queue.enqueueTasks(Array.from({ length: 3_000 }, () => [quick]) as never);
        const manager = await startedManager(queue);
        const token = await tokenFor(queue, [quick.taskName]);
        const agent = await startedAgent([manager], { token, concurrency: 5, tasks: [quick] });
        await begun.promise;
        await agent.stop();
        const counts = await queue.countTasks();
        expect(counts).toMatchObject({ completed: calls, running: 0, pending: 3_000 - calls });
      });

      it("goes on with the next Manager when one stops, and what it runs goes on", async () => {
        const open = await place();
        const [queue, other] = [await open(), await open()];
        const [begun, over] = [deferred(), deferred()];
        let calls = 0;
        const waits = task(uniqueName(), async () => {
          calls += 1;
          begun.resolve();
          await over.promise;
          return "kept";
        });
        const managers = [await startedManager(queue), await startedManager(other)] as const;
        await startedAgent(managers, { token: await tokenFor(queue, [waits.taskName]), tasks: [waits] });
        const id = await queue.enqueueTask(waits);
        await begun.promise;
        await managers[0].stop();
        over.resolve();
        expect(await other.awaitTaskResult(id, long)).toBe("kept");
        const next = await other.enqueueTask(waits);
        expect(await other.awaitTaskResult(next, long)).toBe("kept");
        expect(calls).toBe(2);
      });
    });

    describe("a settlement that the server has answered and then lost", () => {
      /** The store answers that it has settled the first completed task, and writes nothing of it. */
      function losesOne({ store }: Pick<FullInternals, "store">): readonly number[] {
        const { settleAndClaim } = store;
        const lost: number[] = [];
        store.settleAndClaim = async (asked) => {
          const at = lost.length === 0 ? asked.outcomes.findIndex(({ kind }) => kind === "completed") : -1;
          if (at < 0) return await settleAndClaim(asked);
          lost.push(asked.outcomes[at]?.id as number);
          const result = await settleAndClaim({ ...asked, outcomes: asked.outcomes.toSpliced(at, 1) });
          return { ...result, settled: result.settled.toSpliced(at, 0, true) };
        };
        return lost;
      }

      it.for(["waits", "runs another task"])(
        "lets the task run again with no retry charged, while its agent %s",
        async (state) => {
          const queue = await (await place())();
          const [begun, over] = [deferred(), deferred()];
          const quick = task(uniqueName(), () => "again");
          const hangs = task(uniqueName(), async () => {
            begun.resolve();
            await over.promise;
          });
          const lost = losesOne(internalsOf(queue));
          const manager = await startedManager(queue, { lease: "1s" });
          const rescued: unknown[] = [];
          manager.on("rescued", (dead) => rescued.push(dead));
          const token = await tokenFor(queue, [quick.taskName, hangs.taskName]);
          await startedAgent([manager], { token, tasks: [quick, hangs] });
          if (state === "runs another task") {
            await queue.enqueueTask(hangs);
            await begun.promise;
          }
          const id = await queue.enqueueTask(quick);
          expect(await queue.awaitTaskResult(id, long)).toBe("again");
          expect(lost).toEqual([id]);
          expect([(await queue.getTask(id))?.retryCount, rescued]).toEqual([0, []]);
          over.resolve();
        },
      );
    });

    describe("the wire", () => {
      async function waiting() {
        const open = await place();
        const queue = await open();
        const func = uniqueName();
        const fn = task(func, (...args: unknown[]) => args);
        const manager = await startedManager(queue, { lease: "2s" });
        const token = await tokenFor(queue, [func]);
        return { open, queue, func, fn, manager, hand: new ByHand(urlOf(manager), token) };
      }

      it("gives a claim asked again with its id the same tasks, at any Manager", async () => {
        const { open, queue, func, fn, hand } = await waiting();
        const other = await startedManager(await open());
        const ids = await queue.enqueueTasks([
          [fn, 1],
          [fn, 2],
          [fn, 3],
        ] as never);
        const requestId = randomUUID();
        const first = (await hand.claim([func], { requestId, slots: 2 })).body.tasks;
        expect(first.map(({ id }: { id: number }) => id)).toEqual((ids as number[]).slice(0, 2));
        const again = await hand.at(urlOf(other)).claim([func], { requestId, slots: 2 });
        expect(again.body.tasks.map(version)).toEqual(first.map(version));
        const rest = (await hand.claim([func])).body.tasks;
        expect(rest.map(({ id }: { id: number }) => id)).toEqual((ids as number[]).slice(2));
        expect(rest[0]).toMatchObject({
          func,
          args: [3],
          kwargs: {},
          retryCount: 0,
          timeout: null,
          requestId: null,
        });
      });

      it("gives a claim that two Managers get at the same time the same tasks", async () => {
        const { open, queue, func, fn, hand } = await waiting();
        const other = await startedManager(await open());
        await hand.claim([func]);
        for (const slots of [1, 3, 5]) {
          await queue.enqueueTasks(Array.from({ length: 12 }, () => [fn]) as never);
          // The session has a row from its first claim that found tasks on.
          await hand.claim([func], { slots: 1 });
          const asked = { requestId: randomUUID(), slots };
          const answers = await Promise.all(
            [hand, hand.at(urlOf(other))].map((one) => one.claim([func], asked)),
          );
          const [one, two] = answers.map(({ body }) => body.tasks.map(version));
          expect(one).toHaveLength(slots);
          expect(two).toEqual(one);
        }
      });

      it("gives a claim asked again with its id other tasks once those of its first answer have ended", async () => {
        const { queue, func, fn, hand } = await waiting();
        const asked = { requestId: randomUUID(), slots: 1 };
        await queue.enqueueTasks([
          [fn, 1],
          [fn, 2],
        ] as never);
        const [first] = (await hand.claim([func], asked)).body.tasks;
        await hand.settle({ ...version(first), status: "completed" });
        const [second] = (await hand.claim([func], asked)).body.tasks;
        expect([first.args, second.args]).toEqual([[1], [2]]);
        expect((await hand.claim([func], asked)).body.tasks.map(version)).toEqual([version(second)]);
      });

      it("settles and claims in one request, and asked again, at any Manager, the answer is the same", async () => {
        const { open, queue, func, fn, hand } = await waiting();
        const other = await startedManager(await open());
        await queue.enqueueTasks([
          [fn, 1],
          [fn, 2],
          [fn, 3],
        ] as never);
        const [first] = (await hand.claim([func], { slots: 1 })).body.tasks;
        const ended = { ...version(first), status: "completed", result: "done" };
        const stale = { ...ended, generation: first.generation - 1 };
        const asked = { requestId: randomUUID(), slots: 1, ahead: 1, settle: [ended, stale] };
        const { body } = await hand.claim([func], asked);
        expect(body).toMatchObject({
          tasks: [{ args: [2] }, { args: [3] }],
          settled: [first.id],
          lost: [first.id],
        });
        expect((await hand.at(urlOf(other)).claim([func], asked)).body).toEqual(body);
        expect(await queue.getTask(first.id)).toMatchObject({ status: "completed", result: "done" });
      });

      it("does not wait for tasks with the answer to what a claim settles", async () => {
        const { queue, func, fn, hand } = await waiting();
        await queue.enqueueTask(fn);
        const [claimed] = (await hand.claim([func])).body.tasks;
        const settle = [{ ...version(claimed), status: "completed" }];
        const before = performance.now();
        const { body } = await hand.claim([func], { settle, wait: "20s" });
        expect(body).toEqual({ tasks: [], settled: [claimed.id], lost: [] });
        expect(performance.now() - before).toBeLessThan(3_000);
      });

      it("answers a claim with as many bytes as the Manager and the agent allow, and leaves the other tasks in the queue", async () => {
        const open = await place();
        const queue = await open();
        const fn = task(uniqueName(), (_text: string) => undefined);
        const manager = await startedManager(queue, { maxAnswer: 5_000 });
        const hand = new ByHand(urlOf(manager), await tokenFor(queue, [fn.taskName]));
        const ids = await queue.enqueueTasks(
          [2_000, 2_000, 2_000, 9_000, 10, 10, 10, 10].map((length) => [fn, "é".repeat(length / 2)]) as never,
        );
        const seen: number[] = [];
        for (let claims = 0; seen.length < ids.length && claims < 20; claims += 1) {
          const maxBytes = claims % 2 === 0 ? undefined : 3_000;
          const { tasks } = (await hand.claim([fn.taskName], { maxBytes })).body;
          const bytes = Buffer.byteLength(JSON.stringify(tasks));
          if (tasks.length > 1) expect(bytes).toBeLessThan(maxBytes ?? 5_000);
          for (const { id, retryCount } of tasks) seen.push(retryCount === 0 ? id : Number.NaN);
        }
        expect(seen.sort((one, other) => one - other)).toEqual(ids);
      });

      it("claims no task ahead that could not survive another crash", async () => {
        const { queue, func, hand } = await waiting();
        const last = task(func, () => undefined, { maxRetries: 0 });
        await queue.enqueueTasks(Array.from({ length: 5 }, () => [last]) as never);
        expect((await hand.claim([func], { slots: 2, ahead: 2 })).body.tasks).toHaveLength(2);
        expect((await hand.claim([func], { slots: 0, ahead: 2 })).body.tasks).toHaveLength(0);
        expect((await hand.claim([func], { slots: 0 })).status).toBe(400);
      });

      it("answers a repeated settle the same, at any Manager, and a stale one by lost", async () => {
        const { open, queue, func, fn, hand } = await waiting();
        const other = hand.at(urlOf(await startedManager(await open())));
        await queue.enqueueTasks(Array.from({ length: 5 }, () => [fn]) as never);
        const { tasks } = (await hand.claim([func])).body;
        const error = { name: "Oops", message: "no", stack: "at x" };
        const ends = [
          { ...version(tasks[0]), status: "completed", result: { a: 1 } },
          { ...version(tasks[1]), status: "failed", error },
          { ...version(tasks[2]), status: "cancelled", error },
          { ...version(tasks[3]), status: "snoozed", delay: "1h" },
          { ...version(tasks[4]), status: "released" },
        ];
        const settled = { settled: tasks.map(({ id }: { id: number }) => id), lost: [] };
        expect((await other.settle(...ends)).body).toEqual(settled);
        expect((await hand.settle(...ends)).body).toEqual(settled);
        const rows = await Promise.all(tasks.map(({ id }: { id: number }) => queue.getTask(id)));
        expect(rows.map((row) => [row?.status, row?.retryCount])).toEqual([
          ["completed", 0],
          ["scheduled", 1],
          ["cancelled", 0],
          ["scheduled", 0],
          ["pending", 0],
        ]);
        expect(rows[1]?.error).toEqual(error);
        const stale = { ...version(tasks[0]), generation: tasks[0].generation - 1, status: "completed" };
        expect((await hand.settle(stale)).body).toEqual({ settled: [], lost: [tasks[0].id] });
      });

      it("says settled of a repeated snooze, although the task has run again since", async () => {
        const { queue, func, fn, hand } = await waiting();
        const id = await queue.enqueueTask(fn);
        const [first] = (await hand.claim([func])).body.tasks;
        const snooze = { ...version(first), status: "snoozed", delay: 0 };
        await hand.settle(snooze);
        const [second] = (await new ByHand(hand.url, hand.token).claim([func], { wait: "5s" })).body.tasks;
        expect(second).toMatchObject({ id });
        expect((await hand.settle(snooze)).body).toEqual({ settled: [id], lost: [] });
        expect((await hand.settle({ ...snooze, status: "failed" })).body).toEqual({
          settled: [],
          lost: [id],
        });
      });

      it("says lost of a task that was rescued, although it is pending as after a snooze", async () => {
        const { queue, func, fn, hand } = await waiting();
        const id = await queue.enqueueTask(fn);
        const [claimed] = (await hand.claim([func])).body.tasks;
        const freed = deferred();
        const look = setInterval(async () => {
          if ((await queue.getTask(id))?.status === "pending") freed.resolve();
        }, 100);
        await freed.promise;
        clearInterval(look);
        expect(await queue.listAttempts(id)).toMatchObject([{ outcome: "crashed" }]);
        for (const end of [{ status: "snoozed", delay: 1 }, { status: "released" }, { status: "completed" }])
          expect((await hand.settle({ ...version(claimed), ...end })).body).toEqual({
            settled: [],
            lost: [id],
          });
      });

      it("settles and shows no task of another session or agent", async () => {
        const { queue, func, fn, manager, hand } = await waiting();
        const id = await queue.enqueueTask(fn, 1);
        const [claimed] = (await hand.claim([func])).body.tasks;
        const thief = new ByHand(urlOf(manager), await tokenFor(queue, ["other"]), hand.session);
        for (const by of [thief, new ByHand(hand.url, hand.token)]) {
          const settled = await by.settle({ ...version(claimed), status: "completed" });
          expect(settled).toEqual({ status: 200, body: { settled: [], lost: [id] } });
          expect((await by.beat(version(claimed))).body).toMatchObject({ cancel: [], lost: [id] });
          expect((await by.progress({ ...version(claimed), progress: 1 })).body).toEqual({ lost: [id] });
        }
        expect(await queue.getTask(id)).toMatchObject({ status: "running", progress: null });
      });

      it("tells a beat of cancelled and lost tasks, and keeps the others alive beyond the lease", async () => {
        const { queue, func, fn, hand } = await waiting();
        await queue.enqueueTasks([[fn], [fn], [fn]] as never);
        const { tasks } = (await hand.claim([func])).body;
        await queue.cancelTask(tasks[0].id);
        const stale = { ...version(tasks[1]), generation: tasks[1].generation + 1 };
        expect((await hand.beat(version(tasks[0]), stale, version(tasks[2]))).body).toEqual({
          cancel: [tasks[0].id],
          reasons: { [tasks[0].id]: "cancelled by queue.cancelTask" },
          lost: [tasks[1].id],
          quiet: false,
        });
        for (let i = 0; i < 8; i += 1) {
          await new Promise((resolve) => setTimeout(resolve, 500));
          expect((await hand.beat(version(tasks[2]))).body.lost).toEqual([]);
        }
        // Nobody named it for a lease.
        expect(await queue.getTask(tasks[1].id)).toMatchObject({ status: "pending", retryCount: 0 });
      }, 30_000);

      it("a task that ends while a Manager looks for what its session holds stays ended", async () => {
        const { open, queue, func, fn, hand } = await waiting();
        const second = await open();
        const other = hand.at(urlOf(await startedManager(second, { lease: "1s" })));
        const id = await queue.enqueueTask(fn);
        const [claimed] = (await hand.claim([func])).body.tasks;
        const { agents } = internalsOf(second).store;
        const { tasks } = agents;
        let looked = false;
        agents.tasks = async (ids) => {
          if (!looked && ids.includes(id)) {
            looked = true;
            await hand.settle({ ...version(claimed), status: "completed" });
          }
          return await tasks(ids);
        };
        // A third of the lease later the Manager compares, and a lease later it hands back what nobody has named.
        for (let i = 0; i < 30; i += 1) {
          expect((await other.beat()).status).toBe(200);
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
        expect(looked).toBe(true);
        expect(await queue.getTask(id)).toMatchObject({
          status: "completed",
          generationId: claimed.generation + 1,
        });
      }, 20_000);

      it("a task that is named is not handed back, however slowly the database answers", async () => {
        const { open, queue, func, fn } = await waiting();
        const second = await open();
        const manager = await startedManager(second, { lease: "1s" });
        const hand = new ByHand(urlOf(manager), await tokenFor(queue, [func]));
        const id = await queue.enqueueTask(fn);
        const [claimed] = (await hand.claim([func])).body.tasks;
        const { store } = internalsOf(second);
        const { taskStates } = store;
        store.taskStates = async (ids) => {
          await new Promise((resolve) => setTimeout(resolve, 2_500));
          return await taskStates(ids);
        };
        let answered = false;
        const beat = hand.beat(version(claimed)).finally(() => {
          answered = true;
        });
        // Its heartbeats go on meanwhile.
        while (!answered) {
          await hand.beat();
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
        expect((await beat).body).toMatchObject({ cancel: [], lost: [] });
        await hand.beat();
        expect(await queue.getTask(id)).toMatchObject({ status: "running" });
      }, 20_000);

      it("waits for a task, and is answered when one is enqueued", async () => {
        const { queue, func, fn, hand } = await waiting();
        const before = performance.now();
        const claim = hand.claim([func], { wait: "20s" });
        const id = await queue.enqueueTask(fn, "here");
        expect((await claim).body.tasks).toMatchObject([{ id, args: ["here"] }]);
        expect(performance.now() - before).toBeLessThan(5_000);
        expect((await hand.claim([func], { wait: 50 })).body).toEqual({ tasks: [] });
      });

      it("a claim that waits gets no task once its token is revoked", async () => {
        const { queue, func, fn, hand } = await waiting();
        const claim = hand.claim([func], { wait: "20s" });
        const [{ name } = { name: "" }] = await listAgents(queue);
        await new Promise((resolve) => setTimeout(resolve, 300));
        await revokeAgent(queue, name);
        await new Promise((resolve) => setTimeout(resolve, 600));
        const id = await queue.enqueueTask(fn, "not for it");
        expect((await claim).body).toEqual({ tasks: [] });
        expect(await queue.getTask(id)).toMatchObject({ status: "pending", generationId: 1 });
      }, 30_000);

      it("refuses a revoked token", async () => {
        const { queue, func, hand } = await waiting();
        expect((await hand.claim([func])).status).toBe(200);
        const [{ name } = { name: "" }] = await listAgents(queue);
        expect(await revokeAgent(queue, name)).toBe(true);
        await new Promise((resolve) => setTimeout(resolve, 600));
        expect((await hand.claim([func])).status).toBe(401);
      });
    });
  });
}
