/** beforeRun, onSuccess, onFailure: when they run, what they see, and that they change nothing. */
import { expect, test, vi } from "vitest";
import { type Task, type TaskOptions, task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { ended, next, queueOnFile, raise, reportsOf } from "./setup.ts";
import "../support/fakeable-timers.ts";

const seenOf = ({ id, status, retryCount, result, error }: Task) => ({
  id,
  status,
  retryCount,
  result,
  error: error?.message,
});

test("beforeRun, the handler and onSuccess run in this order before the task is completed", async () => {
  const { queue } = await queueOnFile();
  const order: unknown[] = [];
  const good = task(
    uniqueName(),
    async (n: number) => {
      order.push("handler");
      return { n };
    },
    {
      beforeRun: async (seen) => {
        await new Promise((resolve) => setImmediate(resolve));
        order.push(["beforeRun", seenOf(seen), seen.args]);
      },
      onSuccess: async (seen, result) => {
        await new Promise((resolve) => setImmediate(resolve));
        order.push(["onSuccess", seenOf(seen), result]);
      },
      onFailure: () => void order.push("onFailure"),
    },
  );
  const worker = await startedWorker(queue);
  worker.on("completed", () => order.push("completed"));
  const completed = next(worker, "completed");
  const id = await queue.enqueueTask(good, 7);
  await completed;
  const common = { id, retryCount: 0, error: undefined };
  expect(order).toEqual([
    ["beforeRun", { ...common, status: "running", result: undefined }, [7]],
    "handler",
    ["onSuccess", { ...common, status: "completed", result: { n: 7 } }, { n: 7 }],
    "completed",
  ]);
});

test("onFailure is called for each failed attempt, with a status that tells whether it will be retried", async () => {
  const { queue } = await queueOnFile();
  const error = new Error("no");
  const order: unknown[] = [];
  const bad = task(
    uniqueName(),
    async (): Promise<string> => {
      order.push("handler");
      throw error;
    },
    {
      maxRetries: 1,
      backoff: () => 0,
      beforeRun: () => void order.push("beforeRun"),
      onSuccess: () => void order.push("onSuccess"),
      onFailure: (seen, thrown) => void order.push([seenOf(seen), thrown === error]),
    },
  );
  await startedWorker(queue);
  const { id } = await ended(queue, await queue.enqueueTask(bad));
  const common = { id, retryCount: 1, result: undefined, error: "no" };
  expect(order).toEqual([
    "beforeRun",
    "handler",
    [{ ...common, status: "scheduled" }, true],
    "beforeRun",
    "handler",
    [{ ...common, status: "failed" }, true],
  ]);
});

test("onFailure gets the status failed for an error that is not worth a retry", async () => {
  const { queue } = await queueOnFile();
  const seen: string[] = [];
  const bad = task(uniqueName(), async () => raise(new Error("no")), {
    retryOn: TypeError,
    onFailure: ({ status }) => void seen.push(status),
  });
  await startedWorker(queue);
  await ended(queue, await queue.enqueueTask(bad));
  expect(seen).toEqual(["failed"]);
});

type Hook = "beforeRun" | "onSuccess" | "onFailure";
type Ends = readonly [way: string, hook: () => unknown];

const error = new Error("in the hook");
const hooks: Hook[] = ["beforeRun", "onSuccess", "onFailure"];
const endings: Ends[] = [
  ["throws", () => raise(error)],
  ["rejects", () => Promise.reject(error)],
  ["gives a thenable that throws", () => ({ then: () => raise(error) })],
];

test.each(hooks.flatMap((hook) => endings.map(([way, end]) => ({ hook, way, end }))))(
  "a hook $hook that $way is reported and changes nothing",
  async ({ hook, end }) => {
    const { queue } = await queueOnFile();
    const fails = hook === "onFailure";
    const options: TaskOptions<string> = { maxRetries: 0, [hook]: end };
    const run = async () => (fails ? raise(new Error("of the handler")) : "done");
    const hooked = task(uniqueName(), run, options);
    const worker = await startedWorker(queue);
    const reports = reportsOf(worker);
    const done = await ended(queue, await queue.enqueueTask(hooked));
    if (fails) expect(done).toMatchObject({ status: "failed", error: { message: "of the handler" } });
    else expect(done).toMatchObject({ status: "completed", result: "done" });
    expect(reports).toEqual([{ error, where: expect.stringContaining(`${hook} of task "${done.func}"`) }]);
  },
);

test.each(hooks)(
  "a hook %s that never settles is reported after 30 s, and its task goes on",
  async (hook) => {
    const { queue } = await queueOnFile();
    const entered = deferred();
    const fails = hook === "onFailure";
    const hang = () => {
      entered.resolve();
      return new Promise(() => undefined);
    };
    const options: TaskOptions<string> = { maxRetries: 0, [hook]: hang };
    const hooked = task(uniqueName(), async () => (fails ? raise(new Error("no")) : "done"), options);
    const worker = await startedWorker(queue);
    const reports = reportsOf(worker);
    // The test does not wait for the hook's 30 s: it advances the clock of that timer.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const id = await queue.enqueueTask(hooked);
      await entered.promise;
      vi.advanceTimersByTime(31_000);
      vi.useRealTimers();
      expect(await ended(queue, id)).toMatchObject({ status: fails ? "failed" : "completed" });
    } finally {
      vi.useRealTimers();
    }
    expect(reports).toEqual([
      { error: expect.any(Error), where: expect.stringContaining(`${hook} of task`) },
    ]);
  },
);
