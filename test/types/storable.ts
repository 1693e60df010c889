/** A task whose parameters JSON cannot carry can be called, and is a type error where it is enqueued. */
import {
  enqueueTask,
  openQueue,
  type Queue,
  type QueueWithin,
  remoteTask,
  type TaskFunction,
  type TaskId,
  task,
} from "../../src/index.ts";
import { same } from "./equal.ts";

declare const queue: Queue;
declare const within: QueueWithin<unknown>;
declare const maybe: string | undefined;

interface Address {
  street: string;
  zip?: string | null;
}
interface Order {
  id: number;
  address: Address;
  lines: readonly { sku: string; count: number }[];
  parent?: Order;
  meta: Record<string, unknown>;
}
type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
type UserId = string & { readonly brand: unique symbol };
type Event = { type: "paid"; order: Order } | { type: "sent"; at: string };
interface Mailer {
  send(text: string): void;
}

const at = task("at", async (when: Date) => when.getTime());
const inObject = task("in object", async (order: { id: number; paidAt: Date }) => order.id);
const inArray = task("in array", async (name: string, dates: Date[]) => [name, dates.length]);
const inRecord = task("in record", async (dates: Record<string, Date>) => Object.keys(dates));
const size = task("size", async (map: Map<string, number>) => map.size);
const tags = task("tags", async (set: ReadonlySet<string>) => set.size);
const big = task("big", async (id: bigint) => Number(id));
const call = task("call", async (fn: () => void) => fn());
const key = task("key", async (id: symbol) => id.description);
const mail = task("mail", async (mailer: Mailer) => mailer.send("x"));
const bytes = task("bytes", async (data: Uint8Array) => data.length);
const page = task("page", async (url: URL) => url.href);

export async function refused(): Promise<void> {
  await at(new Date());
  // @ts-expect-error: a Date
  await queue.enqueueTask(at, new Date());
  // @ts-expect-error: a Date, on the default queue
  await enqueueTask(at, new Date());
  // @ts-expect-error: a Date, with other options
  await queue.enqueueTask(at.with({ priority: 9 }), new Date());
  same<ReturnType<ReturnType<typeof at.with>>, Promise<number>>(true);
  // @ts-expect-error: a Date, in a transaction
  await within.enqueueTask(at, new Date());
  // @ts-expect-error: a Date, in a list
  await queue.enqueueTasks([[at, new Date()]]);
  // @ts-expect-error: a Date in an object
  await queue.enqueueTask(inObject, { id: 1, paidAt: new Date() });
  // @ts-expect-error: Dates in an array
  await queue.enqueueTask(inArray, "x", [new Date()]);
  // @ts-expect-error: Dates in a record
  await queue.enqueueTask(inRecord, { now: new Date() });
  // @ts-expect-error: a Map
  await queue.enqueueTask(size, new Map());
  // @ts-expect-error: a Set
  await queue.enqueueTask(tags, new Set());
  // @ts-expect-error: a bigint
  await queue.enqueueTask(big, 1n);
  // @ts-expect-error: a function
  await queue.enqueueTask(call, () => {});
  // @ts-expect-error: a symbol
  await queue.enqueueTask(key, Symbol("x"));
  // @ts-expect-error: an object with a method
  await queue.enqueueTask(mail, { send: () => {} });
  // @ts-expect-error: bytes
  await queue.enqueueTask(bytes, new Uint8Array());
  // @ts-expect-error: a URL
  await queue.enqueueTask(page, new URL("http://x"));
}

const gives = {
  date: task("gives a date", async () => new Date()),
  inObject: task("gives a date in an object", async (id: number) => ({ id, paidAt: new Date() })),
  map: task("gives a map", () => new Map<string, number>()),
  big: task("gives a bigint", async () => 1n),
  call: task("gives a function", async () => () => 1),
  nothing: task("gives nothing", async () => {}),
  perhaps: task("gives a date or a text", async (text: string) => (text === "" ? new Date() : text)),
  dates: task("gives rows", async () => [{ id: 1, at: "now" }]),
  throws: task("throws", (): never => {
    throw new Error("x");
  }),
};

