/** From a call to a row; and the calls of one tick, written together, each with its own id or error. */
import { describe, expect, it, onTestFinished } from "vitest";
import { enqueueChannel } from "../../src/events.ts";
import {
  DatabaseError,
  DuplicateTaskError,
  NotSerializableError,
  OutcomeUnknownError,
  PayloadTooLargeError,
  QueueClosedError,
  task,
} from "../../src/index.ts";
import { prepare } from "../../src/queue/enqueue.ts";
import { GroupCommit } from "../../src/queue/group-commit.ts";
import type { Inserted, NewTask } from "../../src/store.ts";
import { deferred, uniqueName } from "../support/queue.ts";

const wrong = (value: unknown) => value as never;

describe("prepare", () => {
  const fn = task(uniqueName(), (..._: unknown[]) => undefined);

  it("sets the defaults of options that are not given", () => {
    expect(prepare(fn, ["a", undefined], 100)).toStrictEqual({
      task: {
        func: fn.taskName,
        args: '["a"]',
        kwargs: "{}",
        meta: "{}",
        priority: 5,
        queueName: "default",
        maxRetries: 3,
        waitUntil: null,
        delay: null,
        timeout: null,
        expiresIn: null,
        requestId: null,
        uniqueKey: null,
        parentId: null,
        rootId: null,
        unique: undefined,
        groupKey: null,
        fillDefaults: 0,
        traceContext: null,
      },
      checking: undefined,
      refuse: false,
      outside: false,
    });
  });

  it("encodes the arguments at once", () => {
    const list = [1];
    const meta = { a: 1 };
    const prepared = prepare(fn.with({ meta }), [list], 100);
    list.push(2);
    meta.a = 2;
    expect(prepared.task).toMatchObject({ args: "[[1]]", meta: '{"a":1}' });
  });

  it("names args, kwargs and meta in the paths of errors", () => {
    expect(() => prepare(fn, [1, { when: [new Date()] }], 100)).toThrow("args[1].when[0]: a Date");
    expect(() => prepare(fn.with(wrong({ kwargs: { a: 1n } })), [], 100)).toThrow("kwargs.a: ");
    expect(() => prepare(fn.with({ meta: { a: [1n] } }), [], 100)).toThrow("meta.a[0]: ");
    expect(() => prepare(fn.with(wrong({ kwargs: [] })), [], 100)).toThrow(NotSerializableError);
  });

  it("counts the bytes of args, kwargs and meta together", () => {
    const call = fn.with(wrong({ kwargs: { k: "€" }, meta: { m: 1 } }));
    const bytes = Buffer.byteLength('["é"]{"k":"€"}{"m":1}');
    expect(() => prepare(call, ["é"], bytes)).not.toThrow();
    expect(() => prepare(call, ["é"], bytes - 1)).toThrow(PayloadTooLargeError);
    expect(() => prepare(call, ["é"], bytes - 1)).toThrow(`takes ${bytes} bytes as JSON`);
  });

  it("refuses a meta that is not a plain object, with and without a subscriber", () => {
    const refused = () => {
      for (const meta of [new Map([["a", 1]]), [1], "text", null, new (class Point {})()])
        expect(() => prepare(fn.with(wrong({ meta })), [], 100), String(meta)).toThrow(
          "meta: expected a plain",
        );
    };
    refused();
    const nobody = () => undefined;
    enqueueChannel.subscribe(nobody);
    onTestFinished(() => void enqueueChannel.unsubscribe(nobody));
    refused();
  });

  it("lets a subscriber add to meta, and leaves the caller's object as it was", () => {
    const seen: unknown[] = [];
    const observer = (message: unknown) => {
      seen.push(structuredClone(message));
      Object.assign((message as { meta: object }).meta, { trace: "t" });
    };
    enqueueChannel.subscribe(observer);
    onTestFinished(() => void enqueueChannel.unsubscribe(observer));
    const meta = { a: 1 };
    expect(prepare(fn.with({ meta, queueName: "q" }), [], 100).task.meta).toBe('{"a":1,"trace":"t"}');
    expect(seen).toEqual([{ func: fn.taskName, queueName: "q", meta: { a: 1 } }]);
    expect(prepare(fn, [], 100).task.meta).toBe('{"trace":"t"}');
    expect(meta).toEqual({ a: 1 });
  });
});

