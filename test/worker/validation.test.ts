/** A row may come from anywhere: its arguments are checked before the function runs, and results before they are stored. */
import { expect, test } from "vitest";
import {
  currentTask,
  InvalidArgumentsError,
  type Task,
  type TaskFailedError,
  task,
} from "../../src/index.ts";
import { deferred, startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";
import { type Amount, type Charge, charge, lateCharge, schemaOf } from "../support/schemas.ts";
import { allEnded, ended, queueOnFile, rejection } from "./setup.ts";

/** A row as another program writes one. */
async function foreign(args: unknown, func: string, more: { kwargs?: unknown } = {}) {
  const setup = await queueOnFile();
  const insert = setup.raw.prepare("insert into dbq_tasks (func, args, kwargs) values (?, ?, ?)");
  const { lastInsertRowid } = insert.run(func, JSON.stringify(args), JSON.stringify(more.kwargs ?? {}));
  return { ...setup, id: Number(lastInsertRowid) };
}

const schemas = [charge, lateCharge];

test("the function gets what the schema makes of the arguments: defaults, and values of classes", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const seen: unknown[] = [];
  const fns = schemas.map((input) => task(uniqueName(), (given: Charge) => void seen.push(given), { input }));
  const day = schemaOf<string, Date>((value) => ({ value: new Date(value as string) }));
  const dated = task(uniqueName(), (when: Date) => void seen.push(when), { input: day });
  await startedWorker(queue);
  for (const fn of fns) await ended(queue, await queue.enqueueTask(fn, { amount: 5 }));
  await ended(queue, await queue.enqueueTask(fns[0] as (typeof fns)[0], { amount: 5, currency: "USD" }));
  await ended(queue, await queue.enqueueTask(dated, "2026-11-27T00:00:00.000Z"));
  const euros = { amount: 5, currency: "EUR" };
  const when = new Date("2026-11-27T00:00:00.000Z");
  expect(seen).toEqual([euros, euros, { amount: 5, currency: "USD" }, when]);
});

test("kwargs that are the only argument are checked as one", async () => {
  const name = uniqueName();
  const { queue, id } = await foreign([], name, { kwargs: { amount: 5 } });
  task(name, (given: Charge) => given, { input: charge });
  await startedWorker(queue);
  expect((await ended(queue, id)).result).toEqual({ amount: 5, currency: "EUR" });
});

test("a row with invalid arguments fails for good, with its issues, and its function is not called", async () => {
  for (const input of schemas) {
    const name = uniqueName();
    const { queue, raw, id } = await foreign([{ amount: "5" }], name);
    let calls = 0;
    const failures: unknown[] = [];
    task(name, (given: Charge) => (calls += given.amount), {
      input,
      maxRetries: 3,
      backoff: () => 1,
      onFailure: (_: Task, error: unknown) => void failures.push(error),
    });
    await startedWorker(queue);
    const failed = await ended(queue, id);
    const issues = [{ message: "expected a number", path: ["amount"] }];
    expect(failed).toMatchObject({ status: "failed", retryCount: 0 });
    expect(failed.error).toMatchObject({
      name: "InvalidArgumentsError",
      code: "DBQ_INVALID_ARGUMENTS",
      issues,
    });
    expect(failed.error?.message).toBe(
      `task "${name}": the arguments are invalid: input.amount: expected a number`,
    );
    expect(failures).toMatchObject([{ code: "DBQ_INVALID_ARGUMENTS", issues }]);
    expect([failures[0] instanceof InvalidArgumentsError, calls]).toEqual([true, 0]);
    const thrown = (await rejection(queue.awaitTaskResult(id))) as TaskFailedError;
    expect(thrown.cause).toMatchObject({ code: "DBQ_INVALID_ARGUMENTS", issues });
    expect(JSON.parse(String(raw.prepare("select error from dbq_tasks").pluck().get())).issues).toEqual(
      issues,
    );
  }
});

test("at most 20 issues are stored, each of a bounded length", async () => {
  const name = uniqueName();
  const { queue, id } = await foreign([1], name);
  const long = "é".repeat(10_000);
  const path = Array.from({ length: 200 }, () => long);
  const issues = Array.from({ length: 50 }, () => ({ message: long, path }));
  task(name, (_given: number) => 1, { input: schemaOf<number, number>(() => ({ issues })) });
  await startedWorker(queue);
  const { error } = await ended(queue, id);
  expect(error?.issues?.length).toBe(20);
  expect(error?.issues?.[0]?.path.length).toBe(20);
  expect(JSON.stringify(error?.issues).length).toBeLessThan(80_000);
});

test("a function that enqueues invalid arguments is retried as after any error of its own", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const inner = task(uniqueName(), (given: Charge) => given.amount, { input: charge });
  const outer = task(
    uniqueName(),
    async () => void (await queue.enqueueTask(inner, { amount: "5" } as unknown as Amount)),
    { maxRetries: 1, backoff: () => 1 },
  );
  await startedWorker(queue);
  const failed = await ended(queue, await queue.enqueueTask(outer));
  expect(failed).toMatchObject({ status: "failed", retryCount: 1, error: { code: "DBQ_INVALID_ARGUMENTS" } });
});

