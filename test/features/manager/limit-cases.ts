/** Limits, rates, groups and throttles of agents' functions, on any database. */
import { randomUUID } from "node:crypto";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { remoteTask, ThrottleTask, task, Worker } from "../../../src/index.ts";
import { uniqueName } from "../../support/queue.ts";
import { ByHand, type Open, startedAgent, startedManager, tokenFor, urlOf, version } from "./setup.ts";

const long = { timeout: "30s" } as const;
/** Only wake-ups: none of these tests waits for it. */
const noPolls = { pollInterval: "1m" } as const;

/** Counts how many calls run at once. Each runs for as many milliseconds. */
function counted(runs: number) {
  const seen = { now: 0, most: 0, calls: [] as string[] };
  const fn = async (name: string) => {
    seen.now += 1;
    seen.most = Math.max(seen.most, seen.now);
    seen.calls.push(name);
    await new Promise((resolve) => setTimeout(resolve, runs));
    seen.now -= 1;
    return name;
  };
  return { seen, fn };
}

/** `place`: a new database for one test. */
export function limitCases(name: string, place: () => Open | Promise<Open>): void {
  describe(`limits ${name}`, () => {
    it("the limit of a function holds over the agents of several Managers", async () => {
      const open = await place();
      const [queue, other] = [await open(), await open()];
      const { seen, fn } = counted(10);
      const call = task(uniqueName(), fn, { limit: { concurrency: 2 } });
      const token = await tokenFor(queue, [call.taskName]);
      for (const on of [queue, other])
        await startedAgent([await startedManager(on)], { token, tasks: [call] });
      expect(await queue.listLimits()).toMatchObject([
        { target: { func: call.taskName }, fromCode: true, concurrency: 2 },
      ]);
      const ids = await queue.enqueueTasks(Array.from({ length: 12 }, (_, i) => [call, `${i}`] as const));
      await Promise.all(ids.map((id) => queue.awaitTaskResult(id, long)));
      expect(seen).toMatchObject({ now: 0, most: 2 });
    });

    it("a limit that the code of a later agent does not have is no more", async () => {
      const queue = await (await place())();
      const manager = await startedManager(queue);
      const func = uniqueName();
      const token = await tokenFor(queue, [func]);
      const limited = task(func, () => 1, { limit: { rate: { limit: 5, per: "1s" } } });
      const first = await startedAgent([manager], { token, tasks: [limited] });
      expect(await queue.listLimits()).toMatchObject([{ rate: { limit: 5, per: 1_000, burst: 1 } }]);
      await first.stop();
      const unlimited = task(func, () => 2);
      await startedAgent([manager], { token, tasks: [unlimited] });
      expect((await queue.listLimits()).filter(({ rate }) => rate !== null)).toEqual([]);
    });

    it("functions of agents and workers share the limit that they name in uses", async () => {
      const queue = await (await place())();
      await queue.setLimit("api", { concurrency: 1 });
      const { seen, fn } = counted(10);
      const [byAgent, byWorker] = [1, 2].map(() => task(uniqueName(), fn, { uses: ["api"] }));
      if (!byAgent || !byWorker) throw new Error("two functions");
      const worker = new Worker(queue, { tasks: [byWorker] });
      await worker.start();
      onTestFinished(() => worker.stop({ grace: 0 }));
      const token = await tokenFor(queue, [byAgent.taskName]);
      await startedAgent([await startedManager(queue)], { token, tasks: [byAgent] });
      const calls = Array.from({ length: 12 }, (_, i) => [i % 2 ? byAgent : byWorker, `${i % 2}`] as const);
      const ids = await queue.enqueueTasks(calls);
      await Promise.all(ids.map((id) => queue.awaitTaskResult(id, long)));
      expect(seen).toMatchObject({ now: 0, most: 1 });
      expect(new Set(seen.calls)).toEqual(new Set(["0", "1"]));
    });

    it("the groups of an agent's function take turns", async () => {
      const queue = await (await place())();
      const { seen, fn } = counted(1);
      const call = task(uniqueName(), fn, { group: (tenant) => tenant });
      const ids = await queue.enqueueTasks(
        ["a", "a", "a", "a", "a", "a", "b"].map((tenant) => [call, tenant] as const),
      );
      const token = await tokenFor(queue, [call.taskName]);
      await startedAgent([await startedManager(queue)], { token, tasks: [call], concurrency: 1 });
      await Promise.all(ids.map((id) => queue.awaitTaskResult(id, long)));
      expect(seen.calls.indexOf("b")).toBeLessThan(2);
    });

    it("a rate of an agent's function spaces its starts", async () => {
      const queue = await (await place())();
      const starts: number[] = [];
      const call = task(uniqueName(), () => void starts.push(performance.now()), {
        limit: { rate: { limit: 10, per: "1s" } },
      });
      const token = await tokenFor(queue, [call.taskName]);
      await startedAgent([await startedManager(queue, noPolls)], { token, tasks: [call] });
      const ids = await queue.enqueueTasks(Array.from({ length: 5 }, () => [call] as const));
      const tasks = await Promise.all(ids.map((id) => queue.awaitTaskCompletion(id, long)));
      const claimed = tasks.map(({ startedAt }) => Number(startedAt)).sort((a, b) => a - b);
      expect(Number(claimed.at(-1)) - Number(claimed[0])).toBeGreaterThanOrEqual(390);
      expect(starts).toHaveLength(5);
    });

    it("an agent claims tasks before their turn at a rate, and starts none before it", async () => {
      const queue = await (await place())();
      const call = task(uniqueName(), () => undefined, { limit: { rate: { limit: 20, per: "1s" } } });
      const token = await tokenFor(queue, [call.taskName]);
      const agent = await startedAgent([await startedManager(queue, noPolls)], { token, tasks: [call] });
      const early: number[] = [];
      agent.on("started", ({ startedAt }) => early.push(Number(startedAt) - Date.now()));
      const ids = await queue.enqueueTasks(Array.from({ length: 20 }, () => [call] as const));
      await Promise.all(ids.map((id) => queue.awaitTaskCompletion(id, long)));
      expect(early).toHaveLength(20);
      // A millisecond, since the database's clock may count in these.
      expect(Math.max(...early)).toBeLessThanOrEqual(1);
    });

    it("a ThrottleTask of an agent's function stops its group, and no other, and charges no retry", async () => {
      const queue = await (await place())();
      const calls: string[] = [];
      const call = task(
        uniqueName(),
        (tenant: string) => {
          calls.push(tenant);
          if (calls.length === 1) throw new ThrottleTask("1h");
          return tenant;
        },
        { group: (tenant) => tenant },
      );
      const token = await tokenFor(queue, [call.taskName]);
      await startedAgent([await startedManager(queue)], { token, tasks: [call] });
      const throttled = await queue.enqueueTask(call, "a");
      await vi.waitFor(
        async () =>
          expect(await queue.getTask(throttled)).toMatchObject({ status: "scheduled", retryCount: 0 }),
        10_000,
      );
      const waits = await queue.enqueueTask(call, "a");
      expect(await queue.awaitTaskResult(await queue.enqueueTask(call, "b"), long)).toBe("b");
      expect(await queue.getTask(waits)).toMatchObject({ status: "pending" });
      expect(calls).toEqual(["a", "b"]);
    });

    describe("the wire", () => {
      async function byHand(options = {}) {
        const open = await place();
        const queue = await open();
        const func = uniqueName();
        const manager = await startedManager(queue, options);
        const hand = new ByHand(urlOf(manager), await tokenFor(queue, [func]));
        const limit = (limits: unknown) =>
          hand.post("/v1/limits", { session: hand.session, limits } as object);
        return { open, queue, func, fn: remoteTask<() => unknown>(func), manager, hand, limit };
      }

      it("takes limits of the agent's own functions only", async () => {
        const { queue, func, limit } = await byHand();
        const rate = { limit: 100, per: "1m", burst: 3 };
        expect(await limit({ [func]: { concurrency: 2, rate } })).toEqual({ status: 200, body: {} });
        expect(await queue.listLimits()).toMatchObject([
          { target: { func }, concurrency: 2, rate: { limit: 100, per: 60_000, burst: 3 } },
        ]);
        expect(await limit({ other: { concurrency: 9 } })).toEqual({
          status: 403,
          body: { error: "forbidden" },
        });
        expect(await limit({ [func]: null })).toEqual({ status: 200, body: {} });
        expect((await queue.listLimits()).filter(({ concurrency }) => concurrency !== null)).toEqual([]);
      });

      it("names what is wrong with a limit, and with what a claim says about sharing", async () => {
        const { func, hand, limit } = await byHand();
        const limits: [unknown, RegExp][] = [
          [undefined, /limits.*object/],
          [{ [func]: {} }, /neither/],
          [{ [func]: { concurrency: 0 } }, /concurrency.*0/],
          [{ [func]: { rate: { limit: 5 } } }, /per is missing/],
          [{ [func]: { rate: { limit: 5, per: "1s", burst: 6 } } }, /burst/],
          [{ [func]: { more: 1 } }, /more/],
        ];
        for (const [given, says] of limits)
          expect([given, await limit(given)]).toEqual([
            given,
            { status: 400, body: { error: expect.stringMatching(says) } },
          ]);
        const sharing: [unknown, RegExp][] = [
          [[], /sharing.*object/],
          [{ other: { uses: [] } }, /sharing.*funcs.*other/],
          [{ [func]: { uses: "api" } }, /uses.*array/],
          [{ [func]: { uses: [""] } }, /uses\[0\]/],
          [{ [func]: { uses: Array.from({ length: 101 }, () => "x") } }, /uses.*100/],
          [{ [func]: { groups: 1 } }, /groups/],
        ];
        for (const [given, says] of sharing)
          expect([given, await hand.claim([func], { sharing: given })]).toEqual([
            given,
            { status: 400, body: { error: expect.stringMatching(says) } },
          ]);
      });

      it("a claim counts for the limits that it names, and gets no task above them", async () => {
        const { queue, func, fn, hand } = await byHand();
        await queue.setLimit("api", { concurrency: 1 });
        await queue.enqueueTasks([[fn], [fn]]);
        const sharing = { [func]: { uses: ["api"] } };
        const [first, ...others] = (await hand.claim([func], { sharing })).body.tasks;
        expect(others).toEqual([]);
        expect((await hand.claim([func], { sharing })).body.tasks).toEqual([]);
        expect(await queue.listLimits()).toMatchObject([{ target: "api", running: 1 }]);
        const settle = [{ ...version(first), status: "completed" }];
        expect((await hand.claim([func], { sharing, settle })).body.tasks).toHaveLength(1);
      });

      it("a claim that waits gets the place that another session's task leaves", async () => {
        const { queue, func, fn, hand } = await byHand(noPolls);
        await queue.setLimit({ func }, { concurrency: 1 });
        const [, second] = await queue.enqueueTasks([[fn], [fn]]);
        const [first] = (await hand.claim([func])).body.tasks;
        const other = new ByHand(hand.url, hand.token);
        expect((await other.claim([func])).body.tasks).toEqual([]);
        const waiting = other.claim([func], { wait: "30s" });
        await hand.settle({ ...version(first), status: "completed" });
        expect((await waiting).body.tasks).toMatchObject([{ id: second }]);
      });

      it("a claim takes tasks before their turn at a rate, and says when each is to start", async () => {
        const { queue, func, fn, hand, limit } = await byHand();
        await limit({ [func]: { rate: { limit: 10, per: "1s", burst: 1 } } });
        const ids = await queue.enqueueTasks(Array.from({ length: 4 }, () => [fn] as const));
        const asked = { requestId: randomUUID(), slots: 4, later: 2 };
        const { tasks } = (await hand.claim([func], asked)).body;
        expect(tasks).toMatchObject([{ id: ids[0] }, { id: ids[1] }]);
        expect(tasks[0].startsIn).toBeUndefined();
        expect(tasks[1].startsIn).toBeGreaterThan(0);
        expect(tasks[1].startsIn).toBeLessThanOrEqual(100);
        // Where the answer was lost, the same task has less to wait, and not nothing.
        const again = (await hand.claim([func], asked)).body.tasks;
        expect(again.map(({ id }: { id: number }) => id)).toEqual([ids[0], ids[1]]);
        expect(again[1].startsIn ?? 0).toBeLessThanOrEqual(tasks[1].startsIn);
      });

      it("a claim that waits for no turn gets only tasks that may start at once", async () => {
        const { queue, func, fn, hand, limit } = await byHand();
        await limit({ [func]: { rate: { limit: 10, per: "1s", burst: 1 } } });
        const [first] = await queue.enqueueTasks([[fn], [fn]]);
        const { tasks } = (await hand.claim([func])).body;
        expect(tasks).toMatchObject([{ id: first }]);
        expect(tasks[0]).not.toHaveProperty("startsIn");
      });

      it("a claim that waits gets a task when a throttle ends, without a wake-up", async () => {
        const { queue, func, fn, hand } = await byHand(noPolls);
        const { limits } = internalsOf(queue).store;
        await limits.throttle({ kind: "func", name: func, group: "" }, 1_000);
        const id = await queue.enqueueTask(fn);
        expect((await hand.claim([func], { wait: "30s" })).body.tasks).toMatchObject([{ id }]);
      });

      it("a task settled as throttled stops its function, and settled again the answer is the same", async () => {
        const { open, queue, func, fn, hand } = await byHand();
        const other = await startedManager(await open());
        const [id, waits] = await queue.enqueueTasks([[fn], [fn]]);
        const [claimed] = (await hand.claim([func], { slots: 1 })).body.tasks;
        const told = { ...version(claimed), status: "throttled", delay: "1h" };
        const settled = { status: 200, body: { settled: [id], lost: [] } };
        expect(await hand.settle(told)).toEqual(settled);
        expect(await queue.getTask(id as number)).toMatchObject({ status: "scheduled", retryCount: 0 });
        expect((await hand.claim([func])).body.tasks).toEqual([]);
        expect(await hand.at(urlOf(other)).settle(told)).toEqual(settled);
        const [throttle] = await queue.listLimits();
        expect(throttle).toMatchObject({ target: { func }, nextFreeAt: expect.any(Date) });
        expect(await queue.getTask(waits as number)).toMatchObject({ status: "pending" });
      });

      it("a task that is not the session's throttles nothing", async () => {
        const { queue, func, fn, hand } = await byHand();
        await queue.enqueueTask(fn);
        const [claimed] = (await hand.claim([func])).body.tasks;
        const told = { ...version(claimed), status: "throttled", delay: "1h" };
        const stranger = new ByHand(hand.url, hand.token, randomUUID());
        expect((await stranger.settle(told)).body).toEqual({ settled: [], lost: [claimed.id] });
        expect(await queue.listLimits()).toEqual([]);
      });
    });
  });
}
