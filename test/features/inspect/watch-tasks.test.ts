/** `queue.watchTasks`: the events of all tasks that match, from any process. */
import { expect, onTestFinished, test } from "vitest";
import {
  currentTask,
  type Queue,
  QueueClosedError,
  remoteTask,
  type TasksEvent,
  task,
  type WatchTasksOptions,
} from "../../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../../support/queue.ts";
import { queueOnFile, rejection, until } from "../../worker/setup.ts";

const nobody = remoteTask<(n?: number) => Promise<void>>("nobody");

function said(event: TasksEvent): string {
  const { id } = event.task;
  if (event.type === "log") return `${id} log ${event.line.message}`;
  return event.type === "progress" ? `${id} progress ${event.progress}` : `${id} ${event.type}`;
}

/** Begins to watch, which the first look does; collects events until the test ends. */
async function watched(queue: Queue, options?: WatchTasksOptions) {
  const events: TasksEvent[] = [];
  const iterator = queue.watchTasks(options);
  onTestFinished(async () => void (await iterator.return().catch(() => undefined)));
  const run = async () => {
    for await (const event of iterator) events.push(event);
  };
  const ended = run();
  ended.catch(() => undefined);
  const all = () => events.map(said);
  /** What is told of a task that is made now, which shows that the watch has begun. */
  const begun = async () => {
    const id = await queue.enqueueTask(nobody.with({ queueName: "begin" }));
    await until(() => all().includes(`${id} pending`));
    events.length = 0;
  };
  const upTo = async (last: string) => {
    await until(() => all().includes(last));
    return all();
  };
  return { events, all, upTo, ended, begun, iterator };
}

test("each change of all tasks is told in order for each task, with its lines and progress, by another process too", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const [noted, end] = [deferred(), deferred()];
  const slow = task(uniqueName(), async (n: number) => {
    const { log, progress } = currentTask();
    log(`one of ${n}`);
    progress(0.5);
    noted.resolve();
    await end.promise;
    log(`two of ${n}`);
    return n;
  });
  const before = await queue.enqueueTask(nobody);
  const { events, upTo, begun } = await watched(await elsewhere());
  await begun();
  const id = await queue.enqueueTask(slow, 7);
  await upTo(`${id} pending`);
  await startedWorker(queue);
  await noted.promise;
  await upTo(`${id} log one of 7`);
  await upTo(`${id} progress 0.5`);
  end.resolve();
  const all = await upTo(`${id} completed`);
  const own = all.filter((one) => one.startsWith(`${id} `));
  expect(own.filter((one) => !one.includes("progress"))).toEqual([
    ...[`${id} pending`, `${id} running`, `${id} log one of 7`, `${id} log two of 7`, `${id} completed`],
  ]);
  expect(events.at(-1)).toMatchObject({ type: "completed", task: { id, result: 7, args: [7] } });
  expect(all.filter((one) => one.startsWith(`${before} `))).toEqual([]);
});

test("what was there before is told of when it changes: a cancel, a retry, and a deletion of one that has ended", async () => {
  const { queue } = await queueOnFile();
  const [first, second] = await queue.enqueueTasks([
    [nobody, 1],
    [nobody, 2],
  ]);
  const { upTo, begun, events } = await watched(queue);
  await begun();
  await queue.cancelTask(first);
  await upTo(`${first} cancelled`);
  await queue.retryTask(first);
  await upTo(`${first} pending`);
  await queue.cancelTask(first);
  await until(() => events.filter(({ type }) => type === "cancelled").length === 2);
  await queue.deleteTasks({ func: "nobody" });
  const all = await upTo(`${second} deleted`);
  expect(all.filter((one) => one.startsWith(`${first} `))).toEqual([
    ...[`${first} cancelled`, `${first} pending`, `${first} cancelled`, `${first} deleted`],
  ]);
  expect(events.find(({ type, task: { id } }) => type === "deleted" && id === first)?.task).toEqual({
    ...{ id: first, func: "nobody", queueName: "default", status: "cancelled" },
  });
});

test("func, queueName and status leave out the events of other tasks", async () => {
  const { queue } = await queueOnFile();
  const other = remoteTask<() => Promise<void>>("other");
  const ofFunc = await watched(queue, { func: "other" });
  const ofQueue = await watched(queue, { queueName: "b" });
  const cancelled = await watched(queue, { status: ["cancelled", "failed"] });
  const all = await watched(queue);
  await all.begun();
  // Their first looks have come before this one, since they began before.
  const [a, b] = [await queue.enqueueTask(other), await queue.enqueueTask(nobody.with({ queueName: "b" }))];
  await all.upTo(`${b} pending`);
  for (const id of [a, b]) await queue.cancelTask(id);
  await ofFunc.upTo(`${a} cancelled`);
  await ofQueue.upTo(`${b} cancelled`);
  await cancelled.upTo(`${b} cancelled`);
  expect(new Set(ofFunc.all().map((one) => one.split(" ")[0]))).toEqual(new Set([String(a)]));
  expect(new Set(ofQueue.all().map((one) => one.split(" ")[0]))).toEqual(new Set([String(b)]));
  expect(cancelled.all()).toEqual([`${a} cancelled`, `${b} cancelled`]);
});

test("of 500 tasks that are made and deleted at once, each is told", async () => {
  const { queue } = await queueOnFile();
  const { upTo, begun, events } = await watched(queue);
  await begun();
  const ids = await queue.enqueueTasks(Array.from({ length: 500 }, (_, n) => [nobody, n] as const));
  await upTo(`${ids[0]} pending`);
  expect(new Set(events.map(({ task: { id } }) => id))).toEqual(new Set(ids));
  expect(events).toHaveLength(500);
  await queue.deleteTasks({ func: "nobody" });
  await until(() => events.filter(({ type }) => type === "deleted").length > 500);
});

test("a signal, the queue's close and return() end a watch at once, also while it waits", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const abort = new AbortController();
  const first = await watched(queue, { signal: abort.signal });
  await first.begun();
  abort.abort(new Error("enough"));
  expect(await rejection(first.ended)).toBe(abort.signal.reason);
  await expect(queue.watchTasks({ signal: abort.signal }).next()).rejects.toBe(abort.signal.reason);
  const closing = await elsewhere();
  const second = await watched(closing);
  await second.begun();
  await closing.close();
  expect(await rejection(second.ended)).toBeInstanceOf(QueueClosedError);
  const iterator = queue.watchTasks();
  const waiting = iterator.next();
  await iterator.return();
  expect(await waiting).toEqual({ done: true, value: undefined });
});

test.each([
  [{ status: "done" }, "watchTasks: status"],
  [{ func: "" }, "watchTasks: func"],
  [{ group: "a" }, 'watchTasks: there is no option "group"'],
])("the options %j are refused at the call", async (options, message) => {
  const { queue } = await queueOnFile();
  expect(() => queue.watchTasks(options as never)).toThrow(message);
});
