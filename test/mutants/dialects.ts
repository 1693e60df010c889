/** Faults of Postgres, MySQL and MariaDB: their statements, their strategies, what their errors mean. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const inFile = (file: string) => (test: string) => ({ file: `test/${file}.test.ts`, test });
const ofTurns = inFile("stores/postgres/settle-and-claim");
const ofSessions = inFile("stores/postgres/sessions.full");
const ofSchemas = (test: string) =>
  inFile("stores/postgres/schema.full")(`a queue in a schema of Postgres > ${test}`);
const ofPartitions = (test: string) =>
  inFile("stores/postgres/partitions.full")(`partitions of finished tasks > ${test}`);
const ofMysql = inFile("stores/mysql/store.full");
const ofChanges = (test: string) =>
  inFile("stores/mysql/changes.full")(`a change of many tasks on MySQL > ${test}`);

/** Cases of the conformance suite. */
const onPostgres = (test: string) => ({
  file: "test/conformance/postgres.test.ts",
  test: `'Postgres' > ${test}`,
});
const plannedEarly = (what: string) => ({
  file: "test/conformance/plans-postgres.full.test.ts",
  test: `Postgres, skip-locked, with plans made while the tables were empty > ${what} finds its rows by an index after the tables were filled`,
});
const onMysql = (test: string) => ({
  file: "test/conformance/mysql.full.test.ts",
  test: `'MySQL' > ${test}`,
});

