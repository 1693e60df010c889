/**
 * Arguments are checked, and results have the function's type, from the enqueue to the await.
 *
 * These files are compiled and never run. The compiler reports a `@ts-expect-error` whose next line has no error.
 */
import {
  awaitTaskCompletion,
  awaitTaskResult,
  enqueueTask,
  type Queue,
  registerTasks,
  remoteTask,
  type Task,
  type TaskFunction,
  type TaskId,
  type TaskLog,
  task,
} from "../../src/index.ts";
import { same } from "./equal.ts";

declare const queue: Queue;

interface Size {
  bytes: number;
}
const resize = task("resize", async (_path: string, _width: number): Promise<Size> => ({ bytes: 1 }));
const add = task("add", (a: number, b: number) => a + b);
const log = task("log", async (_line: string, _level?: "info" | "error") => {});
const join = task("join", (separator: string, ...words: string[]) => words.join(separator));
const now = task("now", () => "now");
const find = task("find", async (id: number): Promise<Size | null> => (id === 0 ? null : { bytes: id }));
async function plain(text: string): Promise<string[]> {
  return [text];
}

export async function whatAFunctionIs(): Promise<void> {
  registerTasks({ plain });
  same<typeof resize, TaskFunction<[_path: string, _width: number], Promise<Size>>>(true);
  same<ReturnType<typeof add>, number>(true);
  same<typeof resize.taskName, string>(true);
  same<Awaited<ReturnType<typeof resize>>, Size>(true);
}

export async function results(): Promise<void> {
  const id = await enqueueTask(resize, "a.png", 320);
  same<typeof id, TaskId<Size>>(true);
  const done = await awaitTaskCompletion(id);
  same<typeof done, Task<Size>>(true);
  same<typeof done.result, Size | undefined>(true);
  const size = await awaitTaskResult(id, { timeout: "1m" });
  same<typeof size, Size>(true);
  // A synchronous function, one that returns nothing, one that returns null or more, an unwrapped one.
  same<Awaited<ReturnType<typeof queue.enqueueTask<typeof add>>>, TaskId<number>>(true);
  const added = await queue.awaitTaskResult(await queue.enqueueTask(add, 1, 2));
  same<typeof added, number>(true);
  const logged = await queue.enqueueTask(log, "x");
  same<typeof logged, TaskId<void>>(true);
  const found = await queue.awaitTaskResult(await queue.enqueueTask(find, 1));
  same<typeof found, Size | null>(true);
  const texts = await queue.awaitTaskResult(await queue.enqueueTask(plain, "x"));
  same<typeof texts, string[]>(true);
  const read = await queue.getTask(id);
  same<typeof read, Task<Size> | undefined>(true);
  same<Awaited<ReturnType<typeof queue.retryTask<Size>>>, Task<Size>>(true);
  const cancelled = await queue.cancelTask(id);
  same<typeof cancelled, Task<Size>>(true);
  // A plain number as an id says nothing about the result.
  const unknown = await queue.awaitTaskCompletion(7);
  same<typeof unknown, Task<unknown>>(true);
  const { enqueueTask: destructured } = queue;
  same<Awaited<ReturnType<typeof destructured<typeof now>>>, TaskId<string>>(true);
}

export async function wrongResults(id: TaskId<Size>): Promise<void> {
  const done: Task<Size> = await awaitTaskCompletion(id);
  // @ts-expect-error: a Task of another type
  const other: Task<string> = await awaitTaskCompletion(id);
  // @ts-expect-error: a result of another type
  const text: string = await awaitTaskResult(id);
  // @ts-expect-error: an id of another type
  const otherId: TaskId<string> = id;
  // @ts-expect-error: the result has no such property
  const typo = (await awaitTaskResult(id)).byte;
  // @ts-expect-error: a task that has not ended has no result
  const early = done.result.bytes;
  // @ts-expect-error: a task of an unknown function has an unknown result
  const blind = (await queue.awaitTaskCompletion(7)).result.bytes;
  same<[typeof other, typeof text, typeof otherId, typeof typo, typeof early, typeof blind], never>(false);
}

