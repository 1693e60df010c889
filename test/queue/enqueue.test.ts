import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { join } from "node:path";
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { openQueue, registerTasks, type TaskFunction, withOptions } from "../../src/index.ts";
import { temporaryFolder, temporaryQueue } from "../support/queue.ts";
import { countRows, heldLock, nextTick, rawClient } from "./raw.ts";
import { add, echo, greet } from "./tasks.ts";

/** A queue in memory, and every statement that it runs. */
async function logged() {
  const statements: string[] = [];
  const client = new Database(":memory:", { verbose: (text) => void statements.push(String(text)) });
  const queue = await temporaryQueue(undefined, drizzle({ client }));
  statements.length = 0;
  return { queue, client, statements };
}

describe("an enqueue", () => {
  it("is visible to every other connection once it has resolved", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    const queue = await temporaryQueue(undefined, path);
    const id = await queue.enqueueTask(add, 1, 2);
    const row = rawClient(path, { readonly: true }).prepare("select * from dbq_tasks").get();
    expect(row).toMatchObject({
      id,
      func: "add",
      args: "[1,2]",
      kwargs: "{}",
      status: "pending",
      generation_id: 1,
    });
  });

  it("stores the options of the call in place of those of the task", async () => {
    const queue = await temporaryQueue();
    const waitUntil = new Date(Date.now() + 3_600_000);
    const call = add.with({ priority: 7, requestId: "first" }).with({
      ...{ priority: 9, queueName: "maths", maxRetries: 0, waitUntil, uniqueKey: "sum" },
      ...{ requestId: "r1", meta: { tenant: "t1" }, timeout: "30s" },
    });
    const task = await queue.getTask(await queue.enqueueTask(call, 1, 2));
    expect(task).toMatchObject({
      ...{ func: "add", args: [1, 2], kwargs: {}, priority: 9, queueName: "maths", maxRetries: 0, waitUntil },
      ...{ uniqueKey: "sum", requestId: "r1", meta: { tenant: "t1" }, timeout: 30_000, status: "scheduled" },
      ...{
        result: undefined,
        error: null,
        retryCount: 0,
        generationId: 1,
        startedAt: null,
        finishedAt: null,
      },
    });
    expect(task?.createdAt).toBeInstanceOf(Date);
  });

  it("accepts keyword arguments and unwrapped functions", async () => {
    const queue = await temporaryQueue();
    const wave = (_to: string, _options: { loud: boolean }) => undefined;
    registerTasks({ wave });
    const loud = withOptions(wave, { kwargs: { loud: true } });
    const id = await queue.enqueueTask(loud, "Ada");
    expect(await queue.getTask(id)).toMatchObject({ func: "wave", args: ["Ada"], kwargs: { loud: true } });
  });

  it("encodes its arguments, kwargs and meta at the call", async () => {
    const queue = await temporaryQueue();
    const value = { list: [1], when: "now" };
    const options = { kwargs: { a: 1 }, meta: { b: 1 } };
    const enqueued = queue.enqueueTask(greet.with(options), value);
    value.list.push(2);
    value.when = "later";
    options.kwargs.a = 2;
    options.meta.b = 2;
    expect(await queue.getTask(await enqueued)).toMatchObject({
      args: [{ list: [1], when: "now" }],
      kwargs: { a: 1 },
      meta: { b: 1 },
    });
  });

  it("works destructured", async () => {
    const { enqueueTask, enqueueTasks, getTask, listTasks, countTasks, purgeTasks } = await temporaryQueue();
    const id = await enqueueTask(echo, 1);
    await enqueueTasks([[echo, 2]]);
    expect(await getTask(id)).toMatchObject({ args: [1] });
    expect(await listTasks()).toHaveLength(2);
    expect((await countTasks()).pending).toBe(2);
    expect(await purgeTasks()).toEqual({ purged: 2, running: 0, skipped: 0 });
  });
});

