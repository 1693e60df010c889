// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
/** Faults of what is done with a server: repeats, transactions, what others are told. */
import type { Mutant } from "./mutant.ts";

const inFile = (file: string) => (test: string) => ({ file: `test/${file}.test.ts`, test });
const ofRun = inFile("stores/server/run");
const ofAnswers = inFile("stores/postgres/answers");
const ofSessions = inFile("stores/postgres/sessions.full");
const ofRepeats = inFile("stores/server/repeats");
const ofHeld = inFile("stores/server/held-rows.full");

/** A case of the conformance suite. */
const onPostgres = (test: string) => ({
  file: "test/conformance/postgres.test.ts",
  test: `'Postgres' > ${test}`,
});

/** A test of a connection that the server ends in an app's transaction. */
const ofEnded = inFile("stores/server/ended-connections.full");

export const serverFaults: readonly Mutant[] = [
  {
    name: "ended-connection-ends-the-process",
    why: "A server that restarts in the middle of a transaction of the app's ends the whole process.",
    in: "holdClient",
    find: 'client.on("error", ignore);',
    replace: "",
    caughtBy: ofEnded(
      "on Postgres > over a pool of node-postgres > an ended connection in queue.within rejects, and ends no process",
    ),
  },
  {
    name: "client-is-held-for-ever",
    why: "Each transaction leaves a listener on a connection of the app's pool, until Node warns of a leak.",
    in: "holdClient",
    find: 'client.off("error", ignore)',
    replace: "undefined",
    caughtBy: ofEnded(
      "on Postgres > over a pool of node-postgres > queue.within takes its listener off when the transaction has ended",
    ),
  },
  {
    name: "client-of-dbqs-own-transaction-is-not-held",
    why: "Where dbq writes through the app's pool, a connection that ends between two statements ends the process.",
    in: "queryableOf",
    find: "holdClient(tx);",
    replace: "",
    caughtBy: ofEnded("on Postgres > dbq listens for errors in its own transactions on a pool of the app's"),
  },
  {
    name: "rollback-is-not-sent",
    why: "What failed halfway is committed with what the same connection does next.",
    in: "transacted",
    find: 'await queryable.query("rollback", []).catch(() => undefined);',
    replace: "",
    caughtBy: ofRun("a transaction > is rolled back when it fails, and throws the failure"),
  },
  {
    name: "unknown-outcome-is-repeated",
    why: "A connection that breaks at the wrong moment enqueues a task twice.",
    in: "ServerRunner.#retrying",
    find: "lost && !repeatable && execution?.undecided",
    replace: "lost && !repeatable && execution === undefined",
    caughtBy: ofAnswers(
      "a lost answer of Postgres > an enqueue without a unique key fails with an unknown outcome and is not repeated",
    ),
  },
  {
    name: "commit-without-an-answer-is-thought-undone",
    why: "A connection that breaks during a commit enqueues the tasks of a call twice.",
    in: "Execution.#inside",
    find: "this.undecided = true;",
    replace: "",
    caughtBy: ofRun(
      "an operation that may have happened > is not repeated when a second run would matter: a commit without an answer",
    ),
  },
  {
    name: "refusable-duplicate-is-repeated",
    why: "An enqueue that must be no duplicate is refused because of itself.",
    in: "insert.insertAgain",
    find: "if (tries > 0 && (yield* areThere(ops, tasks, made))) return made;",
    replace: "",
    caughtBy: ofAnswers(
      "a lost answer of Postgres > a repeated enqueue that must not be a duplicate is not refused because of its own task",
    ),
  },
  {
    name: "keyed-enqueue-gives-up",
    why: "A connection that breaks makes an enqueue fail that could have been repeated.",
    in: "insert.repeatable",
    find: "repeatable: keyed === tasks.length",
    replace: "repeatable: keyed > tasks.length",
    caughtBy: ofAnswers(
      "a lost answer of Postgres > an enqueue with a unique key is repeated and finds its own task",
    ),
  },
  {
    name: "transaction-of-the-app-is-run-twice",
    why: "A connection that breaks during its commit makes an app's callback run again, with all that it does.",
    in: "runTransaction",
    find: "return begun ? runner.toDatabaseError(error) : undefined;",
    replace: "return begun && error === undefined ? runner.toDatabaseError(error) : undefined;",
    caughtBy: ofAnswers("a lost answer of Postgres > an app's transaction is not run a second time"),
  },
  {
    name: "registering-without-an-answer-fails",
    why: "A worker does not start because a connection broke, though it is registered.",
    in: "register",
    find: "if (!(error instanceof OutcomeUnknownError)) throw error;",
    replace: "if (error instanceof Error) throw error;",
    caughtBy: ofAnswers("a lost answer of Postgres > register checks whether the worker's row was written"),
  },
  {
    name: "turn-without-an-answer-is-repeated",
    why: "Tasks that were claimed while the connection broke stay running, and no worker runs them.",
    in: "storeOver.settleAndClaim",
    find: "runner.run(op, settlingAndClaiming)",
    replace: "runner.run(op)",
    caughtBy: ofAnswers(
      "a lost answer of Postgres > a claim is not repeated, since its first result would be lost",
    ),
  },
  {
    name: "deadlock-is-surfaced",
    why: "Of two workers that wait for each other one fails, where it had only to begin anew.",
    in: "ServerRunner.retry",
    find: "final.has(failure)",
    replace: 'failure !== "lost"',
    caughtBy: ofRun("a failed operation > (transient) is repeated, without an error"),
  },
  {
    name: "second-change-of-a-row-is-lost",
    why: "Two outcomes of one task are both reported as accepted, and one of them was never written.",
    in: "Execution.#inRounds",
    find: "!seen.has(params[i]?.id) && seen.add(params[i]?.id)",
    replace: "seen.add(params[i]?.id)",
    caughtBy: onPostgres("settle > of two outcomes of one kind for one task, the first is accepted"),
  },
  {
    name: "nul-is-sent",
    why: "A task whose error contains a NUL can never be settled, and runs again and again.",
    in: "storable",
    find: 'text.replaceAll("\\0", "\\ufffd").toWellFormed()',
    replace: "text",
    caughtBy: onPostgres(
      "settle > an attempt is kept when its error text contains invalid characters, with the rest of the text",
    ),
  },
  {
    name: "claims-are-told-to-all",
    why: "Each claim of a worker wakes all the others, which then claim in vain and wake others.",
    in: "Execution.atomically",
    find: "if (!awaited) [this.changed, this.quiet] = [changed, quiet];",
    replace: "",
    caughtBy: ofRun(
      "other processes are notified > neither of reads, nor of changes that no process waits for",
    ),
  },
  {
    name: "commits-are-not-told",
    why: "What one process enqueues, another one begins at its next poll.",
    in: "ServerRunner.#committed",
    find: 'if (changed || rewinds) this.notifier?.notify(rewinds ? "rewind" : quiet ? "quiet" : "work");',
    replace: "",
    caughtBy: ofRun("other processes are notified > of changes, once, after the commit"),
  },
  {
    name: "a-claim-hides-the-settlement-before-it",
    why: "A settlement is not notified where the claim after it has a transaction of its own.",
    in: "Execution.atomically",
    find: "if (!awaited) [this.changed, this.quiet] = [changed, quiet];",
    replace: "if (!awaited) [this.changed, this.quiet] = [false, quiet];",
    caughtBy: ofRun(
      "other processes are notified > neither of reads, nor of changes that no process waits for",
    ),
  },
  {
    name: "quiet-changes-hide-others",
    why: "One NOTIFY for a quiet settlement and an enqueue wakes no worker.",
    in: "PostgresListener.notify",
    find: "this.#pending = later(change, this.#pending);",
    replace: "this.#pending = change;",
    caughtBy: inFile("stores/postgres/listener.full")(
      'one notification of ["work","quiet"] says whether a task may start, and where to look',
    ),
  },
  {
    name: "a-change-after-a-quiet-one-is-quiet",
    why: "What an operation changes after a quiet settlement wakes no worker.",
    in: "Execution.#noteChange",
    find: "this.quiet = false;",
    replace: "",
    caughtBy: ofRun(
      "other processes are notified > that no task can start because of a change, unless another change of the operation says otherwise",
    ),
  },
  {
    name: "a-lost-notification-is-not-sent-again",
    why: "A place under a limit stays free until the next poll when the connection breaks before the NOTIFY.",
    in: "PostgresListener.#notifyAll",
    find: "if (!isSent) this.#pending = later(change, this.#pending);",
    replace: "",
    caughtBy: inFile("stores/postgres/listener.full")(
      "a notification whose connection is lost is sent again, with what was committed meanwhile",
    ),
  },
  {
    name: "notifications-wait-for-a-shared-connection",
    why: "While a worker uses all of its connections, others do not hear which tasks they may start.",
    in: "PostgresListener.#send",
    find: "if (await this.#session.notify(payload)) return true;",
    replace: "",
    caughtBy: inFile("stores/postgres/listener.full")(
      "a process that listens > notifies others on that connection, though all shared ones are in use",
    ),
  },
  {
    name: "a-process-ends-before-it-has-notified",
    why: "Others do not hear of what a process did last, before it had nothing more to do.",
    in: "ListeningSession.notify",
    find: "keepAlive(client, true);",
    replace: "",
    caughtBy: inFile("stores/postgres/listener.full")(
      "a process that listens > lives on until a notification is answered, however little else it has to do",
    ),
  },
  {
    name: "a-connection-that-fails-to-notify-is-kept",
    why: "A connection that was cut without a sign takes each notification for half a minute, and sends none.",
    in: "ListeningSession.notify",
    find: "this.#listenLater(client);",
    replace: "",
    caughtBy: inFile("stores/postgres/listener.full")(
      "a process that listens > listens on another connection when a notification fails on that one without more",
    ),
  },
  {
    name: "only-a-process-that-listens-notifies",
    why: "What a process without a worker enqueues in a transaction, others begin at their next poll.",
    in: "PostgresListener.#send",
    find: "if (await this.#session.notify(payload)) return true;",
    replace: "return await this.#session.notify(payload);",
    caughtBy: inFile("stores/postgres/listener.full")(
      "a process that listens > notifies others on a shared connection while that one is being made again",
    ),
  },
  {
    name: "inserts-that-tell-nothing-are-not-told",
    why: "Of two enqueues close together, only the first wakes other processes; the second waits for their poll.",
    in: "Execution.#insert",
    find: "payload === undefined ? this.#noteChange(answer) : answer",
    replace: "answer",
    caughtBy: ofRun(
      "other processes are notified > by an insert itself, unless a notification was just sent or it is part of a transaction",
    ),
  },
  {
    name: "notify-is-not-sent-inside-of-a-transaction",
    why: "What an app's transaction enqueues, other processes begin at their next poll.",
    in: "writerIn.write",
    find: "await kind.notifyInside?.(queryable);",
    replace: "",
    caughtBy: ofSessions(
      "notifications on Postgres > a task in an app's transaction is notified when it commits",
    ),
  },
  {
    name: "end-of-a-transaction-does-not-wait",
    why: "An app's transaction is rolled back, and the task that it was enqueueing is there, or completed.",
    in: "waitBeforeEnds",
    find: "if (scope) await end(scope);",
    replace: "",
    caughtBy: onPostgres(
      "transaction and within > a write that is not awaited commits or rolls back with the app's own transaction",
    ),
  },
  {
    name: "ended-transaction-is-accepted",
    why: "What was forgotten to be awaited in an app's transaction is written after it was rolled back.",
    in: "writerIn.write",
    find: "await kind.checkOpen(tx, queryable);",
    replace: "",
    caughtBy: inFile("stores/postgres/store")(
      "a store on Postgres > within refuses a transaction that had ended before it was first used",
    ),
  },
  {
    name: "transaction-of-the-app-takes-the-queues-connection",
    why: "Transactions whose callbacks enqueue on the queue itself wait for each other without end.",
    in: "openConnections.transact",
    find: "apps.use",
    replace: "pool.use",
    caughtBy: inFile("stores/postgres/store")(
      "a store on Postgres > operations work beside a transaction that the store has opened",
    ),
    hangs: true,
  },
  {
    name: "servers-are-migrated-without-a-lock",
    why: "Of several processes that open a new database at once, all but one fail.",
    in: "applyLocked",
    find: "if (text.lock !== undefined) yield* ask(text.lock);",
    replace: "",
    caughtBy: inFile("stores/postgres/store")(
      "a store on Postgres > open waits while another process migrates",
    ),
  },
  {
    name: "heartbeat-of-servers-on-the-event-loop",
    why: "A worker whose handler blocks the event loop for longer than the lease is declared dead, and the task runs twice.",
    in: "storeOver.keepAlive",
    find: "reach.heartbeatThread(workerId, strategy)",
    replace: "undefined",
    caughtBy: ofSessions("a worker's session on Postgres > sends heartbeats while the event loop is blocked"),
  },
  {
    name: "key-of-a-task-that-has-ended",
    why: "A connection that breaks during a commit charges a customer twice, though the enqueue had a key.",
    in: "areThere",
    find: "if (own.size === 0) return false;",
    replace: "if (own.size >= 0) return false;",
    caughtBy: ofRepeats(
      "a lost answer to a COMMIT on Postgres > an enqueue with a key whose task has completed meanwhile leaves one task",
    ),
  },
  {
    name: "retry-of-what-has-run-again",
    why: "A connection that breaks during a commit makes a task run twice that an operator retried once.",
    in: "TaskOperations.retry",
    find: "expected === undefined || expected === task.generationId",
    replace: "expected === undefined || expected > 0",
    caughtBy: ofRepeats(
      "a lost answer to a COMMIT on Postgres > a retry whose task has completed meanwhile runs once more, not twice",
    ),
  },
  {
    name: "more-than-an-insert-without-a-transaction",
    why: "Of six hundred tasks of one call five hundred are written, and the call fails.",
    in: "mysqlSteps.isOneInsert",
    find: "[...packets(tasks)].length === 1",
    replace: "tasks.length > 0",
    caughtBy: inFile("stores/mysql/many-rows.full")(
      "an insert of several statements on MySQL > writes nothing when one task cannot be written",
    ),
  },
  {
    name: "own-begin-is-not-seen",
    why: "An enqueue commits what an app has begun by itself, and has not decided yet.",
    in: "writerBeside",
    find: "await kind.hasBegun(queryable)",
    replace: "false",
    caughtBy: inFile("stores/postgres/store")(
      "a store on Postgres > a write joins a transaction that the app has begun with BEGIN",
    ),
  },
  {
    name: "session-that-was-cut-off-keeps-its-lock",
    why: "A worker whose heartbeat connection ended sends no more heartbeats, and its tasks run twice.",
    in: "openSession",
    find: "lockName = `${session}:${sessions}`",
    replace: "lockName = session ?? `${session}:${sessions}`",
    caughtBy: inFile("stores/server/heartbeat-cut-off.full")(
      "on MySQL > a heartbeat that was cut off continues on another connection",
    ),
  },
  {
    name: "heartbeat-stays-with-a-host-that-cannot-write",
    why: "After a failover a worker that runs tasks looks dead to all others.",
    in: "query",
    find: "if (!isHeld(error)) passOver();",
    replace: "",
    caughtBy: inFile("stores/server/heartbeat-cut-off.full")(
      "on Postgres > a heartbeat uses the next host when the first accepts it and cannot write",
    ),
  },
  {
    name: "held-row-holds-up-the-dead",
    why: "A transaction of the app that holds one task keeps those of all dead workers from running again.",
    in: "workerStatements.lockHeldBy",
    find: "`${heldBy(p)} ${d.skipLocked}`",
    replace: "`${heldBy(p)} ${d.locked}`",
    caughtBy: ofHeld("on Postgres, skip-locked > a rescue skips a locked task, and a later one frees it"),
    hangs: true,
  },
  {
    name: "dead-worker-is-forgotten-beside-a-held-task",
    why: "A task whose row was locked when its worker died stays running until the sweep for orphans.",
    in: "MaintenanceOperations.rescue",
    find: "if (!among && !(yield* this.#holdsOthers(workerId, held))) yield* count(this.#s.removeWorker, { workerId });",
    replace: "yield* count(this.#s.removeWorker, { workerId });",
    caughtBy: ofHeld("on Postgres, skip-locked > a rescue skips a locked task, and a later one frees it"),
  },
];
