/** Options are checked at each depth, hooks have the function's own result, and keyword arguments the function's own shape. */
import {
  type CallOptions,
  openQueue,
  type Queue,
  registerTasks,
  remoteTask,
  type Task,
  type TaskId,
  task,
  Worker,
  withOptions,
} from "../../src/index.ts";
import { same } from "./equal.ts";

declare const queue: Queue;

interface Quality {
  quality: number;
  format?: "png" | "webp";
}
const convert = task("convert", async (path: string, options: Quality) => `${path} ${options.quality}`);
const maybe = task("maybe", (path: string, width?: number, options?: Quality) => [path, width, options]);
const now = task("now", () => 1);
function send(_to: string, _options: { copies: number }): boolean {
  return true;
}

export async function keywordArguments(): Promise<void> {
  registerTasks({ send });
  const webp = convert.with({ kwargs: { quality: 80, format: "webp" }, priority: 9 });
  same<[Parameters<typeof webp>, ReturnType<typeof webp>], [[path: string], Promise<string>]>(true);
  const id = await queue.enqueueTask(webp, "a.png");
  same<typeof id, TaskId<string>>(true);
  const urgent = webp.with({ priority: 1 });
  same<[Parameters<typeof urgent>, ReturnType<typeof urgent>], [[path: string], Promise<string>]>(true);
  await queue.enqueueTask(urgent, "a.png");
  await queue.enqueueTask(convert.with({ priority: 1 }), "a.png", { quality: 80 });
  await queue.enqueueTask(maybe.with({ kwargs: { quality: 80 } }), "a.png", 320);
  const [twice, once] = [withOptions(send, { kwargs: { copies: 2 } }), withOptions(send, { uniqueKey: "k" })];
  same<[Parameters<typeof twice>, ReturnType<typeof twice>], [[_to: string], boolean]>(true);
  same<Parameters<typeof once>, [_to: string, _options: { copies: number }]>(true);
}

/** A generic call in an argument is inferred from its own arguments, not from the parameter that it is passed to. */
export async function whereItIsEnqueued(): Promise<void> {
  const id = await queue.enqueueTask(withOptions(send, { kwargs: { copies: 2 }, uniqueKey: "k" }), "a@b");
  same<typeof id, TaskId<boolean>>(true);
  const length = await queue.enqueueTask(
    task("length", async (text: string) => text.length),
    "four",
  );
  same<typeof length, TaskId<number>>(true);
  const far = await queue.enqueueTask(remoteTask("resize"), "a.png", 320);
  same<typeof far, TaskId<unknown>>(true);
  // @ts-expect-error: the number of copies is not a number
  await queue.enqueueTask(withOptions(send, { uniqueKey: "k" }), "a@b", { copies: "1" });
  // @ts-expect-error: the number of copies is missing
  await queue.enqueueTask(withOptions(send, { uniqueKey: "k" }), "a@b");
  await queue.enqueueTask(
    task("length", async (text: string) => text.length),
    // @ts-expect-error: the text is no string
    4,
  );
  // @ts-expect-error: the path is no string
  await queue.enqueueTask(remoteTask<(path: string) => void>("resize"), 1);
  await queue.enqueueTasks([
    // @ts-expect-error: the same in a list
    [withOptions(send, { kwargs: { copies: 2 } }), 1],
  ]);
}

export async function wrongKeywordArguments(): Promise<void> {
  // @ts-expect-error: the quality is no number
  convert.with({ kwargs: { quality: "80" } });
  // @ts-expect-error: the quality is missing
  convert.with({ kwargs: {} });
  // @ts-expect-error: there is no such keyword
  convert.with({ kwargs: { quality: 80, colour: "red" } });
  // @ts-expect-error: there is no such format
  convert.with({ kwargs: { quality: 80, format: "gif" } });
  // @ts-expect-error: a function without parameters takes none
  now.with({ kwargs: { quality: 80 } });
  // @ts-expect-error: nor does one whose last parameter is not an object
  task("wide", (width: number) => width).with({ kwargs: { width: 1 } });
  // @ts-expect-error: the shape is checked for unwrapped functions, too
  withOptions(send, { kwargs: { copies: "2" } });
  // @ts-expect-error: arguments in kwargs are not passed again
  await queue.enqueueTask(convert.with({ kwargs: { quality: 80 } }), "a.png", { quality: 80 });
  // @ts-expect-error: without kwargs they are required
  await queue.enqueueTask(convert.with({ priority: 1 }), "a.png");
}

export function hooks(): void {
  task("hooked", async (n: number) => [n], {
    beforeRun: (running) => same<typeof running, Task<number[]>>(true),
    onSuccess: (done, result) => {
      same<typeof done, Task<number[]>>(true);
      same<typeof result, number[]>(true);
    },
    onFailure: async (failed, error) => {
      same<typeof failed, Task<number[]>>(true);
      same<typeof error, unknown>(true);
    },
    backoff: (retryCount, error) => {
      same<typeof retryCount, number>(true);
      return error instanceof TypeError ? "5m" : new Date();
    },
    retryOn: [TypeError, class Lost extends Error {}],
  });
  task("predicate", () => 1, { retryOn: (error) => same<typeof error, unknown>(true) === undefined });
  task("one class", () => 1, { retryOn: RangeError });
}