describe("the enqueue calls of one tick", () => {
  it("are written in one transaction in their order, each with its own id", async () => {
    const { queue, statements } = await logged();
    const ids = await Promise.all(Array.from({ length: 500 }, (_, i) => queue.enqueueTask(echo, i)));
    expect(statements.filter((text) => text === "BEGIN IMMEDIATE")).toHaveLength(1);
    expect(statements.filter((text) => text === "COMMIT")).toHaveLength(1);
    expect(ids).toEqual([...ids].sort((a, b) => a - b));
    expect(new Set(ids).size).toBe(500);
    const tasks = await Promise.all([0, 250, 499].map((i) => queue.getTask(ids[i] as number)));
    expect(tasks.map((task) => task?.args)).toEqual([[0], [250], [499]]);
  });

  it("fail one by one, and the failed ones are not written", async () => {
    const { queue, client } = await logged();
    const strict = echo.with({ uniqueKey: "k", onDuplicate: "error" });
    const unregistered = (() => undefined) as unknown as TaskFunction<[unknown], void>;
    const settled = await Promise.allSettled([
      queue.enqueueTask(echo, "first"),
      queue.enqueueTask(echo, new Date(0)),
      queue.enqueueTask(strict, "holder"),
      queue.enqueueTask(unregistered, 1),
      queue.enqueueTask(strict, "duplicate"),
      queue.enqueueTask(echo, "x".repeat(2_000_000)),
      queue.enqueueTask(echo.with({ uniqueKey: "k" }), "same"),
      queue.enqueueTask(echo, "last"),
    ]);
    const holder = settled[2]?.status === "fulfilled" ? settled[2].value : undefined;
    expect(settled.map((each) => (each.status === "fulfilled" ? "written" : each.reason.code))).toEqual([
      ...["written", "DBQ_NOT_SERIALIZABLE", "written", "DBQ_UNREGISTERED_FUNCTION", "DBQ_DUPLICATE"],
      ...["DBQ_PAYLOAD_TOO_LARGE", "written", "written"],
    ]);
    expect(settled[4]).toMatchObject({ reason: { taskId: holder } });
    expect(settled[6]).toMatchObject({ value: holder });
    const rows = client.prepare("select args from dbq_tasks order by id").pluck().all();
    expect(rows).toEqual(['["first"]', '["holder"]', '["last"]']);
  });

  it("reject when the database refuses them, and nothing of them is written", async () => {
    const { queue, client } = await logged();
    client.exec(
      `create trigger picky before insert on dbq_tasks when new.args = '["poison"]'
       begin select raise(abort, 'refused by a trigger'); end`,
    );
    const values = ["a", "poison", "b"];
    const settled = await Promise.allSettled(values.map((value) => queue.enqueueTask(echo, value)));
    expect(settled[1]).toMatchObject({
      reason: { code: "DBQ_DATABASE", cause: { code: "SQLITE_CONSTRAINT_TRIGGER" } },
    });
    const written = settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    expect(client.prepare("select id from dbq_tasks").pluck().all()).toEqual(written);
    expect(await queue.enqueueTask(echo, "after")).toBeGreaterThan(0);
  });

  it("wait for another connection's transaction without blocking the event loop, together with later calls", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    const queue = await temporaryQueue(undefined, path);
    const release = heldLock(path);
    const first = queue.enqueueTask(echo, 1);
    await nextTick();
    const second = queue.enqueueTask(echo, 2);
    await nextTick();
    release();
    expect(new Set(await Promise.all([first, second])).size).toBe(2);
    expect(countRows(rawClient(path))).toBe(2);
  });
});

