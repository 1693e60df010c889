/** Faults of the staged drain. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const drains = (test: string) => ({
  file: "test/features/drain/drain.test.ts",
  test: `a drain on SQLite > ${test}`,
});

const store = (test: string) => ({
  file: "test/conformance/sqlite.test.ts",
  test: `'SQLite, a file' > drains > ${test}`,
});

const model = {
  file: "test/model/drains.test.ts",
  test: "each staged task arrives at the broker at least once, ends once, and comes back from a dead drain",
};

export const drainFaults: readonly Mutant[] = [
  {
    name: "let-go-without-an-answer",
    why: "The broker was away, and the tasks are lost.",
    in: "Pump.#sendPart",
    find: 'if (answer === undefined) return { held, as: "unsent" };',
    replace: 'if (answer === undefined) return { held, as: "sent", messageId: message.id };',
    caughtBy: drains(
      "a broker that accepts and dies before it answers gets the same ids again, and no retry is charged",
    ),
  },
  {
    name: "claims-without-end",
    why: "While the broker does not answer, a drain claims the whole table into its memory.",
    in: "Pump.#mayClaim",
    find: "this.#sends + this.#claimed.length < this.#mostBatches",
    replace: "this.#sends < mostSends + 3",
    caughtBy: drains(
      "two batches are on their way, a server's third one is claimed, and a stop without grace hands all back",
    ),
  },
  {
    name: "any-answer-will-do",
    why: "A target that answers nonsense loses tasks.",
    in: "checked",
    find: "Array.isArray(answers) && answers.length === count && answers.every(isAnswer)",
    replace: "Array.isArray(answers)",
    caughtBy: drains("an answer that is none: nothing is let go, and all is sent again"),
  },
  {
    name: "an-outage-charges-retries",
    why: "A broker that is away for a minute fails all tasks.",
    in: "Pump.#outcomeOf",
    find: 'return { ...version, kind: "interrupted" };',
    replace: 'return { ...version, kind: "retry", ...failureOf("failed", describeThrown(end)), delay: 0 };',
    caughtBy: drains(
      "a broker that accepts and dies before it answers gets the same ids again, and no retry is charged",
    ),
  },
  {
    name: "the-death-of-a-drain-charges",
    why: "A task without retries is never sent, because a drain was killed beside it.",
    in: "MaintenanceOperations.#chargeCrashes",
    find: "!isOfDrain(task.workerId)",
    replace: "true",
    caughtBy: drains(
      "a drain that was declared dead sends what it has in hand, lets nothing go, and begins again",
    ),
  },
  {
    name: "an-id-for-each-claim",
    why: "A resend is another message: BullMQ runs it twice.",
    in: "Pump.#sendAll",
    find: "messageId(origin, id, retries.get(id) ?? 0)",
    replace: "messageId(origin, id, this.#sends)",
    caughtBy: drains(
      "it sends the tasks of its queue, of functions that nobody here knows, and completes them",
    ),
  },
  {
    name: "a-manual-retry-keeps-the-id",
    why: "BullMQ drops the message of a task that somebody retried by hand.",
    in: "Pump.#sendAll",
    find: "retries.get(id) ?? 0",
    replace: "0",
    caughtBy: drains(
      "a task that is retried by hand is sent under a new id; one that nobody retried never is",
    ),
  },
  {
    name: "two-carry",
    why: "All drains of a queue carry it at once.",
    in: "DrainOperations.take",
    find: "if (holder.lives) return false;",
    replace: "",
    caughtBy: drains("of three drains of a queue, one carries; when it stops, the next one takes over"),
  },
  {
    name: "keep-deletes-everybodys",
    why: "The results of other queues are deleted.",
    in: "DrainOperations.forgettable",
    find: "found.filter(([, , matches]) => Number(matches) === 1)",
    replace: "found",
    caughtBy: drains("after keep, what this queue sent is deleted, and what others completed stays"),
  },
  {
    name: "sent-tasks-are-rescued",
    why: "With results, each task is sent again after a lease, under an id that is dropped: its result never comes.",
    in: "Pump.#withoutHandedOver",
    find: "if (sent.length > 0) await this.#host.store.drains.handOver(sent, kept.add);",
    replace: "",
    caughtBy: drains("with results: true a sent task runs until settleDrained brings its result"),
  },
  {
    name: "an-older-message-settles",
    why: "The late result of the first try ends the second one.",
    in: "DrainOperations.settle",
    find: "retries !== undefined && ((yield* retriesOf()).get(id) ?? 0) !== retries",
    replace: "false",
    caughtBy: drains("the result of an older message does not end a task that was retried by hand since"),
  },
  {
    name: "a-refusal-stops-no-group",
    why: "What depends on a refused message arrives without it.",
    in: "GroupGate.admits",
    find: "if (this.#taken.has(group)) return false;",
    replace: "",
    caughtBy: drains("a group stops at a refused task until that is retried"),
  },
  {
    name: "no-pause",
    why: "A broker that is full gets the same messages thousands of times a second.",
    in: "Pump.#mayClaim",
    find: 'this.#phase !== "carrying" || this.#sender.isPaused',
    replace: 'this.#phase !== "carrying"',
    caughtBy: drains(
      "while a broker is full, the drain pauses longer each time, and the table keeps what it does not take",
    ),
  },
  {
    name: "two-drains-take-one-queue",
    why: "Two drains that start at once both carry, and each message is sent twice.",
    in: "DrainOperations.take",
    find: "holder.lives",
    replace: "false",
    caughtBy: store("of several workers that take a queue at once, one drains it"),
  },
  {
    name: "results-of-an-earlier-message",
    why: "A late result of a message that was sent before a retry by hand ends the task as if it were the new one's.",
    in: "DrainOperations.settle",
    find: "retries !== undefined",
    replace: "retries === undefined",
    caughtBy: store("settle leaves a task that no drain has, and one that was retried by hand since"),
  },
  {
    name: "handed-back-counts-as-sent",
    why: "What a stop or an outage has cut off is let go, and never arrives.",
    in: "Pump.#outcomeOf",
    find: 'return { ...version, kind: "interrupted" };',
    replace: 'return { ...version, kind: "completed", result: null };',
    caughtBy: model,
  },
  {
    name: "order-is-forgotten-in-the-claim",
    why: "The tasks of a group are sent together, and a later one goes on when an earlier one was refused.",
    in: "Pump.#settleAndClaim",
    find: "options.ordered",
    replace: "!options.ordered",
    caughtBy: model,
  },
  {
    name: "a-dead-drains-turn-never-ends",
    why: "After the death of a drain nobody carries its queue any more.",
    in: "DrainOperations.take",
    find: "if (holder.lives) return false;",
    replace: "if (holder.workerId !== null) return false;",
    caughtBy: model,
  },
];