export async function goodArguments(): Promise<void> {
  await enqueueTask(now);
  await enqueueTask(log, "line");
  await enqueueTask(log, "line", "error");
  await enqueueTask(join, ",");
  await enqueueTask(join, ",", "a", "b");
  await enqueueTask(plain, "text");
  await queue.enqueueTask(remoteTask<(path: string) => Promise<Size>>("remote"), "a.png");
  const anything = remoteTask("anything");
  await queue.enqueueTask(anything, "a.png", 320, { deep: [1] });
}

export async function wrongArguments(): Promise<void> {
  // @ts-expect-error: the second is no number
  await enqueueTask(resize, "a.png", "320");
  // @ts-expect-error: they stand in the wrong order
  await queue.enqueueTask(resize, 320, "a.png");
  // @ts-expect-error: the second is missing
  await enqueueTask(resize, "a.png");
  // @ts-expect-error: both are missing
  await queue.enqueueTask(resize);
  // @ts-expect-error: there is one too many
  await enqueueTask(resize, "a.png", 320, true);
  // @ts-expect-error: it takes none
  await queue.enqueueTask(now, 1);
  // @ts-expect-error: undefined is no number
  await enqueueTask(resize, "a.png", undefined);
  // @ts-expect-error: there is no such level
  await enqueueTask(log, "line", "warn");
  // @ts-expect-error: one of the rest is no string
  await enqueueTask(join, ",", "a", 1);
  // @ts-expect-error: an unwrapped function does not take a number either
  await enqueueTask(plain, 1);
  // @ts-expect-error: nor does a function that another program runs
  await queue.enqueueTask(remoteTask<(path: string) => void>("remote"), 1);
  // @ts-expect-error: a name is no function
  await enqueueTask("resize", "a.png", 320);
  // @ts-expect-error: a promise of a function is not a function
  await enqueueTask(Promise.resolve(now));
  // @ts-expect-error: a direct call takes the same arguments
  await resize("a.png");
}

export async function many(): Promise<void> {
  const ids = await queue.enqueueTasks([[resize, "a.png", 320], [add, 1, 2], [now], [log, "line"]]);
  same<typeof ids, [TaskId<Size>, TaskId<number>, TaskId<string>, TaskId<void>]>(true);
  const mapped = await queue.enqueueTasks(["a", "b"].map((path) => [resize, path, 320]));
  same<typeof mapped, TaskId<Size>[]>(true);
  const none = await queue.enqueueTasks([]);
  same<typeof none, []>(true);
}

export async function wrongMany(): Promise<void> {
  await queue.enqueueTasks([
    [resize, "a.png", 320],
    // @ts-expect-error: the second of the one in the middle is no number
    [add, 1, "2"],
    [now],
  ]);
  await queue.enqueueTasks([
    [now],
    // @ts-expect-error: the one in the middle lacks an argument
    [resize, "a.png"],
    [now],
  ]);
  await queue.enqueueTasks([
    [now],
    // @ts-expect-error: the last has one too many
    [now, 1],
  ]);
  // @ts-expect-error: a function is no entry
  await queue.enqueueTasks([now]);
}

export async function watching(): Promise<void> {
  const id = await queue.enqueueTask(resize, "a.png", 320);
  for await (const event of queue.watchTask(id)) {
    if (event.type === "log") same<typeof event.line, TaskLog>(true);
    else if (event.type === "progress") same<typeof event.progress, number>(true);
    else same<typeof event.task, Task<Size>>(true);
    // @ts-expect-error: only an event of a status has the task
    same<typeof event.task, Task<Size>>(true);
  }
  // @ts-expect-error: a watch has no timeout
  queue.watchTask(id, { timeout: "5s" });
}
