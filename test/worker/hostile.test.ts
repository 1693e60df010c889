/** Whatever a handler throws or returns: its task ends, and neither the worker nor a bystander is hurt. */
import { expect, test } from "vitest";
import { task } from "../../src/index.ts";
import { startedWorker, uniqueName } from "../support/queue.ts";
import { ended, queueOnFile, raise, reportsOf } from "./setup.ts";

const trap = () => raise(new Error("a trap of the proxy"));

/** Every question that it is asked throws. */
const trapped = (target: object) =>
  new Proxy(target, {
    get: trap,
    has: trap,
    getPrototypeOf: trap,
    ownKeys: trap,
    getOwnPropertyDescriptor: trap,
  });

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable(new Error("x"), {});
  revoke();
  return proxy;
}

function withGetters(...keys: string[]): Error {
  const error = new Error("x");
  for (const key of keys)
    Object.defineProperty(error, key, { get: () => raise(new Error(`reading ${key}`)), enumerable: true });
  return error;
}

function cyclic(): Error {
  const error: Error & { self?: unknown } = new Error("cyclic");
  error.cause = error;
  error.self = { error };
  return error;
}

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < levels; i += 1) value = [value];
  return value;
}

const hostileText = {
  toString: () => raise(new Error("toString")),
  toJSON: () => raise(new Error("toJSON")),
  [Symbol.toPrimitive]: () => raise(new Error("toPrimitive")),
  [Symbol.for("nodejs.util.inspect.custom")]: () => raise(new Error("inspect")),
};

const thrown: [string, () => unknown][] = [
  ["null", () => null],
  ["undefined", () => undefined],
  ["a string", () => "text"],
  ["an empty string", () => ""],
  ["a symbol", () => Symbol("s")],
  ["a BigInt", () => 10n],
  ["a function", () => trap],
  ["an object that cannot be shown", () => hostileText],
  ["an object without a prototype", () => Object.create(null)],
  ["getters that throw", () => withGetters("name", "message", "stack", "code", "cause")],
  ["a name that is no string", () => Object.assign(new Error("x"), { name: hostileText, code: Symbol("c") })],
  ["a message that is no string", () => Object.assign(new Error("x"), { message: hostileText, stack: 7 })],
  ["a proxy that traps everything", () => trapped(new Error("x"))],
  ["a proxy that traps everything, of no error", () => trapped({})],
  ["a revoked proxy", revoked],
  ["a cycle of causes", cyclic],
  ["a lone surrogate and NUL", () => new Error("\ud800 \0 \u001b[31m")],
];

test.each(thrown)("throws %s", async (_, value) => {
  const { queue } = await queueOnFile();
  const hostile = task(uniqueName("hostile"), async () => raise(value()), {
    maxRetries: 1,
    backoff: () => 0,
    retryOn: (error) => error !== "nothing is",
  });
  const bystander = task(uniqueName("bystander"), async () => "unharmed");
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  const [bad, good] = await queue.enqueueTasks([[hostile], [bystander]]);
  const failed = await ended(queue, bad);
  expect(failed).toMatchObject({ status: "failed", retryCount: 1 });
  expect(failed.error).toEqual({
    ...failed.error,
    name: expect.any(String),
    message: expect.any(String),
  });
  for (const attempt of await queue.listAttempts(bad)) expect(attempt).toMatchObject({ outcome: "failed" });
  expect(await ended(queue, good)).toMatchObject({ result: "unharmed" });
  expect(await ended(queue, await queue.enqueueTask(bystander))).toMatchObject({ result: "unharmed" });
  expect(reports).toEqual([]);
});

test("classes of retryOn meet a value whose prototype cannot be asked for", async () => {
  const { queue } = await queueOnFile();
  const hostile = task(uniqueName(), async () => raise(trapped({})), {
    retryOn: [TypeError],
    backoff: () => 0,
  });
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  // It cannot be told whether it is worth a retry: reported, and it is.
  expect(await ended(queue, await queue.enqueueTask(hostile))).toMatchObject({
    status: "failed",
    retryCount: 3,
  });
  expect(reports).toHaveLength(3);
});

