/** Faults of the checks of arguments and results by schemas. */
import type { Mutant } from "./mutant.ts";

const atEnqueue = (test: string) => ({ file: "test/queue/validation.test.ts", test });
const atRun = (test: string) => ({ file: "test/worker/validation.test.ts", test });
const failsForGood =
  "a row with invalid arguments fails for good, with its issues, and its function is not called";

export const validationFaults: readonly Mutant[] = [
  {
    name: "arguments-are-not-checked-at-enqueue",
    why: "A task with invalid arguments is written, and the caller hears nothing.",
    in: "prepare",
    find: "isWhole && definition.checks",
    replace: "false",
    caughtBy: atEnqueue(
      "with a schema that is synchronous > invalid arguments are refused, and nothing is written",
    ),
  },
  {
    name: "one-invalid-entry-of-many-is-written",
    why: "A call of enqueueTasks writes tasks before an asynchronous schema has looked at all of them.",
    in: "CoreQueue.#enqueueAll",
    find: "checked(prepared, false)",
    replace: "undefined",
    caughtBy: atEnqueue(
      "with a schema that is asynchronous > one invalid entry of many keeps all from being written",
    ),
  },
  {
    name: "only-the-first-entry-of-many-is-awaited",
    why: "A call of enqueueTasks writes tasks whose arguments an asynchronous schema refuses, beside valid ones.",
    in: "allChecked",
    find: "await checking;",
    replace: "return await (checking as Promise<undefined>);",
    caughtBy: atEnqueue(
      "with a schema that is asynchronous > one invalid entry of many keeps all from being written",
    ),
  },
  {
    name: "a-change-is-checked-against-an-old-row",
    why: "Two changes of a task's arguments, each of which is valid, make invalid ones together.",
    in: "editAsRead",
    find: "generationId ?? readAt",
    replace: "generationId",
    caughtBy: atEnqueue("a change is checked again if somebody else has changed the task meanwhile"),
  },
  {
    name: "arguments-are-not-checked-at-the-run",
    why: "A row that another program wrote reaches the function, whatever is in it, and without defaults.",
    in: "checkedArguments",
    find: "args === undefined",
    replace: "args === undefined || given",
    caughtBy: atRun(failsForGood),
  },
  {
    name: "invalid-arguments-are-retried",
    why: "A task whose arguments are invalid waits for retries that cannot help.",
    in: "checkedArguments",
    find: "throw new FinalFailure(error.message, { cause: error });",
    replace: "throw error;",
    caughtBy: atRun(failsForGood),
  },
  {
    name: "the-issues-are-not-stored",
    why: "The error of the task does not say what is wrong with the arguments.",
    in: "describeOne",
    find: 'code?.startsWith("DBQ_INVALID_")',
    replace: 'code?.startsWith("DBQ_ISSUES_")',
    caughtBy: atRun(failsForGood),
  },
  {
    name: "a-late-check-calls-the-function-of-an-ended-attempt",
    why: "A function runs although its task was cancelled, or beside its next attempt.",
    in: "checkedArguments",
    find: "if (checking instanceof Promise) execution.current.signal.throwIfAborted();",
    replace: "",
    caughtBy: atRun("a function whose attempt has ended while its schema looked is not called"),
  },
  {
    name: "a-result-is-not-checked",
    why: "A result that does not fit its schema is stored as it is.",
    in: "callChecked",
    find: "checks.result ? checks.result(returned) : returned",
    replace: "returned",
    caughtBy: atRun("a result is stored as its schema makes it, and the hook onSuccess gets that"),
  },
];
