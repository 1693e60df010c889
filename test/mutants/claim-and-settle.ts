/** Faults of claiming and settling: what keeps a task with the one worker that holds its generation. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

/** A case of the conformance suite, on a file. */
const onFile = (test: string) => ({
  file: "test/conformance/sqlite.test.ts",
  test: `'SQLite, a file' > ${test}`,
});

const stale = (kind: string) =>
  onFile(`settle > ${kind} of a stale generation changes nothing and records no attempt`);

/** A state change that does not name the generation. */
const unfenced = `((set: (p: Params) => SQL, and: SQL = sql.raw("")): Statement =>
  (p, { afterTable, afterSet } = oneRow) => sql\`
    update dbq_tasks \${afterTable} set generation_id = generation_id + 1, \${set(p)} \${afterSet}
    where dbq_tasks.id = \${p.id} \${and}\`)(`;

export const claimAndSettle: readonly Mutant[] = [
  {
    name: "complete-ignores-generation",
    why: "A worker that was taken for dead overwrites the result of the one that ran its task again.",
    in: "statements.complete",
    find: "change($$$args)",
    replace: `${unfenced}$$$args)`,
    caughtBy: stale("completed"),
  },
  {
    name: "finish-ignores-generation",
    why: "A stale attempt fails or cancels a task that another worker runs or has completed.",
    in: "statements.finish",
    find: "change($$$args)",
    replace: `${unfenced}$$$args)`,
    caughtBy: stale("failed"),
  },
  {
    name: "release-ignores-generation",
    why: "A stale attempt makes a task pending again that somebody else has finished: it runs twice.",
    in: "statements.release",
    find: "change($$$args)",
    replace: `${unfenced}$$$args)`,
    caughtBy: stale("retry"),
  },
  {
    name: "claim-ignores-generation",
    why: "A task that was claimed and handed back since it was seen is run under a generation that it no longer has.",
    in: "statements.claim",
    find: 'change($set, still("pending"))',
    replace: `${unfenced}$set, still("pending"))`,
    caughtBy: {
      file: "test/stores/sql/moved-in-between.test.ts",
      test: "a candidate that was claimed and handed back meanwhile is not claimed under its old generation",
    },
  },
  {
    name: "claim-ignores-status",
    why: "A task that was cancelled between the look and the claim runs all the same.",
    in: "statements.claim",
    find: 'still("pending")',
    replace: "sql``",
    caughtBy: {
      file: "test/stores/sql/moved-in-between.test.ts",
      test: "a candidate that was cancelled meanwhile is not claimed",
    },
  },
  {
    name: "promote-ignores-generation",
    why: "A task that was run and put off again since it was seen runs before its new time.",
    in: "statements.promote",
    find: 'change($set, still("scheduled"))',
    replace: `${unfenced}$set, still("scheduled"))`,
    caughtBy: {
      file: "test/stores/sql/moved-in-between.test.ts",
      test: "a due task that was delayed again meanwhile is not promoted",
    },
  },
  {
    name: "reset-ignores-generation",
    why: "An operator's retry of a finished task hits it while a worker runs it, and it runs twice.",
    in: "statements.reset",
    find: "change($$$args)",
    replace: `${unfenced}$$$args)`,
    caughtBy: {
      file: "test/stores/sql/moved-in-between.test.ts",
      test: "a retry of a task that started meanwhile reads it again and leaves it running",
    },
  },
  {
    name: "cancel-of-a-moved-task-is-taken-for-done",
    why: "An operator is told that a task is cancelled which a worker has just claimed, and which runs on.",
    in: "operations.cancel",
    find: 'if (!(yield* finish(task, "cancelled", null, error))) return "moved";',
    replace: 'yield* finish(task, "cancelled", null, error);',
    caughtBy: {
      file: "test/stores/sql/moved-in-between.test.ts",
      test: "a cancel of a task that changed meanwhile reads it again and cancels it",
    },
  },
  {
    name: "insert-does-not-look-for-the-holder-again",
    why: "Of two enqueues with one unique key at the same moment, one fails instead of giving the other's id.",
    in: "operations.insertOne",
    find: "round < 10",
    replace: "round < 1",
    caughtBy: {
      file: "test/stores/sql/moved-in-between.test.ts",
      test: "an insert whose key was taken meanwhile returns the holder's id",
    },
  },
  {
    name: "claim-ignores-row-count",
    why: "Of two workers that see a task, the one that loses the race runs it too.",
    in: "claimOperations.claim",
    find: "won[i]",
    replace: "won.length > i",
    caughtBy: onFile("claim > a row that cannot be claimed does not block other tasks or the next claim"),
  },
  {
    name: "completions-ignore-row-count",
    why: "A worker believes that its late result was accepted, and tells of a completion that never was.",
    in: "claimOperations.settle",
    find: "return yield* changes(s.complete, outcomes);",
    replace: "return (yield* changes(s.complete, outcomes)).map(() => true);",
    caughtBy: stale("completed"),
  },
  {
    name: "finish-ignores-row-count",
    why: "A failure that did not count is recorded as an attempt of a task that somebody else runs.",
    in: "claimOperations.settle",
    find: "accepted[i] === true",
    replace: "accepted[i] === true || query === s.finish",
    caughtBy: stale("failed"),
  },
  {
    name: "release-ignores-row-count",
    why: "A retry that did not count is recorded as an attempt of a task that somebody else runs.",
    in: "claimOperations.settle",
    find: "accepted[i] === true",
    replace: "accepted[i] === true || query === s.release",
    caughtBy: stale("retry"),
  },
  {
    name: "complete-within-ignores-row-count",
    why: "An app commits its rows for a task that another worker has completed already: its effect happens twice.",
    in: "RunningAttempt.#completeWithin",
    find: "!accepted",
    replace: "accepted === undefined",
    caughtBy: {
      file: "test/worker/complete-within.test.ts",
      test: "a second completion finds the task gone",
    },
  },
  {
    name: "settle-within-ignores-row-count",
    why: "A completion inside of a transaction is reported as accepted whoever holds the task.",
    in: "claimOperations.settleOne",
    find: "return (yield* settle([outcome]))[0] === true;",
    replace: "return (yield* settle([outcome])).length > 0;",
    caughtBy: onFile(
      "transaction and within > a settle of a stale generation changes nothing, and the transaction continues",
    ),
  },
  {
    name: "claim-ignores-wait-until",
    why: "A row that another program inserts for tomorrow runs now.",
    in: "probes.probe",
    find: "`and (wait_until is null or wait_until <= ${d.now(p)})`",
    replace: "",
    caughtBy: onFile("raw SQL > a pending row with a wait_until in the future is claimed when it is due"),
  },
  {
    name: "claim-ignores-priority",
    why: "Urgent tasks wait behind the whole backlog.",
    in: "probes",
    find: "`order by ${order} ${d.atMost(p.limit)}`",
    replace: "`order by id ${d.atMost(p.limit)}`",
    caughtBy: onFile(
      "claim > a claim takes the highest priority first, then the oldest task, up to its limit",
    ),
  },
  {
    name: "claim-by-an-unregistered-worker",
    why: "A worker whose row others have deleted claims on, and nobody finds its tasks when it dies.",
    in: "claimOperations.settleAndClaim",
    find: "...none, registered: false",
    replace: "...none, claimed: yield* claim(seen ?? [], request.workerId, 1)",
    caughtBy: onFile(
      "claim > an unregistered worker can settle, claims nothing, and learns that it is not registered",
    ),
  },
  {
    name: "claim-never-says-more",
    why: "A worker runs one batch, then nothing until the next poll, with a backlog waiting.",
    in: "claimOperations.settleAndClaim",
    find: "read.length === request.limit || won.length < read.length",
    replace: "read.length > request.limit",
    caughtBy: onFile("claim > a claim reports whether more tasks may be waiting"),
  },
  {
    name: "retry-is-not-charged",
    why: "A task that always fails is tried for ever.",
    in: "claimOperations.changeBy",
    find: "charge: 1",
    replace: "charge: 0",
    caughtBy: onFile("settle > retry is accepted once, and the row shows it"),
  },
  {
    name: "snooze-is-charged",
    why: "A task that waits for its turn by snoozing fails after three times.",
    in: "claimOperations.snoozed.charge",
    find: "charge: 0",
    replace: "charge: 1",
    caughtBy: onFile("settle > a snooze and a hand-back keep the last error and do not charge a retry"),
  },
  {
    name: "interruption-is-charged",
    why: "Each deployment costs the running tasks one of their retries.",
    in: "claimOperations.interrupted.charge",
    find: "charge: 0",
    replace: "charge: 1",
    caughtBy: {
      file: "test/worker/stop.test.ts",
      test: "after its grace what still runs is handed back, uncharged, and another worker runs it",
    },
  },
  {
    name: "snooze-forgets-the-error",
    why: "Why a task failed before it snoozed is not to be found any more.",
    in: "statements.release",
    find: "`error = coalesce(${d.json(p.error)}, error)`",
    replace: "`error = ${d.json(p.error)}`",
    caughtBy: onFile("settle > a snooze and a hand-back keep the last error and do not charge a retry"),
  },
  {
    name: "completed-task-keeps-its-error",
    why: "A task that completed at the second try still shows the error of the first.",
    in: "statements.complete",
    find: "`result = ${d.json(p.result)}, error = null,`",
    replace: "`result = ${d.json(p.result)},`",
    caughtBy: onFile(
      "settle > a task that fails, is retried and completes keeps its retry count and loses its error",
    ),
  },
  {
    name: "operators-retry-keeps-the-charges",
    why: "A failed task that is retried by hand fails for good at its first error.",
    in: "statements.reset",
    find: "`error = null, retry_count = 0,`",
    replace: "`error = null,`",
    caughtBy: onFile("cancel and retry > retry resets the retry count and keeps the attempts"),
  },
  {
    name: "progress-ignores-generation",
    why: "An attempt that was left behind writes its progress over that of the one which runs now.",
    in: "statements.noteProgress",
    find: '`where ${held(d, p)} ${still("running")}`',
    replace: '`where dbq_tasks.id = ${p.id} ${still("running")}`',
    caughtBy: onFile(
      "ownership and progress > progress of a stale generation, or of a task that does not run, is ignored",
    ),
  },
  {
    name: "claim-without-an-answer-is-forgotten",
    why: "A task that was claimed while the connection broke stays running for as long as its worker lives.",
    in: "Dispatcher.#runCycle",
    find: "await this.#unknownClaims.handBack();",
    replace: "",
    caughtBy: {
      file: "test/model/found.test.ts",
      test: "a claim whose answer is lost holds no task for ever",
    },
  },
];