test("a schema that throws is an error as any other: the task is retried", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  let asked = 0;
  const input = schemaOf<number, number>((value) => {
    asked += 1;
    if (asked === 2) throw new Error("the database of the schema is away");
    return { value: value as number };
  });
  const fn = task(uniqueName(), (n: number) => n, { input, backoff: () => 1 });
  await startedWorker(queue);
  const done = await ended(queue, await queue.enqueueTask(fn, 7));
  expect(done).toMatchObject({ status: "completed", result: 7, retryCount: 1 });
});

test("a function whose attempt has ended while its schema looked is not called", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const [looking, look] = [deferred(), deferred()];
  let asked = 0;
  let calls = 0;
  const input = schemaOf<number, number>(async (value) => {
    asked += 1;
    if (asked === 2) {
      looking.resolve();
      await look.promise;
    }
    return { value: value as number };
  });
  const fn = task(uniqueName(), (_n: number) => (calls += 1), { input });
  const id = await queue.enqueueTask(fn, 7);
  const worker = await startedWorker(queue);
  await looking.promise;
  const lost = new Promise((resolve) => worker.once("cancelled", resolve));
  await queue.cancelTask(id);
  look.resolve();
  await lost;
  expect([(await ended(queue, id)).status, calls]).toEqual(["cancelled", 0]);
});

const receipt = schemaOf<{ paid: number }, { paid: number; currency: string }>((value) => {
  const { paid } = (value ?? {}) as { paid?: unknown };
  return typeof paid === "number"
    ? { value: { paid, currency: "EUR" } }
    : { issues: [{ message: "expected a number", path: ["paid"] }] };
});
const wrongly = { paid: "much" } as unknown as { paid: number };

test("a result is stored as its schema makes it, and the hook onSuccess gets that", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const seen: unknown[] = [];
  const fn = task(uniqueName(), async () => ({ paid: 5, secret: 1 }), {
    output: receipt,
    onSuccess: (_, result) => void seen.push(result),
  });
  await startedWorker(queue);
  const done = await ended(queue, await queue.enqueueTask(fn));
  expect([done.result, seen]).toEqual([{ paid: 5, currency: "EUR" }, [{ paid: 5, currency: "EUR" }]]);
});

test("an attempt whose result does not fit has failed, and is retried as after an error of the function", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  let calls = 0;
  const fn = task(uniqueName(), () => (calls++ === 0 ? wrongly : { paid: 1 }), {
    output: receipt,
    backoff: () => 1,
  });
  const never = task(uniqueName(), () => wrongly, {
    output: receipt,
    retryOn: (error) => (error as { code?: unknown }).code !== "DBQ_INVALID_RESULT",
  });
  await startedWorker(queue);
  const [retried, refused] = await allEnded(queue, [
    await queue.enqueueTask(fn),
    await queue.enqueueTask(never),
  ]);
  expect(retried).toMatchObject({ status: "completed", retryCount: 1, result: { paid: 1 } });
  const issues = [{ message: "expected a number", path: ["paid"] }];
  expect(refused).toMatchObject({ status: "failed", retryCount: 0, result: undefined });
  expect(refused?.error).toMatchObject({ name: "InvalidResultError", code: "DBQ_INVALID_RESULT", issues });
});

test("a result that a transaction settles is checked there, and stored as its schema makes it", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const errors: unknown[] = [];
  const fn = task(
    uniqueName(),
    async (): Promise<{ paid: number }> => {
      const { within } = currentTask();
      await queue.transaction((tx) => within(tx).complete(wrongly)).catch((error) => errors.push(error));
      await queue.transaction((tx) => within(tx).complete({ paid: 5 }));
      // What a function returns after that changes nothing.
      return wrongly;
    },
    { output: receipt },
  );
  const late = task(
    uniqueName(),
    async () => {
      await queue.transaction((tx) => currentTask().within(tx).complete({ paid: 5 }));
      return { paid: 1 };
    },
    { output: schemaOf<object, object>(async (value) => ({ value: value as object })), maxRetries: 0 },
  );
  await startedWorker(queue);
  const done = await ended(queue, await queue.enqueueTask(fn));
  expect(done).toMatchObject({ status: "completed", result: { paid: 5, currency: "EUR" }, retryCount: 0 });
  expect(errors).toMatchObject([{ code: "DBQ_INVALID_RESULT", issues: [{ path: ["paid"] }] }]);
  const { error } = await ended(queue, await queue.enqueueTask(late));
  expect([error?.name, error?.message]).toEqual([
    "TypeError",
    expect.stringContaining("output: the schema is asynchronous, and a transaction on SQLite is not"),
  ]);
});

test("a direct call is not checked", async () => {
  const fn = task(uniqueName(), (given: Charge) => given, { input: charge });
  const given = { amount: "5" } as unknown as Charge;
  expect(fn(given)).toBe(given);
});
