/** What a drain does, for each database. */
import { once } from "node:events";
import { setImmediate as nextTick } from "node:timers/promises";
import { type SQL, sql } from "drizzle-orm";
import { describe, expect, onTestFinished, test } from "vitest";
import { TestClock } from "../../../src/base/runtime/clock.ts";
import type { DrainAnswer, DrainMessage, DrainOptions } from "../../../src/features/drain/index.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import { inspectQueue, openQueue, type Queue, remoteTask } from "../../../src/index.ts";
import { openQueueAt } from "../../../src/open.ts";
import { deferred } from "../../support/queue.ts";
import { Broker, newDrain, next, sentBy } from "./broker.ts";

/** Functions that this process does not know. */
const send = remoteTask("send", { queueName: "mail", maxRetries: 3 });
const log = remoteTask("log", { queueName: "mail", maxRetries: 3 });
const other = remoteTask("other", { maxRetries: 3 });

/** A database for one test: the target of `openQueue`. */
export type NewTarget = () => Promise<string>;

export function drainCases(database: string, newTarget: NewTarget): void {
  async function setUp(options: Partial<DrainOptions> = {}, broker = new Broker(), clock?: TestClock) {
    const target = await newTarget();
    const open = async () => {
      const queue = clock ? await openQueueAt(clock, target) : await openQueue(target);
      onTestFinished(() => queue.close());
      return queue;
    };
    const queue = await open();
    return { queue, broker, open, ...newDrain(queue, { queueName: "mail", to: broker, ...options }) };
  }

  async function origin(queue: Queue): Promise<string> {
    return await internalsOf(queue).store.drains.origin();
  }

  async function statusOf(queue: Queue, id: number) {
    const { status, retryCount, error, result } = (await queue.getTask(id)) ?? {};
    return { status, retryCount, error: error?.message ?? null, result };
  }

  describe(`a drain on ${database}`, () => {
    test("it sends the tasks of its queue, of functions that nobody here knows, and completes them", async () => {
      const { queue, broker, carrier } = await setUp();
      const elsewhere = await queue.enqueueTask(other, "not here");
      const call = send.with({ priority: 7, maxRetries: 4, requestId: "r1", meta: { tenant: "acme" } });
      const id = await queue.enqueueTask(call, "ada@example.org", { body: "hello" });
      const logged = await queue.enqueueTask(log, "line");
      const sent = sentBy(carrier, 2);
      await carrier.start();
      expect((await sent).sort()).toEqual([...broker.received.keys()].sort());
      const messageId = `dbq-${await origin(queue)}-${id}`;
      expect(broker.received.get(messageId)).toEqual({
        id: messageId,
        name: "send",
        data: {
          args: ["ada@example.org", { body: "hello" }],
          kwargs: {},
          meta: { tenant: "acme" },
          requestId: "r1",
        },
        options: { priority: 7, attempts: 5 },
      });
      expect(await statusOf(queue, id)).toEqual({
        status: "completed",
        retryCount: 0,
        error: null,
        result: { target: "memory", messageId },
      });
      expect((await queue.getTask(logged))?.status).toBe("completed");
      expect((await queue.getTask(elsewhere))?.status).toBe("pending");
    });

    test("the origin is a UUID, the same for all who ask at the same moment, and for ever", async () => {
      const { queue, open } = await setUp();
      const queues = [queue, await open(), await open()];
      const origins = await Promise.all(queues.map(origin));
      expect(new Set(origins).size).toBe(1);
      expect(origins[0]).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
      expect(await origin(await open())).toBe(origins[0]);
    });

    test("what was rolled back is never sent, and what was committed is", async () => {
      const { queue, broker, carrier } = await setUp();
      await carrier.start();
      const attempt = (fail: boolean) =>
        queue.transaction((_tx, q) => {
          const written = q.enqueueTask(send, fail ? "rolled back" : "committed");
          const end = () => {
            if (fail) throw new Error("no");
          };
          return written instanceof Promise ? written.then(end) : end();
        });
      await expect(attempt(true)).rejects.toThrow("no");
      const sent = sentBy(carrier, 1);
      await attempt(false);
      await sent;
      const args = [...broker.received.values()].map(({ data }) => (data as { args: unknown[] }).args[0]);
      expect(args).toEqual(["committed"]);
    });

    test("a delayed task is sent when it is due", async () => {
      const clock = new TestClock();
      const { queue, broker, carrier } = await setUp({}, new Broker(), clock);
      const later = await queue.enqueueTask(send.with({ delay: 300 }), "later");
      const [first, sent] = [sentBy(carrier, 1), sentBy(carrier, 2)];
      await carrier.start();
      const now = await queue.enqueueTask(send, "now");
      await first;
      clock.advance(300);
      const ids = await sent;
      expect(ids.map((id) => Number(id.split("-").at(-1)))).toEqual([now, later]);
      expect(broker.sends).toHaveLength(2);
      const { finishedAt, waitUntil } = (await queue.getTask(later)) ?? {};
      expect(Number(finishedAt)).toBeGreaterThanOrEqual(Number(waitUntil));
    });

    test("a broker that accepts and dies before it answers gets the same ids again, and no retry is charged", async () => {
      const { queue, broker, carrier, errors } = await setUp();
      const ids = await queue.enqueueTasks(["a", "b", "c"].map((text) => [send, text] as const));
      broker.faults = [
        async (messages) => {
          broker.take(messages);
          throw new Error("the connection was reset");
        },
      ];
      const sent = sentBy(carrier, 3);
      await carrier.start();
      await sent;
      expect(broker.sends[1]?.sort()).toEqual(broker.sends[0]?.sort());
      expect(broker.received.size).toBe(3);
      for (const id of ids)
        expect(await statusOf(queue, id)).toMatchObject({ status: "completed", retryCount: 0 });
      expect(errors.map(String)).toEqual(["Error: the connection was reset"]);
    });

    test("while a broker is full, the drain pauses longer each time, and the table keeps what it does not take", async () => {
      const { queue, broker, carrier } = await setUp();
      const full = async () => {
        throw new Error("OOM command not allowed when used memory > 'maxmemory'");
      };
      broker.faults = [full, full, full, full];
      const pauses: number[] = [];
      carrier.on("paused", (_, delay) => pauses.push(delay));
      const paused = next(carrier, "paused");
      const resumed = next(carrier, "resumed");
      const ids = await queue.enqueueTasks(Array.from({ length: 40 }, (_, i) => [send, i] as const));
      const sent = sentBy(carrier, 40);
      await carrier.start();
      await paused;
      const { pending, running, failed } = await queue.countTasks({ queueName: "mail" });
      expect([pending + running, failed]).toEqual([40, 0]);
      await resumed;
      await sent;
      expect(pauses).toHaveLength(4);
      for (const [i, pause] of pauses.entries()) {
        expect(pause).toBeGreaterThanOrEqual((100 * 2 ** i) / 2);
        expect(pause).toBeLessThanOrEqual(100 * 2 ** i);
      }
      // A send that tries whether the broker is back has few messages.
      expect(broker.sends.slice(1, 5).map((some) => some.length)).toEqual([10, 10, 10, 10]);
      const tasks = await Promise.all(ids.map((id) => queue.getTask(id)));
      expect(tasks.every((task) => task?.retryCount === 0 && task.status === "completed")).toBe(true);
      // Each try claims a task once and hands it back: none is claimed in vain during a pause.
      expect(Math.max(...tasks.map((task) => task?.generationId ?? 0))).toBeLessThanOrEqual(15);
    });

    test("a broker may answer a later batch first: each task gets the answer to its own message", async () => {
      const { queue, broker, carrier } = await setUp({ batch: 2 });
      const [first, second] = [deferred<DrainAnswer[]>(), deferred<readonly DrainMessage[]>()];
      broker.faults = [
        () => first.promise,
        async (messages) => {
          second.resolve(messages);
          return [new Error("refused"), ...broker.take(messages.slice(1))];
        },
      ];
      const ids = await queue.enqueueTasks(["a", "b", "c", "d"].map((text) => [send, text] as const));
      const refused = next<[{ id: number }]>(carrier, "refused");
      await carrier.start();
      const later = await second.promise;
      expect((await refused)[0].id).toBe(ids[2]);
      expect((await statusOf(queue, ids[0] as number)).status).toBe("running");
      const sent = sentBy(carrier, 1);
      first.resolve(["sent", new Error("no")]);
      await sent;
      const statuses = await Promise.all(ids.map(async (id) => (await statusOf(queue, id)).status));
      await Promise.all([first.promise]);
      expect(later).toHaveLength(2);
      expect(statuses.sort()).toEqual(["completed", "completed", "failed", "failed"]);
      expect((await statusOf(queue, ids[1] as number)).error).toBe("no");
    });

    test.each([
      ["too few answers", () => ["sent"]],
      ["an answer that is none", () => ["sent", "ok", "sent"]],
      ["nothing", () => undefined],
    ])("%s: nothing is let go, and all is sent again", async (_, answers) => {
      const { queue, broker, carrier, errors } = await setUp();
      await queue.enqueueTasks(["a", "b", "c"].map((text) => [send, text] as const));
      broker.faults = [async () => answers() as DrainAnswer[]];
      const sent = sentBy(carrier, 3);
      await carrier.start();
      await sent;
      // MariaDB may pass over a row that was only just written, which the next claim brings.
      expect(broker.sends.length).toBeGreaterThan(1);
      expect(broker.received.size).toBe(3);
      expect(String(errors[0])).toMatch(/must answer each of [23] messages/);
    });

    test("a message that the broker refuses fails alone", async () => {
      const { queue, broker, carrier } = await setUp();
      const ids = await queue.enqueueTasks(["a", "bad", "c"].map((text) => [send, text] as const));
      broker.faults = [
        async (messages) =>
          messages.map((message) => {
            const [text] = (message.data as { args: unknown[] }).args;
            return text === "bad" ? new Error("bad characters") : (broker.take([message])[0] as DrainAnswer);
          }),
      ];
      const refused = next<[{ id: number }, Error]>(carrier, "refused");
      const sent = sentBy(carrier, 2);
      await carrier.start();
      await sent;
      expect((await refused)[0].id).toBe(ids[1]);
      expect(await statusOf(queue, ids[1] as number)).toMatchObject({
        status: "failed",
        retryCount: 0,
        error: "bad characters",
      });
      const attempts = await queue.listAttempts(ids[1] as number);
      expect(attempts.map(({ outcome }) => outcome)).toEqual(["failed"]);
    });

    test('with onRefused: "retry", it is retried with a retry charged, and fails after the last one', async () => {
      const { queue, broker, carrier } = await setUp({ onRefused: "retry" });
      const refuse = async (messages: readonly DrainMessage[]) => messages.map(() => new Error("not now"));
      broker.faults = [refuse, refuse];
      const once_ = await queue.enqueueTask(send.with({ maxRetries: 0 }), "once");
      const first = next(carrier, "refused");
      await carrier.start();
      await first;
      const second = next(carrier, "refused");
      const twice = await queue.enqueueTask(send.with({ maxRetries: 1 }), "twice");
      await second;
      expect(await statusOf(queue, once_)).toMatchObject({ status: "failed", retryCount: 0 });
      expect(await statusOf(queue, twice)).toMatchObject({ status: "scheduled", retryCount: 1 });
    });

    test("name, data and options make the message; a task for which one of them throws is refused alone", async () => {
      const { queue, broker, carrier } = await setUp({
        name: (task) => `${task.func}:v2`,
        data: ({ args: [to] }) => {
          if (to === "broken") throw new Error("no such template");
          if (to === "big") return 1n;
          return { to };
        },
        options: ({ priority }) => ({ priority, attempts: 1, removeOnComplete: true }),
      });
      const texts = ["ada@example.org", "broken", "big"];
      const ids = await queue.enqueueTasks(texts.map((text) => [send, text] as const));
      const sent = sentBy(carrier, 1);
      await carrier.start();
      await sent;
      for (const id of ids) await queue.awaitTaskCompletion(id);
      expect([...broker.received.values()]).toEqual([
        {
          id: `dbq-${await origin(queue)}-${ids[0]}`,
          name: "send:v2",
          data: { to: "ada@example.org" },
          options: { priority: 5, attempts: 1, removeOnComplete: true },
        },
      ]);
      expect((await statusOf(queue, ids[1] as number)).error).toBe("no such template");
      expect((await statusOf(queue, ids[2] as number)).error).toMatch(/BigInt/);
    });

    test("no send is larger than the target's limits, and a message that is larger is refused", async () => {
      const { queue, broker, carrier } = await setUp({}, new Broker({ count: 2, bytes: 500 }));
      const texts = ["a", "b", "c", "é".repeat(60), "é".repeat(60), "é".repeat(200)];
      const ids = await queue.enqueueTasks(texts.map((text) => [send, text] as const));
      const sent = sentBy(carrier, 5);
      await carrier.start();
      await sent;
      expect(broker.sends.map((some) => some.length)).toEqual([2, 2, 1]);
      expect((await queue.awaitTaskCompletion(ids[5] as number)).error?.message).toMatch(
        /takes 5\d\d bytes, and the target takes 500 at most/,
      );
    });

    test("keep: 0 deletes what was sent, and nothing else", async () => {
      const { queue, broker, carrier } = await setUp({ keep: 0 });
      // By its argument: MariaDB may give a claim the second task alone.
      const answer = (message: DrainMessage) =>
        JSON.stringify(message.data).includes('"bad"') ? new Error("bad") : "sent";
      broker.faults = [async (messages) => messages.map(answer), async (messages) => messages.map(answer)];
      const [bad, good] = await queue.enqueueTasks([
        [send, "bad"],
        [send, "good"],
      ]);
      await carrier.start();
      await queue.awaitTaskCompletion(bad as number);
      await expect.poll(() => queue.getTask(good as number), { timeout: 20_000 }).toBeUndefined();
      await carrier.stop();
      const left = await queue.listTasks({ queueName: "mail" });
      expect(left.map(({ id, status }) => [id, status])).toEqual([[bad, "failed"]]);
    });

    test("after keep, what this queue sent is deleted, and what others completed stays", async () => {
      const { queue, carrier } = await setUp({ keep: 200 });
      const elsewhere = newDrain(queue, { to: new Broker() });
      const [own, others] = [await queue.enqueueTask(send, 1), await queue.enqueueTask(other, 2)];
      await Promise.all([carrier.start(), elsewhere.carrier.start()]);
      await queue.awaitTaskCompletion(others);
      await expect.poll(() => queue.getTask(own), { timeout: 20_000 }).toBeUndefined();
      expect((await queue.getTask(others))?.status).toBe("completed");
    });

    test("a task that is retried by hand is sent under a new id; one that nobody retried never is", async () => {
      const { queue, broker, carrier } = await setUp();
      await carrier.start();
      const first = sentBy(carrier, 1);
      const id = await queue.enqueueTask(send, "again");
      await first;
      const second = sentBy(carrier, 1);
      await queue.retryTask(id);
      await second;
      const third = sentBy(carrier, 1);
      await queue.retryTask(id);
      await third;
      const start = `dbq-${await origin(queue)}-${id}`;
      expect([...broker.received.keys()]).toEqual([start, `${start}-r1`, `${start}-r2`]);
    });

    test("a task that is cancelled while its message is on the way stays cancelled", async () => {
      const { queue, broker, carrier } = await setUp();
      const [asked, answer] = [deferred(), deferred<DrainAnswer[]>()];
      broker.faults = [
        () => {
          asked.resolve();
          return answer.promise;
        },
      ];
      const id = await queue.enqueueTask(send, "a");
      await carrier.start();
      await asked.promise;
      expect((await queue.cancelTask(id)).status).toBe("cancelled");
      const sent = sentBy(carrier, 1);
      answer.resolve(["sent"]);
      await sent;
      expect((await statusOf(queue, id)).status).toBe("cancelled");
    });

    test("inspectQueue shows the lag, and takes a broker that is away for no missing worker", async () => {
      const { queue, open, broker, carrier } = await setUp();
      broker.faults = Array.from({ length: 20 }, () => async () => {
        throw new Error("away");
      });
      expect((await inspectQueue(queue)).drains).toEqual([]);
      const [first] = await queue.enqueueTasks([1, 2, 3].map((n) => [send, n] as const));
      const paused = next(carrier, "paused");
      await carrier.start();
      await paused;
      await expect.poll(async () => (await queue.countTasks({ queueName: "mail" })).pending).toBe(3);
      const { drains, unclaimed } = await inspectQueue(await open(), { functions: [] });
      expect(drains).toEqual([
        { queueName: "mail", unsent: 3, oldestUnsentAge: expect.any(Number), active: true },
      ]);
      const { createdAt } = (await queue.getTask(first as number)) ?? {};
      expect(drains[0]?.oldestUnsentAge).toBeLessThanOrEqual(Date.now() - Number(createdAt) + 1_000);
      expect(unclaimed).toEqual([]);
      await carrier.stop();
      const after = await inspectQueue(queue, { functions: [] });
      expect(after.drains).toMatchObject([{ unsent: 3, active: false }]);
      const reason = "no drain carries its queue, as one did before";
      const advice = "start its drain: `dbq drain --queue mail --to TARGET`";
      expect(after.unclaimed).toMatchObject([{ func: "send", tasks: 3, reason, advice }]);
    });

    // ---- order -------------------------------------------------------------------------------

    /** Tasks of groups, by SQL: `group_key` is a column of the contract, and no option of an enqueue sets it yet. */
    async function enqueueGrouped(
      queue: Queue,
      rows: readonly (readonly [text: string, group: string | null])[],
    ) {
      const ids = await queue.enqueueTasks(rows.map(([text]) => [send.with({ delay: "1h" }), text] as const));
      const grouped = rows.flatMap(([, group], i) => (group === null ? [] : [[ids[i], group] as const]));
      const { store } = internalsOf(queue);
      await store.transaction((tx) => {
        const db = tx as { run?(query: SQL): unknown; execute?(query: SQL): Promise<unknown> };
        const set = ([id, group]: readonly [number | undefined, string]) =>
          sql`update dbq_tasks set group_key = ${group} where id = ${id}`;
        if (db.run) for (const each of grouped) db.run(set(each));
        else
          return grouped.reduce<Promise<unknown>>(
            (before, each) => before.then(() => db.execute?.(set(each))),
            Promise.resolve(),
          );
      });
      for (const id of ids) await store.retry(id);
      return ids;
    }

    const textOf = ({ data }: DrainMessage) => (data as { args: string[] }).args[0] as string;

    test('ordered: "group" has one task of each group under way, in the order of their ids', async () => {
      const { queue, broker, carrier } = await setUp({ ordered: "group", batch: 50 });
      const underWay = new Set<string>();
      const order: string[] = [];
      const slow: Broker["faults"][number] = async (messages) => {
        const groups = messages.map((message) => textOf(message)[0] as string);
        for (const group of groups) {
          expect(underWay.has(group)).toBe(false);
          if (group !== "-") underWay.add(group);
        }
        order.push(...messages.map(textOf));
        await new Promise((resolve) => setImmediate(resolve));
        for (const group of groups) underWay.delete(group);
        return broker.take(messages);
      };
      broker.faults = Array.from({ length: 40 }, () => slow);
      const texts = ["a1", "a2", "b1", "-x", "a3", "b2", "-y", "c1", "b3", "a4"];
      await enqueueGrouped(
        queue,
        texts.map((text) => [text, text.startsWith("-") ? null : (text[0] as string)] as const),
      );
      const sent = sentBy(carrier, texts.length);
      await carrier.start();
      await sent;
      for (const group of ["a", "b", "c"]) {
        const own = order.filter((text) => text.startsWith(group));
        expect(own).toEqual([...own].sort());
      }
      expect([...order].sort()).toEqual([...texts].sort());
    });

    test.each([
      ["retried", async (queue: Queue, id: number) => queue.retryTask(id), ["a1", "a2", "a3"]],
      ["cancelled", async (queue: Queue, id: number) => queue.cancelTask(id), ["a1", "a3"]],
    ] as const)("a group stops at a refused task until that is %s", async (_, act, arrived) => {
      const { queue, broker, carrier } = await setUp({ ordered: "group" });
      let refuses = true;
      broker.faults = Array.from({ length: 20 }, (): Broker["faults"][number] => async (messages) => {
        return messages.map((message) =>
          refuses && textOf(message) === "a2" ? new Error("no") : (broker.take([message])[0] as DrainAnswer),
        );
      });
      const refused = next(carrier, "refused");
      const texts = ["a1", "a2", "b1", "a3"];
      const ids = await enqueueGrouped(
        queue,
        texts.map((text) => [text, text[0] as string] as const),
      );
      await carrier.start();
      await refused;
      await queue.awaitTaskCompletion(ids[2] as number);
      // Others go on behind the group that has stopped.
      const [later] = await enqueueGrouped(queue, [["b2", "b"]]);
      await queue.awaitTaskCompletion(later as number);
      expect((await statusOf(queue, ids[3] as number)).status).toBe("pending");
      expect((await statusOf(queue, ids[1] as number)).status).toBe("failed");
      refuses = false;
      await act(queue, ids[1] as number);
      await queue.awaitTaskCompletion(ids[3] as number, { timeout: "20s" });
      const own = [...broker.received.values()].map(textOf).filter((text) => text.startsWith("a"));
      expect(own).toEqual(arrived);
    });

    // ---- turns -------------------------------------------------------------------------------

    test("of three drains of a queue, one carries; when it stops, the next one takes over", async () => {
      const { queue, open, broker } = await setUp();
      const all = [queue, await open(), await open()].map(
        (its) => newDrain(its, { queueName: "mail", to: broker }).carrier,
      );
      await Promise.all(all.map((each) => each.start()));
      for (let left = [...all]; left.length > 0; ) {
        const active = left.filter((each) => each.active);
        expect(active).toHaveLength(1);
        const [carrier] = active as [(typeof all)[0]];
        const sent = sentBy(carrier, 1);
        await queue.enqueueTask(send, left.length);
        await sent;
        left = left.filter((each) => each !== carrier);
        const follows = Promise.race(left.map((each) => once(each, "active")));
        await carrier.stop();
        expect(carrier.active).toBe(false);
        if (left.length > 0) await follows;
      }
      expect(broker.sends.flat()).toHaveLength(3);
      expect(broker.closed).toBe(3);
      expect(await queue.listWorkers()).toEqual([]);
    });

    test("a drain that was declared dead sends what it has in hand, lets nothing go, and begins again", async () => {
      const { queue, open, broker, carrier } = await setUp();
      const judge = internalsOf(await open()).store;
      const [asked, answer] = [deferred(), deferred<DrainAnswer[]>()];
      broker.faults = [
        () => {
          asked.resolve();
          return answer.promise;
        },
      ];
      const id = await queue.enqueueTask(send.with({ maxRetries: 0 }), "a");
      await carrier.start();
      await asked.promise;
      const before = carrier.id as string;
      const again = next(carrier, "active");
      const sent = sentBy(carrier, 1);
      const [worker] = await judge.workers();
      expect(worker?.id).toBe(before);
      expect(await judge.rescue(before, worker?.beat ?? 0)).toBe(1);
      // Nobody ran the task, so its drain's death is no failed attempt of it.
      expect(await statusOf(queue, id)).toMatchObject({ status: "pending", retryCount: 0 });
      await queue.enqueueTask(send, "wakes it up");
      await again;
      answer.resolve(["sent"]);
      await sent;
      expect(carrier.id).not.toBe(before);
      const { status, retryCount } = await queue.awaitTaskCompletion(id);
      expect([status, retryCount]).toEqual(["completed", 0]);
    });

    test("a stop waits for the answers; without grace it hands back what has none", async () => {
      const { queue, broker, carrier } = await setUp();
      const answers = [deferred<DrainAnswer[]>(), deferred<DrainAnswer[]>()];
      const asked = [deferred(), deferred()];
      broker.faults = answers.map(({ promise }, i) => () => {
        asked[i]?.resolve();
        return promise;
      });
      const first = await queue.enqueueTask(send, 1);
      await carrier.start();
      await asked[0]?.promise;
      const stopped = carrier.stop();
      answers[0]?.resolve(["sent"]);
      await stopped;
      expect((await statusOf(queue, first)).status).toBe("completed");
      const second = await queue.enqueueTask(send, 2);
      await carrier.start();
      await asked[1]?.promise;
      await carrier.stop({ grace: 0 });
      expect(await statusOf(queue, second)).toMatchObject({ status: "pending", retryCount: 0 });
      expect(await queue.listWorkers()).toEqual([]);
    });

    test("two batches are on their way, a server's third one is claimed, and a stop without grace hands all back", async () => {
      const { queue, broker, carrier } = await setUp({ batch: 1 });
      const never = () => new Promise<DrainAnswer[]>(() => undefined);
      broker.faults = Array.from({ length: 5 }, () => never);
      const ids = await queue.enqueueTasks([1, 2, 3, 4, 5].map((n) => [send, n] as const));
      await carrier.start();
      const claimed = internalsOf(queue).store.synchronous ? 2 : 3;
      while ((await queue.countTasks()).running < claimed || broker.sends.length < 2) await nextTick();
      // Without the limit, each of these turns of the event loop could claim one more.
      for (let turn = 0; turn < 100; turn += 1) await nextTick();
      expect((await queue.countTasks()).running).toBe(claimed);
      await carrier.stop({ grace: 0 });
      const statuses = await Promise.all(ids.map((id) => statusOf(queue, id)));
      expect(statuses).toEqual(ids.map(() => expect.objectContaining({ status: "pending", retryCount: 0 })));
      expect(broker.sends).toHaveLength(2);
    });

    test("a start right after a stop carries the queue again", async () => {
      const { queue, broker, carrier } = await setUp();
      await carrier.start();
      await Promise.all([carrier.stop(), carrier.start()]);
      const sent = sentBy(carrier, 1);
      await queue.enqueueTask(send, "after");
      await sent;
      expect(broker.received.size).toBe(1);
    });

    // ---- results -----------------------------------------------------------------------------

    test("with results: true a sent task runs until settleDrained brings its result", async () => {
      const { queue, broker, carrier } = await setUp({ results: true });
      await carrier.start();
      const sent = sentBy(carrier, 2);
      const [good, bad] = await queue.enqueueTasks([
        [send, "good"],
        [send, "bad"],
      ]);
      const result = queue.awaitTaskResult(good as number);
      const failure = expect(queue.awaitTaskResult(bad as number)).rejects.toThrow("no such address");
      const [message] = await sent;
      expect((await statusOf(queue, good as number)).status).toBe("running");
      // A restart of the drain hands back nothing that was sent.
      await carrier.stop({ grace: 0 });
      await carrier.start();
      expect((await statusOf(queue, good as number)).status).toBe("running");
      expect(message).toMatch(/^dbq-/);
      await queue.settleDrained(`dbq-${await origin(queue)}-${good}`, { result: { accepted: 1 } });
      expect(await result).toEqual({ accepted: 1 });
      const failed = await queue.settleDrained(bad as number, { error: new RangeError("no such address") });
      expect(failed.error).toMatchObject({ name: "RangeError", message: "no such address" });
      await failure;
      // The first end counts.
      expect((await queue.settleDrained(bad as number, { result: 1 })).status).toBe("failed");
      expect(broker.sends).toHaveLength(1);
    });

    test("a result that comes before the drain has noted the answer counts all the same", async () => {
      const { queue, broker, carrier } = await setUp({ results: true });
      broker.faults = [
        async (messages) => {
          for (const { id } of messages) await queue.settleDrained(id, { result: "quick" });
          return broker.take(messages);
        },
      ];
      const id = await queue.enqueueTask(send, 1);
      const sent = sentBy(carrier, 1);
      await carrier.start();
      await sent;
      expect(await statusOf(queue, id)).toMatchObject({ status: "completed", result: "quick" });
    });

    test("a task without a result in time fails, and is not sent again", async () => {
      const { queue, broker, carrier } = await setUp({ results: true, resultsWithin: 300 });
      await carrier.start();
      const id = await queue.enqueueTask(send, 1);
      const { status, error } = await queue.awaitTaskCompletion(id, { timeout: "20s" });
      expect([status, error?.name]).toEqual(["failed", "TimeoutError"]);
      expect(error?.message).toMatch(/no result came within 300 ms/);
      expect(broker.sends).toHaveLength(1);
    });

    test("the result of an older message does not end a task that was retried by hand since", async () => {
      const { queue, carrier } = await setUp({ results: true });
      await carrier.start();
      const first = sentBy(carrier, 1);
      const id = await queue.enqueueTask(send, 1);
      const [older] = await first;
      await queue.settleDrained(older as string, { error: new Error("late") });
      const second = sentBy(carrier, 1);
      await queue.retryTask(id);
      const [newer] = await second;
      expect((await queue.settleDrained(older as string, { result: "old" })).status).toBe("running");
      expect((await queue.settleDrained(newer as string, { result: "new" })).result).toBe("new");
    });

    test("settleDrained refuses what it cannot settle, and writes nothing", async () => {
      const { queue } = await setUp();
      const id = await queue.enqueueTask(send, 1);
      const settle = (given: unknown, outcome: unknown = { result: 1 }) =>
        queue.settleDrained(given as number, outcome as { result: unknown });
      await expect(settle(id)).rejects.toThrow(`no drain has sent the task ${id}: it is pending`);
      await expect(settle(9_999)).rejects.toMatchObject({ code: "DBQ_TASK_NOT_FOUND" });
      await expect(settle("job-1")).rejects.toThrow('"job-1" is not the id of a message of a drain');
      const foreign = `dbq-00000000-0000-4000-8000-000000000000-${id}`;
      await expect(settle(foreign)).rejects.toThrow("of another database");
      await expect(settle(id, {})).rejects.toThrow("expected { result } or { error }");
      await expect(settle(id, { result: 1, error: 2 })).rejects.toThrow("got { result, error }");
      await expect(settle(id, { result: 1n })).rejects.toMatchObject({ code: "DBQ_NOT_SERIALIZABLE" });
      expect((await queue.getTask(id))?.generationId).toBe(1);
    });
  });
}
