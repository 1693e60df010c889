/** Faults of the test kit. */
import type { Mutant } from "./mutant.ts";

const kit = (test: string) => ({ file: "test/features/testing/kit.test.ts", test });

export const testingFaults: readonly Mutant[] = [
  {
    name: "kit-advances-in-one-step",
    why: "What is due on the way is done at the end: schedules make up for their slots, and all times are wrong.",
    in: "Kit.#advance",
    find: "Math.min(next ?? left, left)",
    replace: "Math.max(Math.min(next ?? 0, 0), left)",
    caughtBy: kit("a schedule fires at each of its slots, in the order of the times"),
  },
  {
    name: "kit-begins-more-than-max",
    why: "A drain of one attempt runs all that is pending.",
    in: "TestRunner.#settleAndClaim",
    find: "claim.limit = Math.min(claim.limit, this.#left)",
    replace: "void claim",
    caughtBy: kit("a drain begins no more attempts than `max`"),
  },
  {
    name: "kit-goes-on-after-a-failure",
    why: "A drain that rethrows runs the tasks behind the one that failed, too.",
    in: "TestRunner.#settleAndClaim",
    find: "if (stopAtFailure && isFailure(outcome)) this.#left = 0;",
    replace: "",
    caughtBy: kit("a drain that rethrows rejects with the error itself, and begins nothing after it"),
  },
  {
    name: "kit-loses-the-error",
    why: "A test gets a copy of its own error, without its class and fields.",
    in: "TestRunner.#settled",
    find: "isThrown ? threw.error : toError(stored)",
    replace: "toError(stored)",
    caughtBy: kit("a drain tells of failures, cancels and snoozes, with the errors themselves"),
  },
  {
    name: "kit-crash-hands-back",
    why: "A worker that dies gives its tasks back at once, as no process does that is killed.",
    in: "TestRunner.stop",
    find: "if (!this.#isDead) await this.#internals.store.unregister(this.id)",
    replace: "await this.#internals.store.unregister(this.id)",
    caughtBy: kit(
      "a crash leaves a task running until the lease of its worker has run out; then it runs again",
    ),
  },
  {
    name: "kit-dead-worker-writes",
    why: "The function of a worker that has died completes its task.",
    in: "TestRunner.#store",
    find: "if (this.#isDead) throw new NotInTaskError();",
    replace: "",
    caughtBy: kit("what a crashed function does later in its task's name is refused"),
  },
  {
    name: "kit-runs-others-too",
    why: "A test of one attempt runs other tasks of its function.",
    in: "Kit.#attempt",
    find: "runner.queueNames = [queueName]",
    replace: "runner.queueNames = [queueName, record.queueName]",
    caughtBy: kit("one attempt runs alone: other tasks of its function stay pending"),
  },
  {
    name: "kit-timeout-ends-late",
    why: "An attempt that has timed out ends at the time at which the advance does.",
    in: "Kit.#settle",
    find: "await runner.overdue()",
    replace: "void runner",
    caughtBy: kit(
      "the timeout of a running function passes with the clock, and its attempt ends at that time",
    ),
  },
  {
    name: "a-step-of-the-clock-waits-for-no-drain",
    why: "A drain that was begun before an advance hangs: the timeout of its function counts from after the step.",
    in: "Kit.#settle",
    find: "await this.#begun();",
    replace: "",
    caughtBy: {
      file: "test/features/testing/kit.test.ts",
      test: "a step of the clock waits for what a drain, or a run, has yet to begin",
    },
    hangs: true,
  },
];
