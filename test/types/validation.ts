/** A task with schemas: an enqueue takes what the schema takes, and the function gets what the schema makes of it. */
import { type } from "arktype";
import * as v from "valibot";
import { z } from "zod";
import {
  enqueueTask,
  InvalidArgumentsError,
  type Queue,
  remoteTask,
  type StandardSchema,
  type Task,
  type TaskId,
  task,
  type ValidationIssue,
} from "../../src/index.ts";
import { same } from "./equal.ts";

declare const queue: Queue;

interface Order {
  amount: number;
  currency: string;
}
const order = z.object({ amount: z.number(), currency: z.string().default("EUR") });
const charge = task(
  "charge",
  async (given) => {
    same<typeof given, Order>(true);
    return { paid: given.amount };
  },
  { input: order, maxRetries: 5 },
);

export async function inputs(): Promise<void> {
  const id = await enqueueTask(charge, { amount: 5 });
  same<typeof id, TaskId<{ paid: number }>>(true);
  await queue.enqueueTask(charge, { amount: 5, currency: "USD" });
  await queue.enqueueTask(charge.with({ priority: 7 }), { amount: 5 });
  await queue.enqueueTask(charge.with({ kwargs: { amount: 5 } }));
  await queue.schedule("nightly", { cron: "0 3 * * *" }, charge, { amount: 5 });
  const ids = await queue.enqueueTasks([[charge, { amount: 5 }]]);
  same<typeof ids, [TaskId<{ paid: number }>]>(true);
  const paid = await charge({ amount: 5, currency: "EUR" });
  same<typeof paid, { paid: number }>(true);
}

export async function wrongInputs(): Promise<void> {
  // @ts-expect-error: an amount is a number
  await enqueueTask(charge, { amount: "5" });
  // @ts-expect-error: the amount is missing
  await queue.enqueueTask(charge, {});
  // @ts-expect-error: the argument is missing
  await queue.enqueueTask(charge);
  // @ts-expect-error: there is only one argument
  await queue.enqueueTask(charge, { amount: 5 }, 1);
  // @ts-expect-error: kwargs are the argument
  await queue.enqueueTask(charge.with({ kwargs: { amount: "5" } }));
  // @ts-expect-error: a schedule has the same arguments
  await queue.schedule("nightly", { cron: "0 3 * * *" }, charge, { amount: "5" });
  // @ts-expect-error: a direct call is not checked, so it needs what the function needs
  await charge({ amount: 5 });
  // @ts-expect-error: the function does not take what the schema makes
  task("takes-another", (_given: { amount: string }) => 1, { input: order });
  // @ts-expect-error: a schema is no plain object
  task("no-schema", (_given: Order) => 1, { input: { amount: "number" } });
  // @ts-expect-error: input and args exclude each other
  task("both", (_given: Order) => 1, { input: order, args: z.tuple([order]) });
}

const port = task("port", (given) => given + 1, { input: z.coerce.number().optional().default(80) });
const resize = task(
  "resize",
  async (path, width, ...tags) => {
    same<[typeof path, typeof width, typeof tags], [string, number, string[]]>(true);
    return path;
  },
  { args: z.tuple([z.string(), z.string().transform(Number)], z.string()) },
);

export async function tuples(): Promise<void> {
  await queue.enqueueTask(port);
  await queue.enqueueTask(resize, "a.png", "320");
  const id = await queue.enqueueTask(resize, "a.png", "320", "new", "big");
  same<typeof id, TaskId<string>>(true);
  // @ts-expect-error: the schema takes a string there
  await queue.enqueueTask(resize, "a.png", 320);
  // @ts-expect-error: the second is missing
  await queue.enqueueTask(resize, "a.png");
}

const receipt = z.object({ paid: z.number(), at: z.string().transform((text) => text.length) });
const pay = task("pay", async (given) => ({ paid: given.amount, at: "now", secret: "x" }), {
  input: order,
  output: receipt,
  onSuccess: (done, result) => {
    same<typeof done, Task<{ paid: number; at: number }>>(true);
    same<typeof result, { paid: number; at: number }>(true);
  },
});
const add = task("add", (a: number, b: number) => String(a + b), { output: z.string() });

export async function outputs(): Promise<void> {
  const result = await queue.awaitTaskResult(await queue.enqueueTask(pay, { amount: 5 }));
  same<typeof result, { paid: number; at: number }>(true);
  const sum = await queue.enqueueTask(add, 1, 2);
  same<typeof sum, TaskId<string>>(true);
  // @ts-expect-error: arguments without a schema are those of the function
  await queue.enqueueTask(add, "1", 2);
  // @ts-expect-error: the function does not return what the schema takes
  task("returns-another", () => 1, { output: z.string() });
  // @ts-expect-error: nor does this one
  task("returns-less", async (_given: Order) => ({ paid: 1 }), { input: order, output: receipt });
}

const byValibot = task("valibot", (given) => given.amount, {
  input: v.object({ amount: v.pipe(v.string(), v.transform(Number)) }),
  output: v.number(),
});
const byArktype = task("arktype", (given) => given.amount, {
  input: type({ amount: "string.numeric.parse", "currency?": "string" }),
  output: type("number"),
});

export async function otherLibraries(): Promise<void> {
  const ids = await queue.enqueueTasks([
    [byValibot, { amount: "5" }],
    [byArktype, { amount: "5" }],
  ]);
  same<typeof ids, [TaskId<number>, TaskId<number>]>(true);
  // @ts-expect-error: valibot takes a string there
  await queue.enqueueTask(byValibot, { amount: 5 });
  // @ts-expect-error: and so does arktype
  await queue.enqueueTask(byArktype, { amount: 5 });
}

export async function remote(): Promise<void> {
  const ofInput = remoteTask("charge", { input: order, priority: 7 });
  await queue.enqueueTask(ofInput, { amount: 5 });
  const ofArgs = remoteTask("resize", { args: z.tuple([z.string(), z.number()]) });
  await queue.enqueueTask(ofArgs, "a.png", 320);
  const typed = remoteTask<(given: { amount: number }) => Promise<string>>("charge", { input: order });
  const id = await queue.enqueueTask(typed, { amount: 5 });
  same<typeof id, TaskId<string>>(true);
  // @ts-expect-error: an amount is a number
  await queue.enqueueTask(ofInput, { amount: "5" });
  // @ts-expect-error: the second is missing
  await queue.enqueueTask(ofArgs, "a.png");
}

export function anySchema(schema: StandardSchema<{ id: number }, number>): void {
  const own = task("own", (id) => id + 1, { input: schema });
  void queue.enqueueTask(own, { id: 1 });
  const day = task("day", (when) => when.getTime(), {
    input: z.iso.datetime().transform((t) => new Date(t)),
  });
  void queue.enqueueTask(day, "2026-01-01T00:00:00Z");
}

const onDay = task("on-day", (when) => when.getTime(), { input: z.date() });
const total = task("total", (n: number) => n, { output: z.number().transform(BigInt) });

export async function unstorable(): Promise<void> {
  // @ts-expect-error: what the row would keep is a Date, which JSON cannot carry
  await queue.enqueueTask(onDay, new Date());
  // @ts-expect-error: nor can it carry the bigint that the schema makes of the result
  await queue.enqueueTask(total, 1);
}

export function issues(error: unknown): readonly ValidationIssue[] {
  return error instanceof InvalidArgumentsError ? error.issues : [];
}
