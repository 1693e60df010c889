/** The flags of Node for the processes of tasks. */
import { expect, test } from "vitest";
import { childFlags } from "../../../src/features/executors/flags.ts";

test.each([
  ["loaders and conditions", ["--import", "tsx", "-r", "dotenv/config", "-C", "development"]],
  ["other flags with a value", ["--max-http-header-size=9999", "--enable-source-maps", "--no-warnings"]],
])("a process has %s of its worker", (_, flags) => {
  expect(childFlags(flags, undefined)).toEqual(flags);
});

test.each([
  ["the debugger", ["--inspect", "--inspect-brk=9229", "--inspect-port", "9230"]],
  ["the watch mode", ["--watch", "--watch-path=src", "--watch-path", "src"]],
  ["the program", ["-e", "1 + 1", "--eval", "2", "-p", "3", "-pe", "4", "--input-type=module"]],
  ["the test runner", ["--test", "--test-reporter=spec"]],
])("a process has no flag of its worker for %s", (_, flags) => {
  expect(childFlags([...flags, "--no-warnings"], undefined)).toEqual(["--no-warnings"]);
});

test("the limit of a task's memory comes last, since the last one counts", () => {
  expect(childFlags(["--max-old-space-size=64"], 536_870_912)).toEqual([
    "--max-old-space-size=64",
    "--max-old-space-size=512",
  ]);
});
