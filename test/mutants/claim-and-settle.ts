/** Faults of claiming and settling: what keeps a task with the one worker that holds its generation. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

/** A case of the conformance suite, on a file. */
const onFile = (test: string) => ({
  file: "test/conformance/sqlite.test.ts",
  test: `'SQLite, a file' > ${test}`,
});

const ofPipeline = (test: string) => ({ file: "test/stores/sql/claim.test.ts", test });

const stale = (kind: string) =>
  onFile(`settle > ${kind} of a stale generation changes nothing and records no attempt`);

/** A state change that does not name the generation. */
const unfenced = `((set: (p: Params) => SQL, and: SQL = sql.raw("")): Statement =>
  (p, { afterTable, afterSet } = oneRow) => sql\`
    update dbq_tasks \${afterTable} set generation_id = generation_id + 1, \${set(p)} \${afterSet}
    where dbq_tasks.id = \${p.id} \${and}\`)(`;

export const claimAndSettle: readonly Mutant[] = [
  {
    name: "claimed-again-is-discarded",
    why: "After a crash of the server that loses commits, tasks that are claimed again fail: a trigger is said to discard their outcomes.",
    in: "Search.withDiscarded",
    find: "!settled[i] && !begun.has(id)",
    replace: "!settled[i]",
    caughtBy: onFile(
      "settle > an outcome whose claim a server has lost ends no task that the same cycle claims again",
    ),
  },
  {
    name: "discarded-at-one-glance",
    why: "A task that another worker has claimed at a generation that a crash has freed fails for a trigger that is not there.",
    in: "Search.#settleAgain",
    find: "await this.#offerOnce(outcome)",
    replace: '("refused" as boolean | "refused")',
    caughtBy: {
      file: "test/stores/sql/refusals.test.ts",
      test: "an outcome that a second try settles was not discarded: another cycle has claimed the task meanwhile",
    },
  },
  {
    name: "complete-ignores-generation",
    why: "A worker that was declared dead overwrites the result of the worker that ran its task again.",
    in: "transitionStatements.complete",
    find: "change($$$args)",
    replace: `${unfenced}$$$args)`,
    caughtBy: stale("completed"),
  },
  {
    name: "finish-ignores-generation",
    why: "A stale attempt fails or cancels a task that another worker runs or has completed.",
    in: "transitionStatements.finish",
    find: "change($$$args)",
    replace: `${unfenced}$$$args)`,
    caughtBy: stale("failed"),
  },
  {
    name: "release-ignores-generation",
    why: "A stale attempt makes a task pending again that somebody else has finished: it runs twice.",
    in: "transitionStatements.release",
    find: "change($$$args)",
    replace: `${unfenced}$$$args)`,
    caughtBy: stale("retry"),
  },
  {
    name: "claim-ignores-generation",
    why: "A task that was claimed and handed back since it was seen is run under a generation that it no longer has.",
    in: "transitionStatements.claim",
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
    in: "transitionStatements.claim",
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
    in: "transitionStatements.promote",
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
    in: "transitionStatements.reset",
    find: "change($$$args)",
    replace: `${unfenced}$$$args)`,
    caughtBy: {
      file: "test/stores/sql/moved-in-between.test.ts",
      test: "a retry of a task that started meanwhile reads it again and leaves it running",
    },
  },
  {
    name: "cancel-of-a-moved-task-is-taken-for-done",
    why: "`cancelTask` reports a task as cancelled that a worker has just claimed and goes on running.",
    in: "TaskOperations.cancel",
    find: 'ended ? "changed" : "moved"',
    replace: '"changed"',
    caughtBy: {
      file: "test/stores/sql/moved-in-between.test.ts",
      test: "a cancel of a task that changed meanwhile reads it again and cancels it",
    },
  },
  {
    name: "insert-does-not-look-for-the-holder-again",
    why: "Of two enqueues with one unique key at the same moment, one fails instead of giving the other's id.",
    in: "mostInserts",
    find: "10",
    replace: "1",
    caughtBy: {
      file: "test/stores/sql/moved-in-between.test.ts",
      test: "an insert whose key was taken meanwhile returns the holder's id",
    },
  },
  {
    name: "claim-ignores-row-count",
    why: "Of two workers that see a task, the one that loses the race runs it too.",
    in: "ClaimSteps.claim",
    find: "won[i]",
    replace: "won.length > i",
    caughtBy: onFile("claim > a row that cannot be claimed does not block other tasks or the next claim"),
  },
  {
    name: "claim-of-many-ignores-generation",
    why: "Of the tasks of a batch, one is run under a generation that its row does not have.",
    in: "claimStatements.claimAll",
    find: "`and generation_id = ${p.generationId}`",
    replace: "",
    caughtBy: ofPipeline(
      "a claim by one UPDATE passes over a row whose generation is not the one that was read",
    ),
  },
  {
    name: "claim-of-many-ignores-row-count",
    why: "Of the tasks of a batch, one that the UPDATE did not find is run.",
    in: "ClaimSteps.#claimAll",
    find: "claimed === tasks.length",
    replace: "claimed > 0",
    caughtBy: ofPipeline(
      "a claim by one UPDATE passes over a row whose generation is not the one that was read",
    ),
  },
  {
    name: "options-of-candidates-are-not-read",
    why: "Tasks run without their keyword arguments, timeouts and trace contexts.",
    in: "ClaimSteps.#readPlain",
    find: "!isPlain(row)",
    replace: "row.length === 0 && !isPlain(row)",
    caughtBy: onFile(
      "claim > a claim returns each task as it is stored, whichever of its columns has a value",
    ),
  },
  {
    name: "completions-ignore-row-count",
    why: "A worker believes that its late result was accepted, and tells of a completion that never was.",
    in: "Transitions.endTasks",
    find: "yield* changes(this.#s.complete, endings)",
    replace: "(yield* changes(this.#s.complete, endings)).map(() => true)",
    caughtBy: stale("completed"),
  },
  {
    name: "finish-ignores-row-count",
    why: "A failure that did not count is recorded as an attempt of a task that somebody else runs.",
    in: "inGroups",
    find: "some[n] as A",
    replace: `(some[n] === true || (all[i] as { kind?: unknown }).kind === "failed") as A`,
    caughtBy: stale("failed"),
  },
  {
    name: "release-ignores-row-count",
    why: "A retry that did not count is recorded as an attempt of a task that somebody else runs.",
    in: "Transitions.#release",
    find: "return released;",
    replace: "return released.map(() => true);",
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
      test: "a second completion of a task throws DBQ_LOST_GENERATION",
    },
  },
  {
    name: "settle-within-ignores-row-count",
    why: "A completion inside a transaction is reported as accepted even when another worker holds the task.",
    in: "SettleAndClaimOperations.settleOne",
    find: "return (yield* this.settle([outcome]))[0] === true;",
    replace: "return (yield* this.settle([outcome])).length > 0;",
    caughtBy: onFile(
      "transaction and within > a settle of a stale generation changes nothing, and the transaction continues",
    ),
  },
  {
    name: "claim-ignores-wait-until",
    why: "A row that another program inserts for tomorrow runs now.",
    in: "claimable",
    find: "`and ${isDue(d, p)}`",
    replace: "",
    caughtBy: onFile("raw SQL > a pending row with a wait_until in the future is claimed when it is due"),
  },
  {
    name: "claim-ignores-priority",
    why: "Urgent tasks wait behind the whole backlog.",
    in: "candidatesOf",
    find: "`order by ${order} ${d.atMost(p.limit)}`",
    replace: "`order by id ${d.atMost(p.limit)}`",
    caughtBy: onFile(
      "claim > a claim takes the highest priority first, then the oldest task, up to its limit",
    ),
  },
  {
    name: "claim-by-an-unregistered-worker",
    why: "A worker whose row was deleted goes on claiming, and no other worker rescues its tasks when it dies.",
    in: "SettleAndClaimOperations.#claim",
    find: 'if ("answer" in row) return row.answer;',
    replace:
      'if ("answer" in row) return { ...row.answer, claimed: (yield* this.claims.run(request, 1, 0, read)).tasks };',
    caughtBy: onFile(
      "claim > an unregistered worker can settle, claims nothing, and learns that it is not registered",
    ),
  },
  {
    name: "claim-never-says-more",
    why: "A worker runs one batch, then nothing until the next poll, with a backlog waiting.",
    in: "ClaimPipeline.run",
    find: "found.candidates.length >= request.limit || tasks.length < found.candidates.length",
    replace: "found.candidates.length > request.limit",
    caughtBy: onFile("claim > a claim reports whether more tasks may be waiting"),
  },
  {
    name: "retry-is-not-charged",
    why: "A task that always fails is retried without end.",
    in: "releases.retry",
    find: "charge: 1",
    replace: "charge: 0",
    caughtBy: onFile("settle > retry is accepted once, and the row shows it"),
  },
  {
    name: "snooze-is-charged",
    why: "A task that waits for its turn by snoozing fails after three times.",
    in: "releases.snoozed",
    find: "charge: 0",
    replace: "charge: 1",
    caughtBy: onFile("settle > a snooze and a hand-back keep the last error and do not charge a retry"),
  },
  {
    name: "interruption-is-charged",
    why: "Each deployment costs the running tasks one of their retries.",
    in: "releases.interrupted",
    find: "charge: 0",
    replace: "charge: 1",
    caughtBy: {
      file: "test/worker/stop.test.ts",
      test: "after the grace of a stop running tasks are handed back without a retry charged, and another worker runs them",
    },
  },
  {
    name: "snooze-forgets-the-error",
    why: "Why a task failed before it snoozed is not to be found any more.",
    in: "transitionStatements.release",
    find: "`error = coalesce(${d.json(p.error)}, error)`",
    replace: "`error = ${d.json(p.error)}`",
    caughtBy: onFile("settle > a snooze and a hand-back keep the last error and do not charge a retry"),
  },
  {
    name: "completed-task-keeps-its-error",
    why: "A task that completed at the second try still shows the error of the first.",
    in: "transitionStatements.complete",
    find: "`result = ${d.json(p.result)}, error = null,`",
    replace: "`result = ${d.json(p.result)},`",
    caughtBy: onFile(
      "settle > a task that fails, is retried and completes keeps its retry count and loses its error",
    ),
  },
  {
    name: "operators-retry-keeps-the-charges",
    why: "A failed task that is retried by hand fails for good at its first error.",
    in: "transitionStatements.reset",
    find: "`failure = null, retry_count = 0,`",
    replace: "`failure = null,`",
    caughtBy: onFile("cancel and retry > retry resets the retry count and keeps the attempts"),
  },
  {
    name: "progress-ignores-generation",
    why: "An attempt that was left behind writes its progress over that of the one which runs now.",
    in: "transitionStatements.noteProgress",
    find: '`where ${held(d, p, isOne)} ${still("running")}`',
    replace: '`where dbq_tasks.id = ${p.id} ${still("running")}`',
    caughtBy: onFile(
      "ownership and progress > progress of a stale generation, or of a task that does not run, is ignored",
    ),
  },
  {
    name: "defaults-ignore-generation",
    why: "A worker that has lost a task sets the retries of the attempt that runs now.",
    in: "transitionStatements.fillDefaults",
    find: '`where ${held(d, p, isOne)} ${still("running")}`',
    replace: '`where dbq_tasks.id = ${p.id} ${still("running")}`',
    caughtBy: onFile(
      "ownership and progress > fillDefaults of a stale generation, or of a task that does not run, is ignored",
    ),
  },
  {
    name: "log-ignores-generation",
    why: "An attempt that was left behind writes its lines among those of the one which runs now.",
    in: "logStatements.log",
    find: '`(generation_id = ${generation} ${still("running")}`',
    replace: "`(generation_id >= ${generation}`",
    caughtBy: onFile("log lines > a late line of an attempt that has lost its task is left out"),
  },
  {
    name: "claim-without-an-answer-is-forgotten",
    why: "A task that was claimed while the connection broke stays running for as long as its worker lives.",
    in: "Dispatcher.#runCycle",
    find: "if (this.#unknownClaims.isDue && !this.#underWay.isClaiming && this.#takingOn === 0) await this.#unknownClaims.handBack();",
    replace: "",
    caughtBy: {
      file: "test/model/found.full.test.ts",
      test: "a claim whose answer is lost does not hold a task for ever",
    },
  },
  {
    name: "expired-task-is-claimed",
    why: "A worker starts a task whose time is over, when no maintenance has ended it yet.",
    in: "endExpired",
    find: "expiresAt !== null && expiresAt <= now",
    replace: "expiresAt !== null && expiresAt <= now - 86_400_000",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > expiry > a claim ends the expired tasks that it finds, and takes those behind them",
    },
  },
  {
    name: "expired-task-is-claimed-in-one-statement",
    why: "On Postgres, a worker starts a task whose time is over, when no maintenance has ended it yet.",
    in: "isExpired",
    find: "`(started_at is null and expires_at is not null and expires_at <= ${now})`",
    replace: "`(started_at is null and expires_at is null and expires_at <= ${now})`",
    caughtBy: {
      file: "test/conformance/postgres.test.ts",
      test: "'Postgres' > expiry > a claim ends the expired tasks that it finds, and takes those behind them",
    },
  },
  {
    name: "expired-tasks-stop-a-claim",
    why: "A worker that has found only expired tasks does not look for those behind them until the next poll.",
    in: "settleAndClaim",
    find: "result.claimed.length > 0 || result.expired !== undefined",
    replace: "result.claimed.length > 0",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > expiry > a claim ends the expired tasks that it finds, and takes those behind them",
    },
  },
  {
    name: "expiry-ends-retries",
    why: "A task whose first attempt has failed expires before its retry.",
    in: "released",
    find: "d.integer(p.unbegun)",
    replace: "d.integer(1)",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > expiry > a task whose first attempt has begun does not expire",
    },
  },
  {
    name: "expiry-ends-only-at-claims",
    why: "A task that expires ends only when a worker comes that would have run it.",
    in: "Around.promote",
    find: "nextExpiry === 0",
    replace: "nextExpiry === -1",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > expiry > promote ends pending and scheduled tasks that have expired, and returns the time until the next one does",
    },
  },
];
