/** Faults of how SQLite is used: locks, transactions, migrations, plans, durability, wake-ups between processes. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const plan = (statement: string) => ({
  file: "test/conformance/plans.test.ts",
  test: `SQLite with statistics: false > ${statement} finds its rows by the index that was made for it`,
});
const inQueue = (file: string, test: string) => ({ file: `test/queue/${file}.test.ts`, test });

export const databaseFaults: readonly Mutant[] = [
  {
    name: "emptied-log-takes-commits",
    why: "After somebody has cut the log of a live queue to nothing, each task is acknowledged and lost.",
    in: "LogHeader.isLost",
    find: "isBlank && this.#hasBegun",
    replace: "false",
    caughtBy: {
      file: "test/stores/sqlite/moved-log.test.ts",
      test: "a log that another program has emptied > takes no more acknowledged writes, and the file can be opened anew",
    },
  },
  {
    name: "deferred-for-immediate",
    why: "Under load a transaction that has read finds at its first write that it has to begin anew, and starves.",
    in: "SqliteConnection.atomically",
    find: "this.#transaction.immediate",
    replace: "this.#transaction.deferred",
    caughtBy: {
      file: "test/stores/sqlite/connection.test.ts",
      test: "a write takes the write lock before its first statement",
    },
  },
  {
    name: "a-deleted-log-takes-commits",
    why: "Tasks are acknowledged into a log that no other process reads, and that ends with this one.",
    in: "SqliteConnection.#notifyingCommit",
    find: "if (this.#wrote) this.verify();",
    replace: "",
    caughtBy: {
      file: "test/stores/sqlite/moved-log.test.ts",
      test: "enqueueTask > is refused at once when the log was deleted, and is in no file",
    },
  },
  {
    name: "a-deleted-index-of-the-log-takes-commits",
    why: "The connection writes over what other processes have committed since the index of the log was deleted.",
    in: "FileIdentity.#lookAtIndex",
    find: "this.#lost || this.#index === undefined",
    replace: "true",
    caughtBy: {
      file: "test/stores/sqlite/moved-log.test.ts",
      test: "what another program commits after the index of the log was deleted is not written over",
    },
  },
  {
    name: "a-log-lost-before-the-commit",
    why: "A transaction is acknowledged although the log was deleted before its commit.",
    in: "sqliteStore.transaction",
    find: "file?.identity.verify();",
    replace: "",
    caughtBy: {
      file: "test/stores/sqlite/moved-log.test.ts",
      test: "a transaction that loses the log before its commit is rejected, or reported where the app commits",
    },
  },
  {
    name: "two-logs-mixed",
    why: "A second connection of a process shares the memory of a deleted log, and reads the pages of another one by it.",
    in: "openFile",
    find: "refuseLost(path);",
    replace: "",
    caughtBy: {
      file: "test/stores/sqlite/moved-log.test.ts",
      test: "a log that was deleted by hand > is noticed, what it held is saved, and the queue is opened anew once it was closed",
    },
  },
  {
    name: "deferred-turn",
    why: "A turn reads what it settles and claims before it has the right to write, and starves under load.",
    in: "SqliteConnection.#inTransaction",
    find: "const result = this.#transaction.immediate(op);",
    replace: "const result = this.#transaction.deferred(op);",
    caughtBy: {
      file: "test/stores/sqlite/connection.test.ts",
      test: "a transaction inside an operation takes the write lock before its first statement",
    },
  },
  {
    name: "deferred-transaction-of-the-app",
    why: "An app's transaction that reads first fails with SQLITE_BUSY_SNAPSHOT when it writes.",
    in: "runTransaction.attempt",
    find: 'behavior: "immediate"',
    replace: 'behavior: "deferred" as never',
    caughtBy: inQueue(
      "transaction",
      "a transaction of a queue on a path > holds the write lock from its start",
    ),
  },
  {
    name: "waits-inside-sqlite",
    why: "A process that waits for the write lock answers nothing else for up to five seconds.",
    in: "nativeTimeout",
    find: "5",
    replace: "3_000",
    caughtBy: inQueue(
      "transaction",
      "a transaction of a queue on a path > waits for a busy database without blocking the event loop, and calls the callback once",
    ),
  },
  {
    name: "busy-reaches-the-caller",
    why: "An enqueue fails because somebody else is writing.",
    in: "isBusy",
    find: 'code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED")',
    replace: 'code.startsWith("SQLITE_LOCKED")',
    caughtBy: inQueue(
      "enqueue",
      "the enqueue calls of one tick > wait for another connection's transaction without blocking the event loop, together with later calls",
    ),
  },
  {
    name: "migrates-without-a-lock",
    why: "Of several processes that open a new database at once, all but one fail.",
    in: "migrate",
    find: "write(() => applyLocked(text, database))",
    replace: "run(() => applyLocked(text, database))",
    caughtBy: {
      file: "test/stores/sqlite/migrate-locked.test.ts",
      test: "no other connection can write between the statements of a migration",
    },
  },
  {
    name: "newer-tables-are-used",
    why: "An old build writes into tables whose meaning has changed.",
    in: "refuseNewer",
    find: "if (last <= newestOf(text)) return;",
    replace: "if (last >= 0) return;",
    caughtBy: inQueue(
      "migrate",
      "tables that this build cannot use > of a newer build are refused, and not changed",
    ),
  },
  {
    name: "durability-is-left-to-chance",
    why: "A power cut undoes what enqueueTask has acknowledged.",
    in: "configure",
    find: "`synchronous = ${synchronous}`",
    replace: "`synchronous = ${synchronous === undefined ? 0 : 1}`",
    caughtBy: inQueue(
      "targets",
      "a file that dbq opens > is in WAL mode with synchronous full, unless the option says otherwise",
    ),
  },
  {
    name: "no-wal",
    why: "Readers and writers block each other.",
    in: "useWal",
    find: '"journal_mode = wal"',
    replace: '"journal_mode = delete"',
    caughtBy: inQueue(
      "targets",
      "a file that dbq opens > is in WAL mode with synchronous full, unless the option says otherwise",
    ),
  },
  {
    name: "unsafe-sqlite-is-used",
    why: "A SQLite that can lose commits is taken.",
    in: "checkVersion",
    find: "older(version, oldestSqlite)",
    replace: 'older(version, "3.0.0")',
    caughtBy: inQueue("targets", "openQueue refuses by name > a SQLite version that can lose commits"),
  },
  {
    name: "moved-file-is-written-to",
    why: "After the file was replaced, enqueues into the deleted file are acknowledged.",
    in: "FileIdentity.#throwWhenMoved",
    find: "!this.#isThere",
    replace: "this.#isThere === undefined",
    caughtBy: {
      file: "test/worker/moved-database.full.test.ts",
      test: "a database file that is deleted is reported, and a new file in its place is not touched",
    },
  },
  {
    name: "claim-misses-its-index",
    why: "A claim beside a million finished tasks takes 98 ms instead of 0.016.",
    in: "claimable",
    find: "`and status = 'pending'`",
    replace: "`and status || '' = 'pending'`",
    caughtBy: plan("claimable"),
  },
  {
    name: "keys-miss-their-index",
    why: "Each enqueue with a unique key goes through the whole table.",
    in: "sqliteDialect.holdsKey",
    find: "`unique_key = ${key} and ${sql.raw(holds)}`",
    replace: "`unique_key = ${key} and +status in ('pending', 'scheduled', 'running')`",
    caughtBy: plan("holder"),
  },
  {
    name: "index-of-running-tasks-is-gone",
    why: "To free a dead worker's tasks takes longer the more tasks have ever been.",
    find: "`CREATE INDEX \\`dbq_tasks_running\\` ON \\`dbq_tasks\\` (\\`worker_id\\`) WHERE status = 'running'`",
    replace:
      "`CREATE INDEX \\`dbq_tasks_running\\` ON \\`dbq_tasks\\` (\\`worker_id\\`) WHERE status = 'completed'`",
    caughtBy: plan("heldBy"),
  },
  {
    name: "other-processes-are-not-heard",
    why: "What another process enqueues is begun at the next poll.",
    in: "SqliteWatch.#look",
    find: "if (changed) for (const listener of [...this.#listeners]) listener();",
    replace: "",
    caughtBy: {
      file: "test/stores/sqlite/watch.test.ts",
      test: "a commit of another connection is reported",
    },
  },
  {
    name: "commits-are-not-nudged",
    why: "With synchronous full every start in another process comes milliseconds late.",
    in: "SqliteConnection.#notifyingCommit",
    find: "if (this.#changed) this.onCommit();",
    replace: "",
    caughtBy: {
      file: "test/stores/sqlite/touch.test.ts",
      test: "operations that others may wait for touch the file, and operations without a change do not",
    },
  },
  {
    name: "heartbeat-tries-again-late",
    why: "After a full disk, living workers are declared dead before they can send a heartbeat.",
    in: "sendOnce",
    find: "Math.min(every, busy ? retryAfter.busy : retryAfter.failed)",
    replace: "busy ? retryAfter.busy : every",
    caughtBy: {
      file: "test/stores/sqlite/heartbeat.test.ts",
      test: "a failed heartbeat is repeated soon, also between rare heartbeats",
    },
  },
  {
    name: "heartbeat-in-a-moved-file",
    why: "A process that opens the moved file waits without end for a worker that has stopped there.",
    in: "isMoved",
    find: "inodeOf(path) !== inodes.file",
    replace: "inodes.file === undefined",
    caughtBy: {
      file: "test/stores/sqlite/heartbeat.test.ts",
      test: "no heartbeat is written to a file that was moved, and they continue when it is back",
    },
  },
  {
    name: "no-heartbeat-thread-and-no-word-of-it",
    why: "In a bundle without a driver beside it, a blocked event loop makes tasks run twice, and nobody was warned.",
    in: "driverFile",
    find: 'report($any, "heartbeat thread")',
    replace: "undefined",
    caughtBy: {
      file: "test/stores/sqlite/heartbeat.test.ts",
      test: "a driver that the thread could not load is reported, with what follows from it",
    },
  },
];
