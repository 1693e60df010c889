/** Arguments are checked before they are written, on each way to write them; nothing is written otherwise. */
import { describe, expect, test } from "vitest";
import {
  clearTasks,
  enqueueTask,
  InvalidArgumentsError,
  InvalidResultError,
  type Queue,
  remoteTask,
  setDefaultQueue,
  task,
} from "../../src/index.ts";
import { deferred, temporaryQueue, uniqueName } from "../support/queue.ts";
import { badAmount, type Charge, charge, lateCharge, schemaOf } from "../support/schemas.ts";

const later = { delay: "1h" } as const;
const pay = task("pay", async (given: Charge) => given.amount, { input: charge, ...later });
const payLate = task("pay-late", async (given: Charge) => given.amount, { input: lateCharge, ...later });
const plain = task("plain", async () => undefined, later);

const issues = [{ message: "expected a number", path: ["amount"] }];

async function isRefused(call: Promise<unknown>): Promise<void> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(InvalidArgumentsError);
  expect(error).toMatchObject({ code: "DBQ_INVALID_ARGUMENTS", issues });
}

const isEmpty = async (queue: Queue) => {
  expect(await queue.listTasks()).toEqual([]);
  expect(await queue.listSchedules()).toEqual([]);
};

describe.each([
  ["synchronous", pay],
  ["asynchronous", payLate],
] as const)("with a schema that is %s", (_, fn) => {
  test("invalid arguments are refused, and nothing is written", async () => {
    const queue = await temporaryQueue({}, ":memory:");
    await isRefused(queue.enqueueTask(fn, badAmount));
    await isRefused(queue.enqueueTask(fn.with({ priority: 9, uniqueKey: "a" }), badAmount));
    await isRefused(queue.enqueueTask(fn.with({ kwargs: badAmount })));
    await isRefused(queue.schedule("nightly", { every: "1d" }, fn, badAmount));
    await isEmpty(queue);
  });

  test("one invalid entry of many keeps all from being written", async () => {
    const queue = await temporaryQueue({}, ":memory:");
    await isRefused(queue.enqueueTasks([[plain], [fn, { amount: 1 }], [fn, badAmount], [plain]]));
    const at = { every: "1d" } as const;
    await isRefused(
      queue.schedules([
        ["good", at, fn, { amount: 1 }],
        ["bad", at, fn, badAmount],
      ]),
    );
    await isEmpty(queue);
  });

  test("the row has what the caller passed, not what the schema made of it", async () => {
    const queue = await temporaryQueue({}, ":memory:");
    const id = await queue.enqueueTask(fn, { amount: 5 });
    expect((await queue.getTask(id))?.args).toEqual([{ amount: 5 }]);
    const [first] = await queue.enqueueTasks([[fn, { amount: 6 }]]);
    expect((await queue.getTask(first))?.args).toEqual([{ amount: 6 }]);
    const { args } = await queue.schedule("nightly", { every: "1d" }, fn, { amount: 7 });
    expect(args).toEqual([{ amount: 7 }]);
  });

  test("new arguments of a waiting task are checked, together with its kwargs", async () => {
    const queue = await temporaryQueue({}, ":memory:");
    const id = await queue.enqueueTask(fn, { amount: 5 });
    await isRefused(queue.updateTask(id, { args: [badAmount] }));
    await expect(queue.updateTask(id, { kwargs: { more: 1 } })).rejects.toMatchObject({
      issues: [{ message: "expected one argument, got 2" }],
    });
    expect((await queue.getTask(id))?.args).toEqual([{ amount: 5 }]);
    expect((await queue.updateTask(id, { args: [{ amount: 6 }], priority: 9 })).args).toEqual([
      { amount: 6 },
    ]);
    expect((await queue.updateTask(id, { args: [], kwargs: { amount: 7 } })).kwargs).toEqual({ amount: 7 });
    await isRefused(queue.updateTask(id, { kwargs: {} }));
  });

  test("the default queue checks them, too", async () => {
    const queue = await temporaryQueue({}, ":memory:");
    setDefaultQueue(queue);
    await isRefused(enqueueTask(fn, badAmount));
    await isEmpty(queue);
  });
});

test("a change is checked again if somebody else has changed the task meanwhile", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const [looking, look] = [deferred(), deferred()];
  let asked = 0;
  const fn = task(uniqueName(), (n: number) => n, {
    input: schemaOf<number, number>(async (value) => {
      asked += 1;
      if (asked === 2) {
        looking.resolve();
        await look.promise;
      }
      return { value: value as number };
    }),
    ...later,
  });
  const id = await queue.enqueueTask(fn, 1);
  const changed = queue.updateTask(id, { args: [2] });
  await looking.promise;
  await queue.updateTask(id, { priority: 9 });
  look.resolve();
  expect(await changed).toMatchObject({ args: [2], priority: 9 });
  expect(asked).toBe(3);
});

