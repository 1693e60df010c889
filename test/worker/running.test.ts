/** What a handler gets, and how its return value is stored. */
import { expect, test } from "vitest";
import { currentTask, NotInTaskError, registerTasks, task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { allEnded, ended, queueOnFile, read, rejection } from "./setup.ts";

type Options = { deep: { list: number[] } };

test("a handler gets its arguments as they were given, and kwargs as one trailing object", async () => {
  const { queue } = await queueOnFile();
  const echo = task(uniqueName(), async (...args: [text: string, n: number, options?: Options]) => args);
  await startedWorker(queue);
  const kwargs = { deep: { list: [1, 2.5, -0] } };
  const ids = [
    await queue.enqueueTask(echo, 'é"\u2028\0', -0),
    await queue.enqueueTask(echo.with({ kwargs }), "with", 1),
    await queue.enqueueTask(echo.with({ kwargs: {} as Options }), "none", 2),
  ];
  const results = (await allEnded(queue, ids)).map(({ result }) => result);
  expect(results).toEqual([
    ['é"\u2028\0', -0],
    ["with", 1, kwargs],
    ["none", 2],
  ]);
});

test("a synchronous function and an unwrapped function run as tasks", async () => {
  const { queue } = await queueOnFile();
  const plain = (a: number, b: number) => a + b;
  registerTasks({ [uniqueName("plain")]: plain });
  await startedWorker(queue);
  expect(await queue.awaitTaskResult(await queue.enqueueTask(plain, 2, 3))).toBe(5);
});

test("currentTask() has the id, generation and retry count of the task", async () => {
  const { queue } = await queueOnFile();
  const context = { pool: Symbol("pool") };
  const seen = deferred<Record<string, unknown>>();
  const who = task(uniqueName(), async (_options?: object) => {
    await new Promise((resolve) => setImmediate(resolve));
    const current = currentTask<typeof context>();
    const row = await read(queue, current.id);
    seen.resolve({ ...current, signal: current.signal, row });
  });
  await startedWorker(queue, { context });
  const id = await queue.enqueueTask(who.with({ kwargs: { a: 1 } }));
  const { row, ...current } = await seen.promise;
  expect(current).toMatchObject({ id, retryCount: 0, kwargs: { a: 1 } });
  expect(current.context).toBe(context);
  expect(current.signal).toMatchObject({ aborted: false });
  expect(row).toMatchObject({ status: "running", generationId: current.generationId });
});

test("concurrent tasks each have their own currentTask()", async () => {
  const { queue } = await queueOnFile();
  const all = deferred();
  let running = 0;
  const who = task(uniqueName(), async () => {
    const before = currentTask().id;
    running += 1;
    if (running === 5) all.resolve();
    await all.promise;
    return [before, currentTask().id];
  });
  await startedWorker(queue);
  const ids = await queue.enqueueTasks([[who], [who], [who], [who], [who]]);
  const results = (await allEnded(queue, ids)).map(({ result }) => result);
  expect(results).toEqual(ids.map((id) => [id, id]));
});

test("currentTask() throws outside of a worker's task", async () => {
  const who = task(uniqueName(), async () => currentTask().id);
  expect(() => currentTask()).toThrow(NotInTaskError);
  expect(await rejection(who())).toMatchObject({ code: "DBQ_NOT_IN_TASK" });
});

test("a task that a handler enqueues is a task of its own", async () => {
  const { queue } = await queueOnFile();
  const child = task(uniqueName("child"), async () => currentTask().id);
  const parent = task(uniqueName("parent"), async () => {
    const id = await queue.enqueueTask(child);
    return { id, ran: await queue.awaitTaskResult(id, { timeout: "20s" }) };
  });
  await startedWorker(queue, { concurrency: 2 });
  const { result } = await ended(queue, await queue.enqueueTask(parent));
  expect(result?.ran).toBe(result?.id);
});

test("no result, null and a value are different results", async () => {
  const { queue, raw } = await queueOnFile();
  const nothing = task(uniqueName(), async () => undefined);
  const nil = task(uniqueName(), async () => null);
  const value = task(uniqueName(), async () => ({ a: [null, { b: undefined as unknown }] }));
  await startedWorker(queue);
  const ids = await queue.enqueueTasks([[nothing], [nil], [value]]);
  expect(await Promise.all(ids.map((id) => queue.awaitTaskResult(id, { timeout: "20s" })))).toStrictEqual([
    undefined,
    null,
    { a: [null, {}] },
  ]);
  const rows = raw.prepare("select status, result from dbq_tasks order by id").all();
  expect(rows).toEqual([
    { status: "completed", result: null },
    { status: "completed", result: "null" },
    { status: "completed", result: '{"a":[null,{}]}' },
  ]);
});

test("a completed row has its worker and its times", async () => {
  const { queue } = await queueOnFile();
  const quick = task(uniqueName(), async () => 1);
  const worker = await startedWorker(queue);
  const done = await ended(queue, await queue.enqueueTask(quick));
  expect(done).toMatchObject({ status: "completed", workerId: worker.id, error: null, retryCount: 0 });
  const times = [done.createdAt, done.startedAt, done.finishedAt].map(Number);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect(await queue.listAttempts(done.id)).toEqual([]);
});