describe("a payload", () => {
  it("is measured in bytes of UTF-8, args, kwargs and meta together", async () => {
    const queue = await temporaryQueue({ maxPayload: 100 });
    // ["…"] and {"k":"…"} and {"m":"…"} take 20 bytes beside their texts; a "ü" takes 2.
    const call = (bytes: number) => greet.with({ kwargs: { k: "k" }, meta: { m: "m".repeat(bytes - 61) } });
    expect(await queue.enqueueTask(call(100), "ü".repeat(20))).toBe(1);
    await expect(queue.enqueueTask(call(101), "ü".repeat(20))).rejects.toMatchObject({
      code: "DBQ_PAYLOAD_TOO_LARGE",
      size: 101,
      limit: 100,
    });
    expect(await queue.countTasks()).toMatchObject({ pending: 1 });
  });

  it("of 1 MiB is allowed by default, and one byte more is not", async () => {
    const queue = await temporaryQueue();
    const text = (bytes: number) => "x".repeat(bytes - '[""]{}{}'.length);
    const id = await queue.enqueueTask(echo, text(1_048_576));
    expect((await queue.getTask(id))?.args).toEqual([text(1_048_576)]);
    await expect(queue.enqueueTask(echo, text(1_048_577))).rejects.toMatchObject({
      code: "DBQ_PAYLOAD_TOO_LARGE",
    });
  });

  it("that JSON would change is refused with its path, before any write", async () => {
    const queue = await temporaryQueue();
    const refused: [unknown, string][] = [
      [{ when: [new Date(0)] }, "args[0].when[0]"],
      [[undefined], "args[0][0]"],
      [{ "a-b": 1n }, 'args[0]["a-b"]'],
      [Number.NaN, "args[0]"],
    ];
    for (const [value, path] of refused) {
      await expect(queue.enqueueTask(echo, value)).rejects.toMatchObject({
        code: "DBQ_NOT_SERIALIZABLE",
        path,
        message: expect.stringMatching(/^task "echo": args\[0\].*: \S.* cannot be kept as JSON/),
      });
    }
    const of = (path: string) => ({
      path,
      message: expect.stringMatching(new RegExp(`^task "\\w+": ${path}: a `)),
    });
    const kwargs = greet.with({ kwargs: { f: () => 1 } });
    await expect(queue.enqueueTask(kwargs, 1)).rejects.toMatchObject(of("kwargs.f"));
    const meta = echo.with({ meta: { m: new Map() } });
    await expect(queue.enqueueTask(meta, 1)).rejects.toMatchObject(of("meta.m"));
    const ignore = () => undefined;
    subscribe("dbq:enqueue", ignore);
    onTestFinished(() => void unsubscribe("dbq:enqueue", ignore));
    await expect(queue.enqueueTask(meta, 1)).rejects.toMatchObject(of("meta.m"));
    expect(await queue.listTasks()).toEqual([]);
  });
});

it("an enqueue refuses unknown options and wrong values by name", async () => {
  const wrong: [object, RegExp][] = [
    [{ prioritty: 1 }, /prioritty/],
    [{ priority: "high" }, /priority.*"high"/],
    [{ delay: "soon" }, /delay.*"soon"/],
    [{ waitUntil: new Date(Number.NaN) }, /waitUntil.*invalid Date/],
    [{ delay: 1, waitUntil: new Date() }, /waitUntil and delay/],
    [{ maxRetries: -1 }, /maxRetries.*-1/],
    [{ onDuplicate: "ignore" }, /onDuplicate.*"ignore"/],
    [{ uniqueKey: "" }, /uniqueKey/],
    [{ queueName: "a\u0000b" }, /queueName/],
    [{ timeout: 0 }, /timeout.*0/],
  ];
  for (const [options, message] of wrong) {
    expect(() => echo.with(options as { priority: number })).toThrow(TypeError);
    expect(() => echo.with(options as { priority: number })).toThrow(message);
  }
  await expect(openQueue(":memory:", { retention: { complete: 1 } } as object)).rejects.toThrow(/complete/);
  await expect(openQueue(":memory:", { maxPayload: 0 })).rejects.toThrow(/maxPayload.*0/);
});
