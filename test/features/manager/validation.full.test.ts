/** An agent checks what a Manager gives it, and the Manager stores the issues. */
import { expect, test } from "vitest";
import { remoteTask, task } from "../../../src/index.ts";
import { uniqueName } from "../../support/queue.ts";
import { type Charge, charge, schemaOf } from "../../support/schemas.ts";
import { ended } from "../../worker/setup.ts";
import * as inChildren from "../executors/tasks.ts";
import { onFile, startedAgent, startedManager, tokenFor } from "./setup.ts";

const invalid = { amount: "5" };
const issues = [{ message: "expected a number", path: ["amount"] }];

test("an agent's function gets what its schema makes, and a row with invalid arguments fails for good", async () => {
  const queue = await onFile()();
  const fn = task(uniqueName(), (given: Charge) => given, { input: charge });
  const year = inChildren.yearOf.thread;
  const token = await tokenFor(queue, [fn.taskName, year.taskName]);
  await startedAgent([await startedManager(queue)], { token, tasks: [fn, year] });
  const done = await ended(queue, await queue.enqueueTask(fn, { amount: 5 }));
  expect(done.result).toEqual({ amount: 5, currency: "EUR" });
  const failed = await ended(queue, await queue.enqueueTask(remoteTask(fn.taskName), invalid));
  expect(failed).toMatchObject({ status: "failed", retryCount: 0 });
  expect(failed.error).toMatchObject({
    name: "InvalidArgumentsError",
    code: "DBQ_INVALID_ARGUMENTS",
    issues,
  });
  const inThread = await ended(queue, await queue.enqueueTask(remoteTask(year.taskName), "no date"));
  expect(inThread).toMatchObject({
    status: "failed",
    retryCount: 0,
    error: { code: "DBQ_INVALID_ARGUMENTS" },
  });
});

test("an agent retries an attempt whose result does not fit", async () => {
  const queue = await onFile()();
  const output = schemaOf<number, number>((value) =>
    value === 2 ? { value: 2 } : { issues: [{ message: "expected 2", path: [] }] },
  );
  let calls = 0;
  const fn = task(uniqueName(), () => ++calls, { output, maxRetries: 1, backoff: () => 1 });
  const token = await tokenFor(queue, [fn.taskName]);
  await startedAgent([await startedManager(queue)], { token, tasks: [fn] });
  expect(await ended(queue, await queue.enqueueTask(fn))).toMatchObject({ result: 2, retryCount: 1 });
});
