/**
 * Finds tasks for people: the newest that match, in a bounded time. Where an index holds a part of the filter and those tasks
 * are few, it reads them all; else it goes down through the ids, range by range, until the page is full or the time is over.
 * The answer says how far it has looked.
 */
import { performance, setImmediate } from "../../base/runtime/timers.ts";
import type { TaskFilter } from "../../store.ts";
import type { TaskBeginning } from "../../task.ts";
import type { LookStore } from "../look/contract.ts";

/** The most tasks that an index may hold for them to be read all at once. */
const most = 10_000;
/** Tasks between two looks at the time: a query over so many takes a few milliseconds. Their texts take ten times as long. */
const rangeRows = 10_000;
const textRows = 1_000;
/** Tasks that are read at once, with their texts, where an index holds few. */
const fewRows = 500;
/**
 * Where each task has a megabyte of arguments, a query over these would take a second. So it is several ranges: the first is small,
 * and the next ones grow as long as each takes less than `quick` milliseconds.
 */
const firstPart = 20;
const quick = 10;
/** Milliseconds beyond the budget after which no further range is read at all. */
const longestOver = 500;
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
  /** So many of each JSON column are read. @default 0 */
  characters?: number | undefined;
  /** Called between two ranges, with the time at which the first of them began, by `performance.now()`. @default nothing */
  pause?: ((began: number) => Promise<void>) | undefined;
}

export interface Found {
  /** Newest first. */
  tasks: TaskBeginning[];
  /** How many tasks were read for it; `null`: an index found them. */
  looked: number | null;
  /** The `after` to go on with; `null`: there are no more. */
  next: number | null;
}

/** @throws DatabaseError */
export async function findTasks(
  { look }: { look: LookStore },
  filter: TaskFilter,
  { limit, after, text, budget = Number.POSITIVE_INFINITY, characters = 0, pause }: FindOptions,
): Promise<Found> {
  const kind = ofKind(filter);
  if (text === undefined && kind) {
    const tasks = await look.list(kind, limit, after, characters);
    return { tasks, looked: null, next: tasks.length < limit ? null : (tasks.at(-1)?.id ?? null) };
  }
  if (await look.areFew(filter, most)) {
    if (text !== undefined)
      return await fewWithText(look, filter, { limit, after, text, budget, characters });
    const tasks = await look.listFew(filter, limit, after, most, characters);
    return { tasks, looked: null, next: tasks.length < limit ? null : (tasks.at(-1)?.id ?? null) };
  }
  const tasks: TaskBeginning[] = [];
  let looked = 0;
  for await (const range of ranges(look, after, text === undefined ? rangeRows : textRows, budget, pause)) {
    const left = limit - tasks.length;
    const read =
      text === undefined
        ? await look.listRange(filter, left, range, characters)
        : await withText(look, filter, left, range, text, characters);
    tasks.push(...read);
    looked += range.rows;
    if (tasks.length >= limit) return { tasks, looked, next: tasks.at(-1)?.id ?? null };
    if (range.isLast) return { tasks, looked, next: range.from };
  }
  return { tasks, looked, next: null };
}

interface FewOptions {
  limit: number;
  after: number | undefined;
  text: string;
  budget: number;
  characters: number;
}

/** The tasks among few that have a text: only those are read that the rest of the filter leaves, however many lie between them. */
async function fewWithText(
  look: LookStore,
  filter: TaskFilter,
  { limit, after, text, budget, characters }: FewOptions,
): Promise<Found> {
  const end = performance.now() + budget;
  const has = textIn(text);
  const ids: number[] = [];
  let looked = 0;
  for (let position = after; ; ) {
    const read = await look.listFew(filter, fewRows, position, most, textCharacters);
    for (const { id, args, kwargs, error } of read) {
      looked += 1;
      if (has([args, kwargs, error ?? ""].join("\n"))) ids.push(id);
      if (ids.length >= limit) break;
    }
    const isFull = ids.length >= limit;
    const last = isFull ? ids.at(-1) : read.at(-1)?.id;
    if (isFull || read.length < fewRows || performance.now() >= end) {
      const next = isFull || read.length === fewRows ? (last ?? null) : null;
      return { tasks: await inOrder(look, ids, characters), looked, next };
    }
    position = last;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Tells whether JSON holds this text, in any case of letters: as a person writes it, or as it stands in the JSON. */
function textIn(text: string): (json: string) => boolean {
  const wanted = [text, JSON.stringify(text).slice(1, -1)].map((each) => each.toLowerCase());
  return (json) => {
    const folded = json.toLowerCase();
    return wanted.some((each) => folded.includes(each));
  };
}

/** These tasks, the newest first. */
async function inOrder(
  look: LookStore,
  ids: readonly number[],
  characters: number,
): Promise<TaskBeginning[]> {
  const tasks = ids.length === 0 ? [] : await look.get(ids, characters);
  return tasks.sort((a, b) => b.id - a.id);
}

/**
 * The filter of all failed tasks of a kind, if it is one: an index has them in the order of their ids, so a page of them is read by
 * itself, however many there are.
 */
function ofKind({ failure, status, ...others }: TaskFilter): TaskFilter | undefined {
  const isAll = Object.values(others).every((other) => other === undefined);
  return failure !== undefined && isAll && status?.includes("failed") !== false ? { failure } : undefined;
}

/** How many tasks match, up to `cap`; `complete`: whether there are no more. @throws DatabaseError */
export async function countTo(
  { look }: { look: LookStore },
  filter: TaskFilter,
  {
    cap,
    budget = Number.POSITIVE_INFINITY,
    text,
  }: { cap: number; budget?: number; text?: string | undefined },
): Promise<{ count: number; complete: boolean }> {
  if (text !== undefined) {
    const { tasks, next } = await findTasks({ look }, filter, { limit: cap, text, budget, characters: 1 });
    return { count: tasks.length, complete: next === null };
  }
  const kind = ofKind(filter);
  if (kind) return capped(await look.countFew(kind, cap), cap);
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
  look: LookStore,
  start: number | undefined,
  rows: number,
  budget: number,
  pause?: FindOptions["pause"],
): AsyncGenerator<Range> {
  const end = performance.now() + budget;
  const least = Math.ceil(rows / firstPart);
  let [size, left] = [least, rows];
  for (let after = start; ; ) {
    const began = performance.now();
    const found = await look.span(after, Math.min(size, left));
    if (found.from === null) return;
    const isEnd = found.rows < Math.min(size, left);
    left -= found.rows;
    const over = performance.now() - end;
    yield { after, ...found, from: found.from, isLast: !isEnd && over >= (left === 0 ? 0 : longestOver) };
    if (isEnd) return;
    after = found.from;
    if (left === 0) left = rows;
    const isQuick = performance.now() - began < quick;
    size = isQuick ? Math.min(rows, size * 4) : Math.max(least, Math.floor(size / 2));
    await pause?.(began);
    // On SQLite each range blocks the event loop.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function withText(
  look: LookStore,
  filter: TaskFilter,
  limit: number,
  range: Range,
  text: string,
  characters: number,
): Promise<TaskBeginning[]> {
  const ids = await idsWithText(look, filter, range, text);
  return await inOrder(look, ids.slice(0, limit), characters);
}

async function idsWithText(
  look: LookStore,
  filter: TaskFilter,
  range: Range,
  text: string,
): Promise<number[]> {
  const has = textIn(text);
  const texts = await look.texts(filter, textCharacters, range);
  return texts.filter((row) => has(row.text)).map(({ id }) => id);
}
