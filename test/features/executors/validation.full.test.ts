/** The checks of arguments and results hold where the function runs: in a thread, and in a process. */
import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { started } from "./setup.ts";
import * as tasks from "./tasks.ts";
import { places } from "./tasks.ts";

test.each(places)("in a %s the function gets what its schema makes, and so does its task", async (runIn) => {
  const { run } = await started();
  const done = await run(tasks.yearOf[runIn], "2026-11-27");
  expect(done).toMatchObject({ status: "completed", args: ["2026-11-27"] });
  expect(done.result).toEqual({ year: 2026 });
});

test.each(places)("in a %s a row with invalid arguments fails for good, with its issues", async (runIn) => {
  const { run } = await started();
  // A program without the schema, such as an older one.
  const failed = await run(remoteTask(tasks.yearOf[runIn].taskName), "no date");
  expect(failed).toMatchObject({ status: "failed", retryCount: 0 });
  const issues = [{ message: "expected a date", path: [] }];
  expect(failed.error).toMatchObject({
    name: "InvalidArgumentsError",
    code: "DBQ_INVALID_ARGUMENTS",
    issues,
  });
  expect((await run(tasks.yearOf[runIn], "2024-01-01")).result).toEqual({ year: 2024 });
});

test.each(places)("in a %s a result that does not fit is retried, and keeps its issues", async (runIn) => {
  const { run } = await started();
  const failed = await run(tasks.yearOf[runIn], "2027-01-01");
  expect(failed).toMatchObject({ status: "failed", retryCount: 1, result: undefined });
  const issues = [{ message: "odd", path: ["year"] }];
  expect(failed.error).toMatchObject({ name: "InvalidResultError", code: "DBQ_INVALID_RESULT", issues });
});