test("in a transaction of SQLite an invalid call throws, and the transaction can go on without it", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const ids = await queue.transaction((tx, q) => {
    expect(() => q.enqueueTask(pay, badAmount)).toThrow(InvalidArgumentsError);
    expect(() => queue.within(tx).enqueueTasks([[plain], [pay, badAmount]])).toThrow(InvalidArgumentsError);
    expect(() => q.schedule("nightly", { every: "1d" }, pay, badAmount)).toThrow(InvalidArgumentsError);
    return [q.enqueueTask(pay, { amount: 1 })];
  });
  expect((await queue.listTasks()).map(({ id }) => id)).toEqual(ids);
  expect(await queue.listSchedules()).toEqual([]);
});

test("an asynchronous schema is a TypeError in a transaction of SQLite, which cannot wait for it", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const says =
    'task "pay-late": its arguments: the schema is asynchronous, and a transaction on SQLite is not';
  await queue.transaction((_, q) => {
    for (const given of [{ amount: 1 }, badAmount]) {
      expect(() => q.enqueueTask(payLate, given)).toThrow(says);
      expect(() => q.enqueueTasks([[plain], [payLate, given]])).toThrow(TypeError);
      expect(() => q.schedule("nightly", { every: "1d" }, payLate, given)).toThrow(says);
    }
  });
  await isEmpty(queue);
});

test("a task that another program runs can be checked here", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const remote = remoteTask("elsewhere", { input: charge });
  await isRefused(queue.enqueueTask(remote, badAmount));
  await isRefused(queue.enqueueTask(remote.with({ delay: 1 }), badAmount));
  const tuple = schemaOf<[number], [number]>((value) =>
    Array.isArray(value) && value.length === 1
      ? { value: value as [number] }
      : { issues: [{ message: "expected one", path: [] }] },
  );
  const ofArgs = remoteTask("elsewhere", { args: tuple });
  await expect(queue.enqueueTask(ofArgs, ...([] as unknown as [number]))).rejects.toThrow(
    "args: expected one",
  );
  await isEmpty(queue);
  expect(() => remoteTask("elsewhere", { input: {} } as never)).toThrow(
    'remoteTask "elsewhere": input: expected',
  );
});

test("arguments are checked as they were when they were passed, and as JSON keeps them", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const seen: unknown[] = [];
  const fn = task(uniqueName(), (_given: object) => 1, {
    input: schemaOf<object, object>(async (value) => {
      await undefined;
      seen.push(structuredClone(value));
      return { value: value as object };
    }),
  });
  const given = { amount: 1, left: undefined };
  const enqueued = queue.enqueueTask(fn, given);
  given.amount = 2;
  const id = await enqueued;
  expect([(await queue.getTask(id))?.args, seen]).toEqual([[{ amount: 1 }], [{ amount: 1 }]]);
  expect(Object.hasOwn(seen[0] as object, "left")).toBe(false);
});

test("an invalid call is refused alone: the others of its tick are written", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const calls = [
    queue.enqueueTask(pay, { amount: 1 }),
    queue.enqueueTask(pay, badAmount),
    queue.enqueueTask(plain),
  ];
  expect((await Promise.allSettled(calls)).map(({ status }) => status)).toEqual([
    "fulfilled",
    "rejected",
    "fulfilled",
  ]);
  expect((await queue.listTasks()).length).toBe(2);
});

test("a drained task is settled with what its schema makes of the result, or not at all", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const paid = schemaOf<{ paid: number }, { paid: number }>((value) => {
    const { paid: given } = value as { paid: unknown };
    return typeof given === "number"
      ? { value: { paid: given } }
      : { issues: [{ message: "expected a number", path: ["paid"] }] };
  });
  const fn = task(uniqueName(), () => ({ paid: 1 }), { output: paid, ...later });
  const id = await queue.enqueueTask(fn);
  const wrong = queue.settleDrained(id, { result: { paid: "no" } as unknown as { paid: number } });
  await expect(wrong).rejects.toBeInstanceOf(InvalidResultError);
  // It is checked first: a result that fits is refused since no drain has sent the task.
  await expect(queue.settleDrained(id, { result: { paid: 1 } })).rejects.toThrow(
    "no drain has sent the task",
  );
  expect((await queue.getTask(id))?.status).toBe("scheduled");
});

test("a function that is not registered any more is not checked, as it cannot be run", async () => {
  const queue = await temporaryQueue({}, ":memory:");
  const fn = task(uniqueName(), (given: Charge) => given.amount, { input: charge, ...later });
  const id = await queue.enqueueTask(fn, { amount: 1 });
  clearTasks();
  expect((await queue.updateTask(id, { args: [badAmount] })).args).toEqual([badAmount]);
});
