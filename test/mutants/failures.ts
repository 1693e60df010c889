/** Seeded faults of kinds of failures: what is of one kind, what is counted, and which tasks a retry of a kind takes. */
import type { Mutant } from "./mutant.ts";

const onFile = (test: string) => ({
  file: "test/conformance/sqlite.test.ts",
  test: `'SQLite, a file' > kinds of failures > ${test}`,
});
const onPostgres = (test: string) => ({
  file: "test/conformance/postgres-features.full.test.ts",
  test: `'Postgres' > kinds of failures > ${test}`,
});

export const failureFaults: readonly Mutant[] = [
  {
    name: "a-retried-task-keeps-its-kind",
    why: "A retry of all tasks of a kind runs again those that were retried and have completed since.",
    in: "transitionStatements.reset",
    find: "`failure = null, `",
    replace: "``",
    caughtBy: onFile(
      "a task that completes or is cancelled has no kind, nor has one that is retried by hand",
    ),
  },
  {
    name: "a-cancelled-attempt-is-a-failure",
    why: "Tasks that a function cancels are counted as failures.",
    in: "failureKindOf",
    find: 'attempt.outcome === "cancelled"',
    replace: "false",
    caughtBy: onFile(
      "a task that completes or is cancelled has no kind, nor has one that is retried by hand",
    ),
  },
  {
    name: "an-end-that-was-held-up-has-no-kind",
    why: "Workflows that failed after an undo are no open failure, and no retry of their kind takes them.",
    in: "taskKind",
    find: "failureKindOfTask(funcOf(ending), errorOf(ending.error)).id",
    replace: "null",
    caughtBy: onFile("an end without an attempt has the kind of its error"),
  },
  {
    name: "a-count-is-lost-to-a-fold",
    why: "A worker that was late loses its counts when another one folds the row that it adds to.",
    in: "FailureOperations.#addTo",
    find: "(yield* count(this.#s.addTo, kind, false)) > 0",
    replace: "(yield* count(this.#s.addTo, kind, false)) >= 0",
    caughtBy: onPostgres(
      "many workers add to the same rows at once, while others fold, and no failure is lost",
    ),
  },
  {
    name: "a-row-that-is-folded-twice-is-added-once",
    why: "A worker that was late loses its count when a third one has added the row, and that was folded, too.",
    in: "FailureOperations.#addTo",
    find: "tries < mostTries",
    replace: "tries < 2",
    caughtBy: {
      file: "test/features/failures/folded-meanwhile.test.ts",
      test: "a row that is folded after another worker has added it is added again, until the failure is counted in",
    },
  },
  {
    name: "a-minute-has-any-number-of-kinds",
    why: "An error whose message is never the same fills the table with a row for each attempt.",
    in: "bounded",
    find: "known.has(one.id) || room > 0",
    replace: "true",
    caughtBy: onFile(
      "of more kinds in a minute than there may be, the later ones count as the others of their functions",
    ),
  },
  {
    name: "counts-are-dropped-while-the-database-is-away",
    why: "An outage of the database hides the failures that it caused.",
    in: "FailureRecorder.#write",
    find: "!(error instanceof OutcomeUnknownError)",
    replace: "error instanceof OutcomeUnknownError",
    caughtBy: {
      file: "test/features/failures/recorder.test.ts",
      test: "counts that could not be written count in the next write; a lost answer may have been written",
    },
  },
  {
    name: "a-long-value-is-a-kind-of-its-own",
    why: "Failures that quote a value of many characters are each a kind of their own.",
    in: "withoutQuoted",
    find: "!isCut",
    replace: "isCut",
    caughtBy: {
      file: "test/base/values/failure-kind.test.ts",
      test: "a normalised message > is the same however long a quoted value is",
    },
  },
  {
    name: "a-held-up-end-is-no-failure",
    why: "The last attempt of a task that undoes its steps is missing from the counts of its kind.",
    in: "Reports.settled",
    find: "this.#host.reportHeldUp?.(attempt.record, outcome)",
    replace: "this.#host.reportHeldUp?.(attempt.record)",
    caughtBy: {
      file: "test/features/failures/failures.test.ts",
      test: "on SQLite > each failed attempt of a task that undoes its steps counts, also the last one",
    },
  },
  {
    name: "a-bounded-count-is-told-as-exact",
    why: "Of a million failed tasks, an operator sees ten thousand, and takes that for all of them.",
    in: "toOpen",
    find: "more: Number(tasks) > most",
    replace: "more: false",
    caughtBy: onFile(
      "of more failed tasks than are counted, each kind has its share, and says that there are more",
    ),
  },
];
