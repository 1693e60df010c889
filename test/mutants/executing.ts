/** Faults of tasks in threads and processes. */
import type { Mutant } from "./mutant.ts";

const inFile = (file: string, test: string) => ({ file: `test/features/executors/${file}.test.ts`, test });
const crossing = (test: string) => inFile("executors.full", `in a process > ${test}`);
const ending = (test: string) => inFile("forced-ends.full", `of a process > ${test}`);
const hostile = (test: string) => inFile("endings.full", `of a process > ${test}`);

export const executingFaults: readonly Mutant[] = [
  {
    name: "grandchildren-stay",
    why: "A browser that a task has started stays when its process is killed, and fills the machine.",
    in: "signalGroup",
    find: "hasGroups ? -pid : pid",
    replace: "pid",
    caughtBy: ending("what the process has started ends with it"),
  },
  {
    name: "child-outlives-its-worker",
    why: "A process goes on after its worker was killed, beside the process that runs its task again.",
    find: '`life.on("close",`',
    replace: '`life.on("never",`',
    caughtBy: inFile(
      "forced-ends.full",
      "a process whose worker was killed ends within a second, with what it has started, even while it blocks",
    ),
  },
  {
    name: "stop-hands-back-what-still-runs",
    why: "A stopped worker hands a task back while its process still runs it: it runs twice at once.",
    in: "RunningAttempt.interrupt",
    find: "if (isEnding) $later; else handBack();",
    replace: "handBack();",
    caughtBy: ending("a stop hands the task back without a charge, when its process has ended"),
  },
  {
    name: "sigterm-is-all",
    why: "A process that ignores SIGTERM keeps its slot for half a minute.",
    in: "Child.end",
    find: "this.#force = setTimeout(() => this.#transport.kill(), forceAfterMs);",
    replace: "",
    caughtBy: ending("SIGKILL ends a process that ignores SIGTERM, and the error has the end of its stderr"),
    hangs: true,
  },
  {
    name: "timeout-says-nothing-of-the-process",
    why: "The error of a timeout does not tell what the process wrote before it was killed.",
    in: "RunningAttempt.#timeoutBy",
    find: "Object.assign(timedOut, $ended)",
    replace: "timedOut",
    caughtBy: ending("a timeout ends a function that blocks, and its error tells how"),
  },
  {
    name: "next-task-pays-for-an-exception",
    why: "An exception that one task has left fails the next one, which was never called.",
    in: "Child.#onEnd",
    find: "!this.#current.began && this.#current.number > 1",
    replace: "this.#current.number < 0",
    caughtBy: ending("an exception between two tasks is charged to none of them"),
  },
  {
    name: "any-answer-counts",
    why: "An answer to an earlier call becomes the result of the current task.",
    in: "Child.#onMessage",
    find: "if (message.call !== call.number) return;",
    replace: "",
    caughtBy: hostile("a function that writes an answer to another call to its channel harms nobody else"),
  },
  {
    name: "garbage-is-ignored",
    why: "After a line that is no message, half of the next one may be believed.",
    in: "startProcess",
    find: 'try { reader.add(chunk); } catch { kill("SIGKILL"); }',
    replace: "try { reader.add(chunk); } catch { return; }",
    caughtBy: hostile("a function that writes no message to its channel harms nobody else"),
  },
  {
    name: "more-children-than-slots",
    why: "A worker with tasks of many modules has a process for each of them, and no memory left.",
    in: "Children.#start",
    find: "this.#busy + this.#idle.length >= this.#settings.concurrency",
    replace: "this.#busy + this.#idle.length < 0",
    caughtBy: inFile("executors.full", "a child of another module makes room when all slots have one"),
  },
  {
    name: "child-is-never-replaced",
    why: "What leaks in a function grows until the process has no memory.",
    in: "Children.#release",
    find: "child.isUsable && child.calls < this.#settings.maxTasksPerChild",
    replace: "child.isUsable",
    caughtBy: crossing("a child is replaced after maxTasksPerChild tasks"),
  },
  {
    name: "retry-on-sees-no-class",
    why: "With retryOn: [Temporary] no task of a process is ever tried again.",
    in: "Call.#threw",
    find: "retry === undefined",
    replace: "retry !== null",
    caughtBy: crossing("retryOn judges an error by its class"),
    hangs: true,
  },
  {
    name: "child-opens-the-database",
    why: "A thread that has opened a database is terminated, and the whole worker crashes.",
    in: "openQueue",
    find: "refuseInChild();",
    replace: "",
    caughtBy: crossing("no queue is opened there"),
  },
  {
    name: "unstorable-result-is-retried",
    why: "A result that no retry changes runs the function three times more.",
    in: "RunningAttempt.#outcomeOfCall",
    find: 'this.#failed({ error: error.cause, as: "failed", final: true })',
    replace: 'this.#failed({ error: error.cause, as: "failed", final: false })',
    caughtBy: crossing("a result that cannot be stored fails the task for good"),
  },
];
