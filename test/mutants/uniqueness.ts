/** Faults of unique keys, and of the clock of tests. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

/** A case of the conformance suite about unique keys, on a file. */
const onFile = (test: string) => ({
  file: "test/conformance/sqlite.test.ts",
  test: `'SQLite, a file' > unique keys > ${test}`,
});
const inMemory = (test: string) => ({
  file: "test/worker/virtual-clock.full.test.ts",
  test: `on a database in memory > ${test}`,
});

export const uniquenessFaults: readonly Mutant[] = [
  {
    name: "a-started-task-is-replaced",
    why: "A task that waits for its retry gets the arguments of another call, after an attempt has run with its own.",
    in: "neverStarted",
    find: "\"started_at is null and coalesce(status, '') in ('pending', 'scheduled')\"",
    replace: "\"coalesce(status, '') in ('pending', 'scheduled')\"",
    caughtBy: onFile("neither replace nor debounce changes a task that has started, and its id comes back"),
  },
  {
    name: "a-key-until-the-start-is-held-until-the-end",
    why: "A change that comes while the task runs is missed.",
    in: "claim.won",
    find: "changes(keyed ? claimKeyed : claim, claims(some))",
    replace: "changes(keyed ? claim : claim, claims(some))",
    caughtBy: onFile("a claim keeps the key that is held until the end, beside a task that gives its key up"),
  },
  {
    name: "a-key-is-taken-until-the-upkeep",
    why: "An enqueue after the hour gets the id of a task that finished long ago, until a worker has looked.",
    in: "TaskOperations.#holderOf",
    find: "if (!holder.lapsed) return holder;",
    replace: "if (!holder.lapsed || holder.id > 0) return holder;",
    caughtBy: onFile(
      "a key that is taken for an hour stays taken when the task has finished, and the next enqueue takes it an hour later",
    ),
  },
  {
    name: "a-pruned-task-loses-its-key",
    why: "With a retention shorter than uniqueFor, a key is free before its time.",
    in: "oldStatements.isOld",
    find: "`and (unique_until is null or unique_until <= ${d.now(p)})`",
    replace: "``",
    caughtBy: onFile("prune keeps a finished task for as long as it holds its key"),
  },
  {
    name: "a-task-is-its-own-rival",
    why: "`retryTask` is refused while the task holds its own key for a time.",
    in: "TaskOperations.#rivalOf",
    find: "return holder?.id === id ? undefined : holder?.id;",
    replace: "return holder?.id;",
    caughtBy: onFile(
      "retryTask of a finished task that holds its key for an hour keeps the key, and with another holder it is refused",
    ),
  },
  {
    name: "a-debounce-has-no-limit",
    why: "A document that changes all the time is never indexed.",
    in: "keyParams",
    find: 'unique?.onDuplicate === "debounce" ? unique.limit : null',
    replace: "null",
    caughtBy: onFile("a debounce starts the delay anew, up to its limit after the first enqueue"),
  },
  {
    name: "a-retried-task-takes-its-key-back",
    why: "A task that gave its key up is refused by retryTask, because another one has the key.",
    in: "enqueueStatements.ownKey",
    find: "`select unique_key from dbq_tasks`",
    replace: "`select coalesce(unique_key, start_key) as unique_key from dbq_tasks`",
    caughtBy: onFile(
      "a task that has given its key up does not take it back: by a retry, a hand-back, a rescue or retryTask",
    ),
  },
  {
    name: "a-debounce-without-a-delay",
    why: "The mistake is found in production: the task runs at once, each time.",
    in: "uniquenessOf",
    find: 'if (onDuplicate === "debounce" && delay === undefined) $$$refusal',
    replace: "",
    caughtBy: {
      file: "test/queue/unique-key.test.ts",
      test: 'the options of a unique key > {"uniqueKey":"k","onDuplicate":"debounce"} is refused, and nothing is written',
    },
  },
  {
    name: "a-step-of-the-clock-wakes-no-job",
    why: "In a test that steps its clock, old tasks are pruned up to half a minute of real time later.",
    in: "PeriodicJob.start",
    find: "this.#clock.onStep(() => this.now())",
    replace: "this.#clock.onStep(() => undefined)",
    caughtBy: inMemory("retention prunes, and a unique key is free when its time has passed"),
  },
  {
    name: "leases-are-on-the-real-clock",
    why: "In a test that steps its clock, the tasks of a dead worker are rescued after a real lease.",
    in: "Maintenance.constructor",
    find: "new FailureDetector(() => clock.monotonic())",
    replace: "new FailureDetector()",
    caughtBy: inMemory(
      "the lease of a worker that has died elsewhere expires, and a living one keeps its task",
    ),
  },
];