describe("GroupCommit", () => {
  const prepared = (uniqueKey: string | null = null, refuse = false) => ({
    task: {
      ...prepare(
        task(uniqueName(), () => 1),
        [],
        100,
      ).task,
      uniqueKey,
    },
    refuse,
  });
  /** Collects the batches, and returns ids from 1 on. */
  function collecting(answer: (tasks: readonly NewTask[]) => Promise<Inserted[]>) {
    const batches: number[] = [];
    const group = new GroupCommit((tasks) => {
      batches.push(tasks.length);
      return answer(tasks);
    });
    return { group, batches };
  }
  let lastId = 0;
  const inserting = async (tasks: readonly NewTask[]): Promise<Inserted[]> =>
    tasks.map((given) => {
      lastId += 1;
      return { id: lastId, duplicate: given.uniqueKey === "held" };
    });

  it("writes the calls of each tick in one statement, with ids in order", async () => {
    const { group, batches } = collecting(inserting);
    const first = await Promise.all([group.add(prepared()), group.add(prepared()), group.add(prepared())]);
    expect(batches).toEqual([3]);
    expect(first).toEqual([lastId - 2, lastId - 1, lastId]);
    await group.add(prepared());
    expect(batches).toEqual([3, 1]);
  });

  it("resolves or rejects each call by itself", async () => {
    const { group } = collecting(inserting);
    const [good, held, refused] = await Promise.allSettled([
      group.add(prepared()),
      group.add(prepared("held")),
      group.add(prepared("held", true)),
    ]);
    expect(good).toEqual({ status: "fulfilled", value: lastId - 2 });
    expect(held).toEqual({ status: "fulfilled", value: lastId - 1 });
    expect(refused).toMatchObject({ status: "rejected", reason: { code: "DBQ_DUPLICATE", taskId: lastId } });
    expect((refused as PromiseRejectedResult).reason).toBeInstanceOf(DuplicateTaskError);
  });

  it("a failed write rejects its own calls, and no later ones", async () => {
    const error = new Error("disk full");
    let broken = true;
    const { group } = collecting((tasks) => (broken ? Promise.reject(error) : inserting(tasks)));
    const failed = await Promise.allSettled([group.add(prepared()), group.add(prepared())]);
    expect(failed).toEqual([
      { status: "rejected", reason: error },
      { status: "rejected", reason: error },
    ]);
    broken = false;
    expect(await group.add(prepared())).toBe(lastId);
  });

  it("a call that the database refuses rejects no other call, and ids stay in order", async () => {
    const refused = prepared("refused");
    const insert = (tasks: readonly NewTask[]) =>
      tasks.includes(refused.task) ? Promise.reject(new DatabaseError("out of range")) : inserting(tasks);
    const { group } = collecting(insert);
    const calls = [prepared(), prepared(), refused, prepared(), prepared()];
    const answers = await Promise.allSettled(calls.map((call) => group.add(call)));
    expect(answers.map(({ status }) => status === "fulfilled")).toEqual([true, true, false, true, true]);
    const ids = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
    expect(ids).toEqual([lastId - 3, lastId - 2, lastId - 1, lastId]);
  });

  it("a database that refuses every call is not asked about each one", async () => {
    const { group, batches } = collecting(() => Promise.reject(new DatabaseError("disk full")));
    const answers = await Promise.allSettled(Array.from({ length: 1_000 }, () => group.add(prepared())));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set(["rejected"]));
    expect(batches.length).toBeLessThan(50);
  });

  it("a write that may have happened is not repeated", async () => {
    const { group, batches } = collecting(() => Promise.reject(new OutcomeUnknownError("gone")));
    const answers = await Promise.allSettled([group.add(prepared()), group.add(prepared())]);
    expect(answers.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(batches).toEqual([2]);
  });

  it("close writes the calls so far, waits for writes under way, and refuses later calls", async () => {
    const gate = deferred();
    const { group, batches } = collecting(async (tasks) => {
      await gate.promise;
      return await inserting(tasks);
    });
    const early = group.add(prepared());
    await new Promise((resolve) => setImmediate(resolve));
    expect(batches).toEqual([1]);
    const late = group.add(prepared());
    let closed = false;
    const closing = group.close().then(() => {
      closed = true;
    });
    expect(batches).toEqual([1, 1]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(closed).toBe(false);
    gate.resolve();
    await closing;
    expect(await early).toBeLessThan(await late);
    await expect(group.add(prepared())).rejects.toThrow(QueueClosedError);
  });
});
