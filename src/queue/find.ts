/**
 * Finds tasks for people: the newest that match, in a bounded time. Where an index holds a part of the filter and those tasks
 * are few, it reads them all; else it goes down through the ids, range by range, until the page is full or the time is over.
 * The answer says how far it has looked.
 */
import { performance, setImmediate } from "../base/runtime/timers.ts";
import type { Store, TaskFilter } from "../store.ts";
import type { TaskRecord } from "../task.ts";

/** The most tasks that an index may hold for them to be read all at once. */
const most = 10_000;
/** Tasks of one range: a query over so many takes a few milliseconds. Their texts take ten times as long. */
const rangeRows = 10_000;
const textRows = 1_000;
/** A text is searched up to this many characters of each of arguments, kwargs and error. */
const textCharacters = 4_000;

export interface FindOptions {
  /** The number of tasks of a page. */
  limit: number;
  /** Only tasks with lower ids: the last page's `next`. */
  after?: number | undefined;
  /** A text that the arguments, kwargs or the error hold, in any case of letters. */
  text?: string | undefined;
  /** Milliseconds after which no further range is read. @default Infinity */
  budget?: number | undefined;
}

export interface Found {
  /** Newest first. */
  tasks: TaskRecord[];
  /** How many tasks were read for it; `null`: an index found them. */
  looked: number | null;
  /** The `after` to go on with; `null`: there are no more. */
  next: number | null;
}

/** @throws DatabaseError */
export async function findTasks(
  { look, get }: Pick<Store, "look" | "get">,
  filter: TaskFilter,
  { limit, after, text, budget = Number.POSITIVE_INFINITY }: FindOptions,
): Promise<Found> {
  if (text === undefined && (await look.areFew(filter, most))) {
    const tasks = await look.listFew(filter, limit, after, most);
    return { tasks, looked: null, next: tasks.length < limit ? null : (tasks.at(-1)?.id ?? null) };
  }
  const tasks: TaskRecord[] = [];
  let looked = 0;
  for await (const range of ranges(look, after, text === undefined ? rangeRows : textRows, budget)) {
    const left = limit - tasks.length;
    const read =
      text === undefined
        ? await look.listRange(filter, left, range)
        : await withText({ look, get }, filter, left, range, text);
    tasks.push(...read);
    looked += range.rows;
    if (tasks.length >= limit) return { tasks, looked, next: tasks.at(-1)?.id ?? null };
    if (range.isLast) return { tasks, looked, next: range.from };
  }
  return { tasks, looked, next: null };
}

/** How many tasks match, up to `cap`; `complete`: whether there are no more. @throws DatabaseError */
export async function countTo(
  { look }: Pick<Store, "look">,
  filter: TaskFilter,
  { cap, budget = Number.POSITIVE_INFINITY }: { cap: number; budget?: number },
): Promise<{ count: number; complete: boolean }> {
  if (await look.areFew(filter, most)) return capped(await look.countFew(filter, most), cap);
  let count = 0;
  for await (const range of ranges(look, undefined, rangeRows, budget)) {
    count += await look.countRange(filter, range);
    if (count > cap) return { count: cap, complete: false };
    if (range.isLast) return { count, complete: false };
  }
  return { count, complete: true };
}

const capped = (count: number, cap: number) => ({ count: Math.min(count, cap), complete: count <= cap });

interface Range {
  after: number | undefined;
  from: number;
  rows: number;
  /** Whether the time is over, and there may be more tasks below. */
  isLast: boolean;
}

async function* ranges(
  look: Store["look"],
  start: number | undefined,
  size: number,
  budget: number,
): AsyncGenerator<Range> {
  const end = performance.now() + budget;
  for (let after = start; ; ) {
    const { rows, from } = await look.span(after, size);
    if (from === null) return;
    const isEnd = rows < size;
    yield { after, from, rows, isLast: !isEnd && performance.now() >= end };
    if (isEnd) return;
    after = from;
    // On SQLite each range blocks the event loop.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function withText(
  { look, get }: Pick<Store, "look" | "get">,
  filter: TaskFilter,
  limit: number,
  range: Range,
  text: string,
): Promise<TaskRecord[]> {
  const wanted = text.toLowerCase();
  const texts = await look.texts(filter, textCharacters, range);
  const ids = texts.filter((row) => row.text.toLowerCase().includes(wanted)).map(({ id }) => id);
  const tasks = ids.length === 0 ? [] : await get(ids.slice(0, limit));
  return tasks.sort((a, b) => b.id - a.id);
}