test("a message of 5 MB is cut, and says so", async () => {
  const { queue, raw } = await queueOnFile();
  const loud = task(uniqueName(), async () => raise(new Error("é".repeat(5_000_000))), { maxRetries: 0 });
  await startedWorker(queue);
  const { id, error } = await ended(queue, await queue.enqueueTask(loud));
  expect(error?.message).toMatch(/^é{1000}/);
  expect(error?.message).toContain("more characters");
  expect(error?.message.length).toBeLessThan(100_000);
  expect(error?.stack?.length).toBeLessThan(100_000);
  const kept = raw.prepare(
    "select length(error_message) + length(error_stack) from dbq_attempts where task_id = ?",
  );
  expect(kept.pluck().get(id)).toBeLessThan(100_000);
});

const returned: [what: string, value: () => unknown, code?: string][] = [
  ["a getter that throws", () => Object.defineProperty({}, "x", { get: trap, enumerable: true })],
  ["a proxy that traps everything", () => trapped({})],
  ["a revoked proxy", revoked],
  ["a cycle", () => ({ error: cyclic() }), "DBQ_NOT_SERIALIZABLE"],
  ["ten thousand levels", () => nested(10_000), "DBQ_NOT_SERIALIZABLE"],
  ["101 levels", () => nested(101), "DBQ_NOT_SERIALIZABLE"],
  ["a toJSON that throws", () => hostileText, "DBQ_NOT_SERIALIZABLE"],
  // biome-ignore lint/suspicious/noThenProperty: what is tested is a thenable of somebody's own.
  ["a thenable that throws", () => ({ then: trap })],
  // biome-ignore lint/suspicious/noThenProperty: as above.
  ["a thenable that rejects with null", () => ({ then: (_: unknown, no: (e: unknown) => void) => no(null) })],
];

test.each(returned)("returns %s", async (_, value, code) => {
  const { queue } = await queueOnFile();
  const hostile = task(uniqueName("hostile"), () => value(), { maxRetries: 0 });
  const bystander = task(uniqueName("bystander"), async () => "unharmed");
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  const [bad, good] = await queue.enqueueTasks([[hostile], [bystander]]);
  const failed = await ended(queue, bad);
  expect(failed.status).toBe("failed");
  if (code !== undefined) expect(failed.error).toMatchObject({ code });
  expect(await ended(queue, good)).toMatchObject({ result: "unharmed" });
  expect(await ended(queue, await queue.enqueueTask(bystander))).toMatchObject({ result: "unharmed" });
  expect(reports).toEqual([]);
});

/** A promise with an idea of its own of what follows. */
const withThen = (then: unknown) => Object.assign(Promise.resolve(7), { then });

const followed: [what: string, value: () => unknown][] = [
  ["never calls back", () => withThen(() => undefined)],
  ["throws", () => withThen(trap)],
  ["is no function", () => withThen(1)],
  ["gives another value, twice", () => withThen((yes: (n: number) => void) => [yes(1), yes(2)])],
];

test.each(followed)(
  "returns a promise whose own then %s: what the promise holds is the result",
  async (_, value) => {
    const { queue } = await queueOnFile();
    const hostile = task(uniqueName("hostile"), () => value(), { maxRetries: 0 });
    await startedWorker(queue);
    expect(await ended(queue, await queue.enqueueTask(hostile))).toMatchObject({
      status: "completed",
      result: 7,
    });
  },
);

test("hooks that throw the same, in every place at once", async () => {
  const { queue } = await queueOnFile();
  const anything = () => raise(trapped(new Error("x")));
  const hostile = task(uniqueName("hostile"), async () => raise(null), {
    maxRetries: 1,
    backoff: () => anything(),
    retryOn: () => anything(),
    beforeRun: anything,
    onFailure: anything,
  });
  const worker = await startedWorker(queue);
  for (const event of ["started", "retrying", "failed"] as const) worker.on(event, anything);
  const reports = reportsOf(worker);
  const failed = await ended(queue, await queue.enqueueTask(hostile));
  expect(failed).toMatchObject({ status: "failed", retryCount: 1, error: { message: "null" } });
  const wheres = reports.map(({ where }) => where.replace(/ .*/, ""));
  expect(wheres).toEqual(expect.arrayContaining(["beforeRun", "onFailure", "retryOn", "backoff"]));
});

test("without an error listener, a hook that throws a trapped value is still only a warning", async () => {
  const { queue } = await queueOnFile();
  const hostile = task(uniqueName(), async () => "done", { beforeRun: () => raise(trapped({})) });
  await startedWorker(queue);
  const warned = new Promise<string>((resolve) => {
    process.once("warning", ({ message }) => resolve(message));
  });
  expect(await ended(queue, await queue.enqueueTask(hostile))).toMatchObject({ status: "completed" });
  expect(await warned).toContain("beforeRun");
});