export const dialectFaults: readonly Mutant[] = [
  {
    name: "one-far-generation-stops-a-queue",
    why: "On MySQL, one row with a generation of 2^63 - 1 fails each claim, and nothing of the queue runs.",
    in: "int",
    find: "if (number > largest) return largest;",
    replace: "if (number > 2 * largest) return largest;",
    caughtBy: onMysql(
      "numbers at the ends of 64 bits > a claim takes the tasks behind one whose generation_id is 9223372036854775807",
    ),
  },
  {
    name: "migration-of-mysql-that-was-cut-off-stays-so",
    why: "A database whose first opening was killed half-way cannot be opened again.",
    in: "mysqlMigrations.isDone",
    find: "exists.has",
    replace: "new Set([0]).has",
    caughtBy: {
      file: "test/stores/mysql/migration.full.test.ts",
      test: "an interrupted migration continues with its next statement",
    },
  },
  // ---- Postgres ------------------------------------------------------------------------------
  {
    name: "postgres-migrates-outside-of-its-schema",
    why: "The tables of a queue with a schema of its own are created in public, where an app's drizzle-kit drops them.",
    in: "enterSchema",
    find: "yield* ask(schema.use);",
    replace: "",
    caughtBy: ofSchemas("makes the schema, with a name of any case, and all of its tables in it"),
  },
  {
    name: "postgres-creates-a-schema-that-is-there",
    why: "A user who owns the schema but may create none cannot open the queue.",
    in: "enterSchema",
    find: "(yield* ask(schema.exists)).length === 0",
    replace: "true",
    caughtBy: ofSchemas("needs no right to create schemas where the schema is there"),
  },
  {
    name: "postgres-names-no-schema-in-a-transaction-of-the-app",
    why: "A statement finds the tables by the search path of the connection, which leads elsewhere in an app's transaction.",
    in: "Compiler.once",
    find: "schema + name",
    replace: "name",
    caughtBy: ofSchemas("works through an app's database whose search path leads elsewhere"),
  },
  {
    name: "doctor-takes-a-filter-of-one-table-for-one-of-all",
    why: "Doctor finds no problem with a drizzle-kit whose push drops all of dbq's tables but one.",
    in: "findingOfTables",
    find: "tables.some",
    replace: "tables.every",
    caughtBy: {
      file: "test/entries/cli/kit-fact.test.ts",
      test: "a configuration that neither hides nor declares the tables is a problem > when its filter leaves some of the tables in",
    },
  },
  {
    name: "postgres-listens-where-older-workers-do-not-notify",
    why: "A queue that names the schema public, and one that does not, wake each other only by polling.",
    in: "channelOf",
    find: 'schema === "public"',
    replace: "false",
    caughtBy: {
      file: "test/stores/postgres/schema.full.test.ts",
      test: "the queue without a schema, and that in public, notify on the channel of older workers",
    },
  },
  {
    name: "postgres-goes-through-all-rows-to-settle",
    why: "A worker that was there before the first task reads the whole table to settle each batch.",
    in: "base.only",
    find: "`any (array[${id}::bigint])`",
    replace: "`${id}`",
    caughtBy: plannedEarly("completed"),
  },
  {
    name: "postgres-goes-through-all-that-is-scheduled",
    why: "A worker that was there before the first task reads all that is scheduled to promote what is due.",
    in: "still",
    find: "`and coalesce(status, '') = '${status}'`",
    replace: "`and status = '${status}'`",
    caughtBy: plannedEarly("due"),
  },
  {
    name: "settles-while-it-waits-to-claim",
    why: "Workers that lock nothing wait for each other in circles: a second each time, until a server breaks one.",
    in: "SettleAndClaimOperations",
    find: "this.inTwoTransactions = texts.dialect.spreads;",
    replace: "this.inTwoTransactions = false;",
    caughtBy: ofTurns(
      "a worker that claims without locks > settles before it waits for a lock of another claim, so the other never waits for it",
    ),
  },
  {
    name: "failed-claim-hides-what-was-settled",
    why: "When the claim after a settle fails, the settled outcomes are sent again and reported as lost.",
    in: "settleThenClaim",
    find: "return { ...settling, failure };",
    replace: "throw failure;",
    caughtBy: {
      file: "test/stores/sql/settle-and-claim.test.ts",
      test: "a call that settles and claims in two statements returns what it settled, with the failure of the claim",
    },
  },
  {
    name: "turn-in-one-ignores-generation",
    why: "On Postgres, a worker that was declared dead overwrites the result of the worker that ran its task again.",
    in: "cycleStatements.settled",
    find: 'generationId: itemOf("generationId")',
    replace: 'generationId: sql.raw("generation_id")',
    caughtBy: ofTurns(
      "settle and claim on Postgres > settles nothing of a stale generation, and claims nevertheless",
    ),
  },
  {
    name: "turn-in-one-accepts-both-of-two-outcomes",
    why: "Two outcomes of one task are both reported as accepted, and one of them was never written.",
    in: "OneStatementCycles.run",
    find: "ids.size === outcomes.length",
    replace: "completed.length === outcomes.length && ids.size > -1",
    caughtBy: ofTurns("settle and claim on Postgres > accepts the first of two outcomes of one task"),
  },
  {
    name: "turn-in-one-waits-for-locks",
    why: "A transaction of the app that holds one task keeps every worker from claiming any.",
    in: "settleAndClaimStatement",
    find: "`for update skip locked`",
    replace: "`for update`",
    caughtBy: ofTurns("settle and claim on Postgres > skips tasks that another transaction has locked"),
    hangs: true,
  },
  {
    name: "turn-in-one-gives-an-old-generation",
    why: "What a worker claimed on Postgres it can never settle: each task runs until its lease has ended, again and again.",
    in: "answerOf.toTask",
    find: "toClaimed(task, task.generationId, $$$rest)",
    replace: "toClaimed(task, task.generationId - 1, $$$rest)",
    caughtBy: ofTurns("settle and claim on Postgres > returns the claimed tasks as they are stored"),
  },
  {
    name: "turn-in-one-of-an-unregistered-worker",
    why: "A worker whose row was deleted goes on claiming, and no other worker rescues its tasks when it dies.",
    in: "settleAndClaimStatement",
    find: "`from candidates, worker where state = 1`",
    replace: "`from candidates`",
    caughtBy: onPostgres(
      "claim > an unregistered worker can settle, claims nothing, and learns that it is not registered",
    ),
  },
  {
    name: "turn-in-one-of-a-dying-worker",
    why: "A task that a worker claims while it is declared dead stays running without a worker until the sweep for orphans.",
    in: "workersOwn",
    find: "lock: d.shared",
    replace: 'lock: sql.raw("")',
    caughtBy: ofTurns(
      "settle and claim on Postgres > claims nothing for a worker whose rescue is committing",
    ),
  },
  {
    name: "settled-turn-is-not-told",
    why: "An await in another process than the worker's resolves only at its next poll.",
    in: "OneStatementCycles.#inOne",
    find: "if (completed.length > 0) yield* notifyChange();",
    replace: "",
    caughtBy: ofSessions("notifications on Postgres > enqueue, settle and cancel send a notification"),
  },
  {
    name: "spread-is-never-widened",
    why: "Without row locks thirty workers all try the same few tasks, and most of their turns are in vain.",
    in: "adapt",
    find: "this.#width = Math.min(this.#width * 4, widest);",
    replace: "this.#width = 1;",
    caughtBy: ofTurns(
      "a worker that claims without locks > picks from more tasks after it lost a race, and in order again when it wins",
    ),
  },
  {
    name: "spread-is-never-narrowed",
    why: "After one busy moment without row locks priorities mean nothing any more.",
    in: "adapt",
    find: "Math.max(1, this.#width / 2)",
    replace: "Math.max(1, this.#width)",
    caughtBy: ofTurns(
      "a worker that claims without locks > picks from more tasks after it lost a race, and in order again when it wins",
    ),
  },
  {
    name: "time-stands-still-in-a-transaction",
    why: "A delay that is given late in a long transaction of the app has passed when that commits.",
    in: "base.now",
    find: 'now: () => sql.raw("statement_timestamp()")',
    replace: 'now: () => sql.raw("now()")',
    caughtBy: inFile("stores/postgres/store")(
      "a store on Postgres > delays count from the statement, not from the beginning of the app's transaction",
    ),
  },
  {
    name: "ids-in-the-wrong-order",
    why: "Each of many callers is given the id of another one's task, and awaits that.",
    in: "postgresSteps.ids",
    find: "integersIn(await $rows)",
    replace: "integersIn(await $rows).reverse()",
    caughtBy: onPostgres("insert > insert returns the answers in the order of the tasks, with ascending ids"),
  },
  {
    name: "conflict-aborts-the-apps-transaction",
    why: "A unique key that somebody took a moment ago undoes all that the app's transaction has written.",
    in: "base.ignoreConflict",
    find: '"on conflict do nothing"',
    replace: '""',
    caughtBy: inFile("stores/postgres/store")(
      "a store on Postgres > an app's transaction stays usable when another connection takes its unique key at the same moment",
    ),
  },
  {
    name: "meta-that-is-no-text-fails-all-filters",
    why: "One row whose meta holds a NUL makes every list by meta fail.",
    in: "base.metaHas",
    find: '`case when ${refused("meta::text")} then false else coalesce(${is}, false) end`',
    replace: "`coalesce(${is}, false)`",
    caughtBy: onPostgres(
      "get, list, count, idle, attempts > a meta filter skips values that it cannot compare, without an error",
    ),
  },
  {
    name: "meta-with-any-escape-is-found-by-nothing",
    why: "Tasks whose meta another program wrote, an emoji as two escapes in it, are found by no filter.",
    in: "refused",
    find: "`regexp_replace(${json}, '\\\\\\\\|`",
    replace: "`regexp_replace(${json}, 'nothing like this|`",
    caughtBy: {
      file: "test/property/meta.full.test.ts",
      test: "on Postgres, meta with an escape in it is found by its other keys > a backslash before u0000",
    },
  },
  {
    name: "rows-with-ids-below-one-are-not-found",
    why: "A row that was inserted with an explicit id is never claimed, and the tasks after it wait.",
    in: "candidatesOf",
    find: "sql.raw(`'${lowestId}'::bigint`)",
    replace: 'sql.raw("0::bigint")',
    caughtBy: {
      file: "test/stores/postgres/own-ids.test.ts",
      test: "a row with an explicit id > is claimed, also with id -7",
    },
  },
  {
    name: "deadlock-of-postgres-is-final",
    why: "Of two enqueues that wait for each other's keys one fails.",
    in: "transient",
    find: '"40P01"',
    replace: "",
    caughtBy: inFile("stores/postgres/answers")(
      "a deadlock on Postgres > the operation is retried, without an error",
    ),
  },
  {
    name: "statements-are-prepared-behind-a-pooler",
    why: "Behind PgBouncer in transaction mode questions fail, as their statements are on another connection.",
    in: "connectPostgres.query",
    find: "named && name !== undefined",
    replace: "name !== undefined",
    caughtBy: ofSessions("a connection behind a pooler > (sessions: false) keeps 0 statements"),
  },
  {
    name: "listener-does-not-come-back",
    why: "After a restart of Postgres every start in another process waits for a poll, until the worker is restarted.",
    in: "ListeningSession.#listenLater",
    find: "void this.#listen()",
    replace: "undefined",
    caughtBy: ofSessions(
      "notifications on Postgres > arrive again after the listening session was terminated",
    ),
  },
  {
    name: "claims-look-at-partitions",
    why: "With finished tasks in a table for each day, each claim and settlement looks at all of these tables.",
    in: "base.tasks",
    find: '"only dbq_tasks"',
    replace: '"dbq_tasks"',
    caughtBy: ofPartitions(
      "are not touched by enqueues, workers and awaits: with a lock on them, tasks run as before",
    ),
    hangs: true,
  },
  {
    name: "moved-tasks-are-gone-for-awaits",
    why: "An await of a task that moved to a partition rejects with DBQ_TASK_NOT_FOUND.",
    in: "TaskOperations.findEnded",
    find: "gone.length > 0 && this.#d.bringBack",
    replace: "false",
    caughtBy: ofPartitions("have a table for each status and day, and are read as before"),
  },
  {
    name: "moved-tasks-are-not-brought-back",
    why: "A retryTask of a task that moved to a partition never returns.",
    in: "TaskOperations.again",
    find: "bringBack && isFinished(status)",
    replace: 'bringBack && status === "waiting"',
    caughtBy: ofPartitions(
      "are filled by the worker of a queue that is opened with partitionFinished; a moved task can be retried",
    ),
    hangs: true,
  },
  {
    name: "tasks-of-drains-move",
    why: "A drain that looks for the tasks that it has sent reads the finished tasks of all days.",
    in: "Partitions.#move",
    find: "isDrains",
    replace: "sql.raw('false')",
    caughtBy: ofPartitions(
      "do not get the tasks of schedules, those that hold their keys for a time, and those of drains",
    ),
  },
  {
    name: "a-day-is-dropped-while-it-is-kept",
    why: "Finished tasks are deleted up to a day before the end of their retention.",
    in: "Partitions.#old",
    find: "partition.end + retention[partition.status]",
    replace: "partition.end - day + retention[partition.status]",
    caughtBy: ofPartitions(
      "are dropped when all of their tasks are older than their retention, with attempts, log lines, steps and waits",
    ),
  },
  {
    name: "moves-beside-a-foreign-key",
    why: "An app whose rows refer to tasks with on delete cascade loses them a minute after the task has finished.",
    in: "Partitions.#mayMove",
    find: "Number(referring) === 0",
    replace: "Number(referring) >= 0",
    caughtBy: ofPartitions(
      "get nothing while a foreign key refers to the table of tasks, which would act as if they were deleted",
    ),
  },
  {
    name: "attempts-of-dropped-tasks-stay",
    why: "The failed attempts of dropped tasks are never deleted.",
    in: "Partitions.#deleteBeside",
    find: '["dbq_attempts", "dbq_task_logs", "dbq_steps", "dbq_waits"]',
    replace: '["dbq_task_logs", "dbq_steps", "dbq_waits"]',
    caughtBy: ofPartitions(
      "are dropped when all of their tasks are older than their retention, with attempts, log lines, steps and waits",
    ),
  },

  // ---- MySQL and MariaDB ---------------------------------------------------------------------
  {
    name: "lock-of-candidates-waits",
    why: "A transaction of the app that holds one task keeps every worker from claiming any.",
    in: "claimStatements.lockFirst",
    find: "d.skipLocked",
    replace: "d.locked",
    caughtBy: ofMysql(
      "a store on MySQL > of many tasks > a claim skips tasks that another transaction has locked",
    ),
    hangs: true,
  },
  {
    name: "rows-of-others-are-looked-through",
    why: "Where there are few tasks, one that somebody holds keeps every worker from claiming any.",
    in: "generations",
    find: "`straight_join dbq_tasks force index (primary) on id = value for update`",
    replace: "`join dbq_tasks on id = value for update`",
    caughtBy: ofMysql(
      "a store on MySQL > of few tasks > a claim skips tasks that another transaction has locked",
    ),
    hangs: true,
  },
  {
    name: "claim-of-a-dying-worker",
    why: "A task that a worker claims while it is declared dead stays running without a worker until the sweep for orphans.",
    in: "claimStatements.lockWorker",
    find: "`where id = ${p.workerId} ${d.shared}`",
    replace: "`where id = ${p.workerId}`",
    caughtBy: ofMysql("a store on MySQL > a claim returns nothing when a rescue has locked the worker's row"),
  },
  {
    name: "ids-of-thousands-in-the-wrong-order",
    why: "Each of many callers is given the id of another one's task, and awaits that.",
    in: "mysqlSteps.ids",
    find: "ids.push(...(await $rows))",
    replace: "ids.unshift(...(await $rows))",
    caughtBy: onMysql("insert > insert takes thousands of tasks at once and answers each of them"),
  },
  {
    name: "names-are-compared-by-the-collation",
    why: "A worker is given tasks of a function that it does not have, since its name ends with a space.",
    in: "base.same",
    find: "` and cast(${sql.raw(column)} as binary) = ${bytes(parameter)}`",
    replace: "",
    caughtBy: onMysql("claim > a claim compares names of functions and queues byte for byte"),
  },
  {
    name: "row-that-no-update-finds-is-claimed",
    why: "A row whose generation was changed by hand runs again and again, and never ends.",
    in: "changeLocked",
    find: "changed === there.length",
    replace: "changed >= 0",
    caughtBy: onMysql("claim > a row that cannot be claimed does not block other tasks or the next claim"),
  },
  {
    name: "results-of-a-turn-are-one-packet",
    why: "Tasks with large results that end together are settled never, and run again when their worker ends.",
    in: "changeListed",
    find: "for (const some of packets(params, mostListed)) $body",
    replace: "for (const some of [params]) $body",
    caughtBy: {
      file: "test/stores/mysql/limits.full.test.ts",
      test: "limits of MySQL > results are settled together although they exceed a packet: letters",
    },
  },
  {
    name: "results-beside-a-moved-task-are-one-packet",
    why: "Tasks with large results are settled never when they end together with one that was rescued.",
    in: "changeLocked",
    find: "for (const some of packets(there)) $body;",
    replace: "for (const some of [there]) $body;",
    caughtBy: {
      file: "test/stores/mysql/limits.full.test.ts",
      test: "limits of MySQL > results are settled together although they exceed a packet, beside a task that has moved on",
    },
  },
  {
    name: "change-that-missed-a-task-is-not-undone",
    why: "Beside a task that has moved on, results are written twice, and those tasks are reported as lost.",
    in: "mysqlSteps.changes",
    find: 'await queryable.query("rollback to savepoint dbq_changes", []);',
    replace: "",
    caughtBy: ofChanges("changes all but the last task, which has moved on, and says so"),
  },
  {
    name: "change-that-missed-a-task-undoes-the-apps-transaction",
    why: "What an app wrote before in its transaction is gone, and the rest of it is committed.",
    in: "mysqlSteps.changes",
    find: '"rollback to savepoint dbq_changes"',
    replace: '"rollback"',
    caughtBy: ofChanges("leaves what an app's transaction wrote before, where one task has moved on"),
  },
  {
    name: "change-that-missed-a-task-counts-as-whole",
    why: "A worker takes the result of a task that was rescued from it for accepted.",
    in: "mysqlSteps.changes",
    find: "(await changeListed(queryable, query, params)) === params.length",
    replace: "(await changeListed(queryable, query, params)) >= 0",
    caughtBy: ofChanges("changes all but the first task, which has moved on, and says so"),
  },
  {
    name: "results-in-another-order-than-their-tasks",
    why: "Each of the tasks that end together gets the result of another one.",
    in: "changeListed",
    find: "some.map((one) => parameterOf(name, one))",
    replace: '(name === "id" ? some : [...some].reverse()).map((one) => parameterOf(name, one))',
    caughtBy: ofChanges("gives each task its own result > over a connection of dbq"),
  },
  {
    name: "all-have-the-values-of-the-first",
    why: "All tasks that end together get the result of the first one.",
    in: "changeListed",
    find: "some.some((one) => one[name] !== first?.[name])",
    replace: "some.length === 0",
    caughtBy: ofChanges("gives each task its own result > over a connection of dbq"),
  },
  {
    name: "only-the-last-hundred-counts",
    why: "More than a hundred tasks that end together are changed, changed back, and changed once more.",
    in: "changeListed",
    find: "changed += (await queryable.query(listed, lists.flat())).changed;",
    replace: "changed = (await queryable.query(listed, lists.flat())).changed;",
    caughtBy: ofChanges("is one UPDATE for each hundred tasks, where none has moved on"),
  },
  {
    name: "holder-as-it-was-when-the-transaction-began",
    why: "A unique key that somebody took a moment ago makes an app's transaction fail.",
    in: "base.shared",
    find: 'shared: sql.raw("lock in share mode")',
    replace: 'shared: sql.raw("")',
    caughtBy: onMysql(
      "transaction and within > a key that another connection took after the app's transaction began is a duplicate in it",
    ),
  },
  {
    name: "deadlock-of-mysql-is-final",
    why: "Of two enqueues that wait for each other's keys one fails.",
    in: "transient",
    find: "new Set([1213, 1020, 1040, 1203, 3572])",
    replace: "new Set([1020, 1040, 1203, 3572])",
    caughtBy: ofMysql("a store on MySQL > an operation is retried after a deadlock, without an error"),
  },
  {
    name: "interruption-of-mysql-is-final",
    why: "A KILL QUERY or max_statement_time makes tasks fail whose outcome was good.",
    in: "interrupted",
    find: "new Set([1317, 1969])",
    replace: "new Set<number>()",
    caughtBy: {
      file: "test/stores/server/interrupted.full.test.ts",
      test: "a statement that MySQL was told to interrupt is repeated",
    },
  },
  {
    name: "session-of-mysql-is-never-seen",
    why: "The tasks of a worker that was killed on another machine wait for its lease to end.",
    in: "base.sessionLives",
    find: '"case when session is null then null else is_used_lock(session) is not null end"',
    replace: '"case when session is null then null else 1 end"',
    caughtBy: ofMysql(
      "a store on MySQL > a worker's session shows as alive from its first heartbeat to its end",
    ),
  },
  {
    name: "ended-transaction-of-mysql-is-accepted",
    why: "What was forgotten to be awaited in an app's transaction is written after it was rolled back.",
    in: "writerIn",
    find: "if (scopes.some(({ ended }) => ended)) throw endedTransaction();",
    replace: "",
    caughtBy: onMysql(
      "transaction and within > a call after the end of its transaction throws and writes nothing",
    ),
  },
  {
    name: "claim-by-the-primary-key",
    why: "While the statistics are of a backlog that was the whole table, each claim from the start passes over all tasks that have ended.",
    in: "idOfClaims",
    find: 'sql.raw("(id + 0)")',
    replace: 'sql.raw("id")',
    caughtBy: {
      file: "test/conformance/plans-postgres.full.test.ts",
      test: "Postgres with statistics of a backlog that was the whole table > a claim passes over no task that has ended: force_custom_plan",
    },
  },
];
