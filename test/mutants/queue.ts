/** Faults of the queue: enqueue, await, transactions, operations, close. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

/** A case of the conformance suite, on a file. */
const onFile = (test: string) => ({
  file: "test/conformance/sqlite.test.ts",
  test: `'SQLite, a file' > ${test}`,
});
const inQueue = (file: string, test: string) => ({ file: `test/queue/${file}.test.ts`, test });

/** A test of what a second definition of a name is. */
const ofRedefinition = (test: string) => ({ file: "test/base/tasks/redefinition.test.ts", test });

export const queueFaults: readonly Mutant[] = [
  {
    name: "bulk-retry-takes-a-held-key",
    why: "A retry of many fails as a whole, since the database refuses a key that another task holds.",
    in: "TaskOperations.retryEach",
    find: "this.#isRetryable(task) && task.uniqueKey === null && task.rootId === null",
    replace: "this.#isRetryable(task) && task.rootId === null",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > find, edit and act on many > a task whose key another one holds is left out of a retry of many, and the others are retried",
    },
  },
  {
    name: "a-retry-of-many-takes-what-has-run-meanwhile",
    why: "A failed task that somebody else has retried during the search runs once more after it has completed.",
    in: "LookOperations.#matching",
    find: "filter === undefined || ids.length === 0",
    replace: "filter === undefined || ids.length > 0",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > find, edit and act on many > an action on many leaves tasks alone that do not match its filter any more",
    },
  },
  {
    name: "bulk-action-never-pauses",
    why: "A bulk retry takes the write lock again before a worker has had it.",
    in: "pauseForWorkers",
    find: "(await store.workers()).length > 0",
    replace: "false",
    caughtBy: {
      file: "test/features/operate/pause-for-workers.test.ts",
      test: "an action on many rows pauses between its transactions while a worker lives, and only then",
    },
  },
  {
    name: "edit-expires-what-has-started",
    why: "A new expiry of a task between two attempts is accepted, and never kept.",
    in: "LookOperations.edit",
    find: "!mayExpire(task, change)",
    replace: "false",
    caughtBy: {
      file: "test/queue/expiry.test.ts",
      test: "updateTask gives no expiry to a task whose first attempt has started, and may change the rest",
    },
  },
  {
    name: "replicas-have-no-advice",
    why: "An app with withReplicas reads that its Drizzle database is none, and not what to pass instead.",
    in: "adviceOnReplicas",
    find: "isDrizzle(primary, database)",
    replace: "isDrizzle(value, database)",
    caughtBy: inQueue(
      "replicas",
      "a database of withReplicas on Postgres > is refused by openQueue with an error that names $primary",
    ),
  },
  {
    name: "second-function-replaces-in-production",
    why: "Two modules that use one name by mistake run each other's tasks, and nobody hears of it.",
    in: "isMistake",
    find: 'if (environment === "production") return true;',
    replace: "",
    caughtBy: ofRedefinition(
      "a second function under one name > of the same file replaces the first, except in production",
    ),
  },
  {
    name: "second-function-of-one-file-replaces",
    why: "A task that was copied and not renamed silently replaces the first one.",
    in: "isMistake",
    find: "sameFile && first.tick === second.tick",
    replace: "sameFile && first.tick !== first.tick",
    caughtBy: ofRedefinition(
      "a second function under one name > of another line in the same tick is refused everywhere",
    ),
  },
  {
    name: "minified-file-is-one-place",
    why: "In a test, a second task of a bundled file silently replaces the first one, since all is on one line.",
    in: "isSamePlace",
    find: "column === second.column",
    replace: "column !== undefined",
    caughtBy: ofRedefinition(
      "a second function under one name > of another column in the same tick is refused everywhere",
    ),
  },
  {
    name: "closures-of-a-loop-replace-each-other",
    why: "All tasks that a loop defines under one name run its last closure, and nobody hears of it.",
    in: "isMistake",
    find: 'return !(samePlace && environment === "test");',
    replace: "return !samePlace;",
    caughtBy: ofRedefinition(
      "a second function under one name > with the same text in the same place and tick is refused, except in a test",
    ),
  },
  {
    name: "module-that-jest-loads-again-is-refused",
    why: "A Jest test that calls jest.resetModules() and require() twice cannot load its tasks.",
    in: "isMistake",
    find: 'return !(samePlace && environment === "test");',
    replace: "return true;",
    caughtBy: ofRedefinition(
      "a redefinition > by closures of one helper > replaces the first in a test, where Jest loads a module again within a tick",
    ),
  },
  {
    name: "enqueue-waits-for-a-faked-timer",
    why: "An app's test that fakes timers hangs at its first enqueue.",
    in: "GroupCommit.add",
    find: "setImmediate(() => this.#flush())",
    replace: "globalThis.setImmediate(() => this.#flush())",
    caughtBy: inQueue(
      "fake-timers",
      "under vitest's fake timers, with its defaults > a queue and its worker do all that they do, on SQLite",
    ),
    hangs: true,
  },
  {
    name: "transaction-never-ends-for-the-warning",
    why: "Code that a transaction started is told of a mistake when it enqueues after the transaction has ended.",
    in: "inCallback",
    find: "callback.isOpen = false;",
    replace: "",
    caughtBy: inQueue(
      "outside-transaction",
      "on Postgres > an enqueue that begins after the transaction has ended does not warn, even when the transaction caused it",
    ),
  },
  {
    name: "enqueue-outside-of-an-apps-transaction-is-silent",
    why: "A task that was meant to be in the app's transaction runs though that was rolled back, and nobody hears of it.",
    in: "sqliteStore",
    find: "transacting.inTransaction",
    replace: "client.inTransaction",
    caughtBy: inQueue(
      "outside-transaction",
      "on SQLite > queue.enqueueTask in the app's own transaction warns",
    ),
  },
  {
    name: "task-of-an-unregistered-function-is-started",
    why: "A task whose function was unregistered during the claim ends as completed, and nothing was run.",
    in: "Dispatcher.#mayStart",
    find: 'this.#phase === "claiming" && definition.fn !== undefined',
    replace: 'this.#phase === "claiming"',
    caughtBy: {
      file: "test/worker/redefinition.test.ts",
      test: "a task whose function is unregistered during its claim is handed back, and no retry is charged",
    },
    hangs: true,
  },
  {
    name: "key-of-a-scheduled-task-is-free",
    why: "An enqueue with the key of a task that waits fails with an error, instead of giving its id.",
    in: "holds",
    find: 'isIn(["pending", "scheduled", "running"])',
    replace: 'isIn(["pending", "running"])',
    caughtBy: onFile(
      "insert > a pending, scheduled or running task holds its unique key, and an insert with that key returns its id",
    ),
  },
  {
    name: "duplicate-error-is-ignored",
    why: "A caller that asked to be refused gets the id of somebody else's task.",
    in: "idOf",
    find: "duplicate && refuse",
    replace: "duplicate && refuse === undefined",
    caughtBy: inQueue(
      "unique-key",
      'a unique key > that is held rejects a call with onDuplicate "error", with the holder\'s id',
    ),
  },
  {
    name: "enqueue-tasks-writes-half",
    why: "Some of the tasks of one call are written, and the call rejects.",
    in: "taskMethods.insert",
    find: "isOneStatement(tasks) ? run : write",
    replace: "isOneStatement(tasks) ? run : run",
    caughtBy: inQueue("enqueue-many", "enqueueTasks writes no task when the database refuses one"),
  },
  {
    name: "plain-insert-drops-options",
    why: "A task that is enqueued in the same tick as a task without options loses its meta, its timeout or its trace.",
    in: "TaskOperations.insert",
    find: "free.every(isPlain)",
    replace: "free.some(isPlain)",
    caughtBy: onFile(
      "insert > insert stores an option of a task that has no other, by itself and beside a task without options",
    ),
  },
  {
    name: "close-does-not-wait-for-writes",
    why: "An enqueue that was under way when the queue closed fails, though it was accepted.",
    in: "GroupCommit.close",
    find: "await this.#writing",
    replace: "await Promise.resolve()",
    caughtBy: {
      file: "test/queue/group-commit.test.ts",
      test: "GroupCommit > close writes the calls so far, waits for writes under way, and refuses later calls",
    },
  },
  {
    name: "failed-write-poisons-the-next",
    why: "After one write that failed every later enqueue of the process fails too.",
    in: "GroupCommit.#write",
    find: "reject(error);",
    replace: "reject(error); this.#closed = true;",
    caughtBy: {
      file: "test/queue/group-commit.test.ts",
      test: "GroupCommit > a failed write rejects its own calls, and no later ones",
    },
  },
  {
    name: "neighbours-share-a-refusal",
    why: "One task with a date that the database does not have makes the enqueues of all others fail.",
    in: "GroupCommit.#write",
    find: "if (isRefusal && batch.length > 1 && refused.calls < maxRefusals) return await this.#writeHalves(batch, refused);",
    replace: "",
    caughtBy: {
      file: "test/queue/group-commit.test.ts",
      test: "GroupCommit > a call that the database refuses rejects no other call, and ids stay in order",
    },
  },
  {
    name: "delay-is-ignored",
    why: "A task that was to run in an hour runs now.",
    in: "newRow",
    find: "`> ${now} then 'scheduled' else 'pending' end`",
    replace: "`> ${now} then 'pending' else 'pending' end`",
    caughtBy: onFile("insert > a waitUntil in the future, or a delay, makes a task scheduled"),
  },
  {
    name: "await-misses-a-purge",
    why: "An await of a deleted task never ends.",
    in: "Completions.#query",
    find: "for (const id of gone) this.#settle(id, (entry) => entry.reject(new TaskNotFoundError(id)));",
    replace:
      "for (const id of gone.slice(gone.length)) this.#settle(id, (entry) => entry.reject(new TaskNotFoundError(id)));",
    caughtBy: inQueue(
      "await",
      "awaitTaskCompletion > rejects for an unknown id, and for a task that is purged while it is awaited",
    ),
    hangs: true,
  },
  {
    name: "await-outlives-its-queue",
    why: "An await never ends when its queue closes.",
    in: "CoreQueue.#close",
    find: "this.#completions.close();",
    replace: "",
    caughtBy: inQueue("wakeups", "an await rejects at once, without a poll, when its queue closes"),
  },
  {
    name: "await-keeps-its-listeners",
    why: "A signal that many awaits share grows with each of them.",
    in: "Completions.wait",
    find: 'signal?.removeEventListener("abort", onAbort);',
    replace: "",
    caughtBy: inQueue(
      "await",
      "awaitTaskCompletion > removes its listener from the signal when it has ended",
    ),
  },
  {
    name: "await-gives-up-without-a-last-look",
    why: "After a busy event loop an await times out whose task ended in time.",
    in: "Completions.#onTimeout",
    find: "this.#late.push({ id, act })",
    replace: "act()",
    caughtBy: inQueue("wakeups", "an await whose timer fires late resolves with a task that ended in time"),
  },
  {
    name: "ends-are-not-hinted-at",
    why: "An await in the worker's own process resolves half a second late, by the poll.",
    in: "Dispatcher.#settleAndClaim",
    find: "this.#host.wakeups.taskEnded(outcomes.map(({ id }) => id));",
    replace: "",
    caughtBy: inQueue(
      "wakeups",
      "an await resolves at once, without a poll, when a worker of this process ends the task",
    ),
  },
  {
    name: "cancels-are-not-hinted-at",
    why: "An await in the process that cancels resolves half a second late, by the poll.",
    in: "CoreQueue.cancelTask",
    find: "wakeups.taskChanged(record.rootId === null ? [id] : undefined);",
    replace: "",
    caughtBy: inQueue(
      "wakeups",
      "an await resolves at once, without a poll, when this process cancels the task",
    ),
  },
  {
    name: "purges-are-not-hinted-at",
    why: "An await in the process that purges rejects half a second late, by the poll.",
    in: "purge",
    find: "wakeups.taskChanged(); const { func, queueName } = read;",
    replace: "const { func, queueName } = read;",
    caughtBy: inQueue(
      "wakeups",
      "an await rejects at once, without a poll, when this process purges the task",
    ),
  },
  {
    name: "enqueues-wake-nobody",
    why: "A task waits for the next poll of the worker in its own process.",
    in: "CoreQueue.constructor",
    find: "this.#internals.wakeups.workAdded(tasks.some(isDelayed));",
    replace: "",
    caughtBy: inQueue("wakeups", "a task that this process enqueues starts at once, without a poll"),
  },
  {
    name: "commits-within-wake-nobody",
    why: "A task of a transaction waits for the next poll of the worker in its own process.",
    in: "CoreQueue.#wakeAfterThisTick",
    find: "setImmediate(() => this.#internals.wakeups.workAdded(true));",
    replace: "",
    caughtBy: inQueue("wakeups", "a task that the app's transaction enqueues starts at once, without a poll"),
  },
  {
    name: "within-writes-after-the-end",
    why: "A task of a transaction that was rolled back is written into the next one.",
    in: "inTransaction.checkOpen",
    find: "client.inTransaction && !ended.has(tx as object)",
    replace: "client.inTransaction",
    caughtBy: inQueue(
      "within",
      "a queue inside a transaction > of an async callback writes nothing into a later transaction",
    ),
  },
  {
    name: "async-callback-commits",
    why: "A callback that returns a promise commits before it has done its work.",
    in: "runTransaction.run",
    find: "return refuseThenable(fn(tx));",
    replace: "return fn(tx) as T;",
    caughtBy: inQueue(
      "transaction",
      "a transaction of a queue on a path > is rolled back when the callback returns a promise or another thenable",
    ),
  },
  {
    name: "queue-writes-into-the-apps-transaction",
    why: "An enqueue beside an open transaction of the app is acknowledged, and rolled back with it.",
    in: "sqliteStore.runner",
    find: "refuseOpenTransaction(client);",
    replace: "",
    caughtBy: inQueue(
      "within",
      "a queue inside a transaction > does not touch an open transaction on the app's connection",
    ),
  },
  {
    name: "purge-takes-running-tasks",
    why: "A purge deletes what workers are running, without being asked to.",
    in: "queries.isPurgeable",
    find: "includeRunning ? sql`` : sql`and status <> 'running'`",
    replace: "sql``",
    caughtBy: onFile(
      "purge and prune > purge deletes tasks of every status but running, and their attempts and log lines",
    ),
  },
  {
    name: "purge-in-one-transaction",
    why: "A purge of thousands keeps everybody else from writing until it is done.",
    in: "purgeBatch",
    find: "500",
    replace: "1_000_000",
    caughtBy: inQueue(
      "purge-batches",
      "a purge deletes at most 500 tasks in one transaction, and other connections can write after each",
    ),
  },
  {
    name: "pages-skip-a-task",
    why: "A list that is read page by page misses one task between each two pages.",
    in: "queries.list",
    find: "`and id < ${after}`",
    replace: "`and id < ${after} - 1`",
    caughtBy: onFile(
      "get, list, count, idle, attempts > list returns the newest first, in pages that neither skip nor repeat a task",
    ),
  },
  {
    name: "running-tasks-in-the-order-of-ids",
    why: "SQLite reads a million tasks to find the ten that run: dbq top, dbq tail and the dashboard wait for it.",
    in: "newestFirst",
    find: 'isOnlyRunning(filter) ? "id + 0 desc" : "id desc"',
    replace: '"id desc"',
    caughtBy: {
      file: "test/conformance/plans.test.ts",
      test: "SQLite with statistics: false > list reads a page from the end of the table, or by the index of its filter",
    },
  },
  {
    name: "pages-without-an-end",
    why: "A list of fifty brings a million rows into memory.",
    in: "queries.list",
    find: "`order by ${sql.raw(newestFirst(filter))} limit ${limit}`",
    replace: "`order by ${sql.raw(newestFirst(filter))} limit ${limit} * 1000`",
    caughtBy: onFile(
      "get, list, count, idle, attempts > list returns the newest first, in pages that neither skip nor repeat a task",
    ),
  },
  {
    name: "end-before-the-last-lines",
    why: "Who watches a task with a long log sees it end in the middle of its lines.",
    in: "FollowedTask.eventsIn",
    find: "!finished || moreLines || !record",
    replace: "!finished || !record",
    caughtBy: inQueue(
      "watch",
      "more lines than one look reads are all delivered, in order, before the final status",
    ),
  },
  {
    name: "end-of-a-watch-waits-for-an-event",
    why: "A stream of a task's events that is destroyed goes on looking at the database until the task ends.",
    in: "endedBy",
    find: "end(); return finish.call(events, value);",
    replace: "return finish.call(events, value);",
    caughtBy: inQueue(
      "watch",
      "a watch that is ended while it waits for an event > by the end of its stream, closes the stream and leaves nothing behind",
    ),
    hangs: true,
  },
  {
    name: "aborted-watch-stays-subscribed",
    why: "A reader that never comes back after it was aborted leaves a watch on the database's folder behind.",
    in: "TaskWatches.#eventsOf",
    find: "watch.reject(signal?.reason); this.#remove(watch);",
    replace: "watch.reject(signal?.reason);",
    caughtBy: inQueue(
      "watch",
      "a watch whose reader is busy leaves nothing behind when its signal is aborted",
    ),
  },
  {
    name: "ended-watch-leaves-its-timer",
    why: "A watch that was ended asks the database once more, for nobody.",
    in: "TaskWatches.#remove",
    find: "if (this.#waiting.size > 0) return;",
    replace: "if (this.#open.size > 0) return;",
    caughtBy: inQueue(
      "watch-timer",
      "a watch that is ended while it waits leaves no timer, also beside a watch whose reader is busy",
    ),
  },
];