export async function refusedResults(): Promise<void> {
  // @ts-expect-error: a result that is a Date
  await queue.enqueueTask(gives.date);
  // @ts-expect-error: a result with a Date
  await queue.enqueueTask(gives.inObject, 1);
  // @ts-expect-error: a result that is a Date, with other options
  await queue.enqueueTask(gives.date.with({ priority: 9 }));
  // @ts-expect-error: a Map, in a list
  await queue.enqueueTasks([[gives.map]]);
  // @ts-expect-error: a bigint, in a transaction
  await within.enqueueTask(gives.big);
  // @ts-expect-error: a function, on the default queue
  await enqueueTask(gives.call);
  // @ts-expect-error: a Date, by a schedule
  await queue.schedule("daily", { every: "1d" }, gives.date);
  await queue.enqueueTask(gives.nothing);
  await queue.enqueueTask(gives.perhaps, "x");
  await queue.enqueueTask(gives.dates);
  await queue.enqueueTask(gives.throws);
}

const place = task("place", async (order: Order, ...more: Order[]) => [order, more]);
const json = task("json", async (value: Json) => value);
// biome-ignore lint/suspicious/noExplicitAny: any parameter type is accepted, this one too.
const anything = task("anything", async (_value: unknown, _any: any, _object: object) => {});
const user = task("user", async (_id: UserId, _task: TaskId<Date>) => {});
const event = task("event", async (_event: Event) => {});
const either = task("either", async (when: string | Date) => String(when));
const nullable = task("nullable", async (when: Date | null) => when);
const record = task(
  "record",
  async (_names: Record<string, string>, _sizes: { [size: string]: number | Date }) => {},
);
const injected = task("injected", async (id: number, now: () => Date = () => new Date()) => [id, now()]);
const optional = task("optional", async (options: { id: number; signal?: AbortSignal }) => options.id);
const tuple = task("tuple", async (pair: readonly [string, number], ...rest: boolean[]) => [pair, rest]);

export async function accepted(order: Order): Promise<void> {
  await queue.enqueueTask(place, order, order);
  await queue.enqueueTask(json, { a: [1, null, { b: "c" }] });
  await queue.enqueueTask(anything, 1, 2, {});
  await queue.enqueueTask(user, "u" as UserId, 7);
  await queue.enqueueTask(event, { type: "sent", at: "now" });
  await queue.enqueueTask(either, "2026-01-01");
  await queue.enqueueTask(nullable, null);
  await queue.enqueueTask(record, { a: "b" }, { "1": 1 });
  await queue.enqueueTask(injected, 1);
  await queue.enqueueTask(optional, { id: 1 });
  await queue.enqueueTask(tuple, ["a", 1], true);
  await queue.enqueueTasks([
    [place, order],
    [injected, 1],
  ]);
  same<typeof place, TaskFunction<[order: Order, ...more: Order[]], Promise<(Order | Order[])[]>>>(true);
}

/** Generic code over any task compiles as before. */
export async function later<A extends unknown[], R>(fn: TaskFunction<A, R>, ...args: A) {
  return await queue.enqueueTask(fn, ...args);
}
export async function traced<F extends (...args: never[]) => unknown>(fn: F, ...args: Parameters<F>) {
  return await queue.enqueueTask(fn, ...args);
}
export function define<A extends unknown[], R>(name: string, fn: (...args: A) => R): TaskFunction<A, R> {
  return task(`app.${name}`, fn);
}
export async function defineAndEnqueue<A extends unknown[], R>(fn: (...args: A) => R, ...args: A) {
  // Without the type here, the compiler would not know the parameters of a task whose own are not known yet.
  const defined: TaskFunction<A, R> = task("generic", fn);
  await queue.enqueueTask(defined, ...args);
  await queue.enqueueTask(remoteTask<(...args: A) => R>("far"), ...args);
}

export async function targets(): Promise<void> {
  await openQueue();
  await openQueue(maybe ?? "app.db", { migrate: false });
  // @ts-expect-error: an environment variable may be undefined
  await openQueue(maybe);
  // @ts-expect-error: the same with options
  await openQueue(process.env.DATABASE_URL, { sessions: false });
  // @ts-expect-error: undefined itself
  await openQueue(undefined);
}