export function wrongHooks(): void {
  // @ts-expect-error: the result is a number
  task("a", async () => 1, { onSuccess: (_task, _result: string) => {} });
  // @ts-expect-error: the task's result is a number
  task("b", async () => 1, { onSuccess: (_task: Task<string>) => {} });
  // @ts-expect-error: the type of a thrown value is unknown
  task("c", () => 1, { onFailure: (_task, _error: TypeError) => {} });
  // @ts-expect-error: true is no duration
  task("d", () => 1, { backoff: () => true });
  // @ts-expect-error: a name is no class
  task("e", () => 1, { retryOn: "TypeError" });
  // @ts-expect-error: nor is one in a list
  task("f", () => 1, { retryOn: [TypeError, "RangeError"] });
  // @ts-expect-error: a name is a string
  task(7, () => 1);
  // @ts-expect-error: a task is a function
  task("g", "fn");
}

export async function unknownOptions(): Promise<void> {
  // @ts-expect-error: a task has no such option
  task("h", () => 1, { retries: 3 });
  // @ts-expect-error: a call has no such option
  now.with({ prio: 3 });
  // @ts-expect-error: a call has no such option, though a task has it
  now.with({ onSuccess: () => {} });
  // @ts-expect-error: a task that another program runs has no such option
  remoteTask("i", { backoff: () => 1 });
  // @ts-expect-error: a queue has no such option
  await openQueue(":memory:", { maxPayLoad: 1 });
  // @ts-expect-error: a queue's retention has no such status
  await openQueue(":memory:", { retention: { complete: "7d" } });
  // @ts-expect-error: an await has no such option
  await queue.awaitTaskCompletion(1, { time: 1 });
  // @ts-expect-error: a list has no such filter
  await queue.listTasks({ queue: "default" });
  // @ts-expect-error: a count has no such option
  await queue.countTasks({ limit: 1 });
  // @ts-expect-error: a purge has no such filter
  await queue.purgeTasks({ status: "failed" });
  // @ts-expect-error: a worker has no such option
  const worker = new Worker(queue, { concurency: 1 });
  // @ts-expect-error: a stop has no such option
  await worker.stop({ timeout: 1 });
}

export async function wrongValues(): Promise<void> {
  // @ts-expect-error: a priority is a number
  now.with({ priority: "high" });
  // @ts-expect-error: a time is a Date
  now.with({ waitUntil: "tomorrow" });
  // @ts-expect-error: there are two ways to handle a duplicate
  now.with({ onDuplicate: "ignore" });
  // @ts-expect-error: there is no such status
  await queue.listTasks({ status: "done" });
  // @ts-expect-error: meta is filtered by plain values
  await queue.listTasks({ meta: { tenant: { id: 1 } } });
  // @ts-expect-error: there are two settings
  await openQueue(":memory:", { synchronous: "off" });
  // @ts-expect-error: a worker needs an open queue
  new Worker(openQueue(":memory:"));
  // @ts-expect-error: names are not functions
  new Worker(queue, { tasks: ["now"] });
}

export function options(): void {
  const all: Required<Omit<CallOptions, "waitUntil">> = {
    priority: 1,
    queueName: "a",
    maxRetries: 0,
    delay: "1m",
    expiresIn: "2m",
    uniqueKey: "k",
    onDuplicate: "debounce",
    debounceLimit: "1h",
    uniqueUntil: "started",
    uniqueFor: "1h",
    requestId: "r",
    meta: { any: { thing: [1] } },
    timeout: 1_000,
    outsideTransaction: true,
    group: "acme",
  };
  task("all", () => 1, { ...all, kwargs: {} });
  now.with(all);
  const worker = new Worker(queue, {
    tasks: [now, convert, send],
    queueName: ["a", "b"],
    context: { db: 1 },
  });
  same<typeof worker, Worker<{ db: number }>>(true);
  worker.on("completed", (done) => same<typeof done, Task>(true));
  worker.on("rescued", (dead) => same<typeof dead, { workerId: string; tasks: number }>(true));
}

export async function timings(when: Date, every: string): Promise<void> {
  await queue.schedule("daily", { cron: "0 9 * * *", timeZone: "Europe/Berlin" }, now);
  await queue.schedule("often", { every, startAt: when }, now);
  // @ts-expect-error: no timing
  await queue.schedule("never", {}, now);
  // @ts-expect-error: options without a timing
  await queue.schedule("never", { startAt: when }, now);
  // @ts-expect-error: two timings
  await queue.schedule("both", { cron: "@daily", every: "1d" }, now);
}

export function places(runIn: "main" | "thread" | "process"): void {
  task("beside", () => 1, { runIn: "thread", module: import.meta.url });
  task("configured", () => 1, { runIn, module: new URL(import.meta.url) });
  task("here", () => 1, { runIn: "main" });
  // @ts-expect-error: a thread without a module
  task("nowhere", () => 1, { runIn: "thread" });
  // @ts-expect-error: perhaps a process, without a module
  task("perhaps", () => 1, { runIn });
}
