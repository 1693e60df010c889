/** The entries of groups and chains are checked as the arguments of `enqueueTask` are, and their ids have the results' types. */
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import { step } from "../../src/features/workflows/steps.ts";
import { type AnyEntry, currentTask, type Queue, remoteTask, type TaskId, task } from "../../src/index.ts";
import { same } from "./equal.ts";

declare const queue: Queue;
const resize = task("resize", async (_path: string, _width: number) => ({ bytes: 1 }));
const log = task("log", async (_line: string, _level?: "info" | "error") => {});
const sum = task("sum", async (numbers: number[]) => numbers.length);
const join = task("join", (separator: string, ...words: string[]) => words.join(separator));
const now = task("now", () => "now");
const dated = task("dated", async (date: Date) => date.getTime());
const shout = task("shout", (mark: string, before: string) => before + mark);
const optional = task("optional", async (name?: string) => name);
const anything = remoteTask("anything");
const paths = ["a", "b"];

export async function goodGroups(
  entries: AnyEntry[],
  sizes: [typeof resize, string, number][],
): Promise<void> {
  const group = await queue.enqueueGroup([
    [resize, "a", 1],
    [log, "x", "error"],
    [log, "x"],
    [sum, [1, 2]],
    [join, ","],
    [now],
  ]);
  same<TaskId<{ bytes: number }>, (typeof group.ids)[0]>(true);
  same<TaskId<string>, (typeof group.ids)[5]>(true);
  await queue.enqueueGroup([
    [join, ",", "b"],
    [anything, 1, { deep: [1] }],
    [resize.with({ priority: 8 }), "a", 1],
  ]);
  await queue.enqueueGroup([]);
  await queue.enqueueGroup(entries);
  await queue.enqueueGroup(sizes);
  await queue.enqueueGroup(paths.map((path) => [resize, path, 1]));
  await queue.enqueueGroup([[now], ...paths.map((path) => [resize, path, 1] as const)]);
  await queue.enqueueGroup([], { then: now.with({ priority: 1 }) });
  await queue.enqueueGroup([], { then: optional });
  await queue.enqueueGroup([], { then: anything });
  const added = await currentTask().group.add([[resize, "a", 1]]);
  same<typeof added, TaskId[]>(true);
}

export async function wrongGroups(): Promise<void> {
  // @ts-expect-error: the second argument is missing
  await queue.enqueueGroup([[resize, "a"]]);
  // @ts-expect-error: the first argument is no string
  await queue.enqueueGroup([[now], [resize, 1, 1]]);
  // @ts-expect-error: there is no such level
  await queue.enqueueGroup([[log, "x", "warn"]]);
  // @ts-expect-error: it takes no argument
  await queue.enqueueGroup([[now, 1]]);
  // @ts-expect-error: the second argument of each is missing
  await queue.enqueueGroup(paths.map((path) => [resize, path]));
  // @ts-expect-error: JSON cannot carry a Date
  await queue.enqueueGroup([[dated, new Date()]]);
  // @ts-expect-error: `then` gets no arguments
  await queue.enqueueGroup([], { then: sum });
  // @ts-expect-error: nor does it with other options
  await queue.enqueueGroup([], { then: sum.with({ priority: 1 }) });
  // @ts-expect-error: the second argument is missing
  await currentTask().group.add([[resize, "a"]]);
}

export async function chains(entries: AnyEntry[]): Promise<void> {
  const { ids } = await queue.enqueueChain([[resize, "a", 1], [shout, "!"], [now], [sum]]);
  same<typeof ids, [TaskId<{ bytes: number }>, TaskId<string>, TaskId<string>, TaskId<number>]>(true);
  await queue.enqueueChain([]);
  await queue.enqueueChain(entries);
  await queue.enqueueChain(paths.map((path) => [optional, path] as const));
  // @ts-expect-error: the first one gets no result
  await queue.enqueueChain([[sum], [now]]);
  // @ts-expect-error: the argument is no string
  await queue.enqueueChain([[now], [shout, 1]]);
  // @ts-expect-error: it takes no argument
  await queue.enqueueChain([[now], [now, 1]]);
}

/** The type of `tx` says whether a method inside of the transaction gives a promise. */
export async function insideOfAStep(members: AnyEntry[]): Promise<void> {
  const id = await step.within(
    "group",
    (tx: BetterSQLite3Database) => queue.within(tx).enqueueGroup(members).id,
  );
  same<typeof id, TaskId<undefined>>(true);
}
