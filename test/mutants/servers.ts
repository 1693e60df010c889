/** Faults of what all servers share: connections, repeats, transactions, and workers whose sessions end. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const pool = "src/stores/server-pool.ts";
const run = "src/stores/server-run.ts";
const server = "src/stores/server.ts";
const url = "src/stores/server-url.ts";
const upkeep = "src/upkeep.ts";

const unit = (file: string) => (test: string) => ({ file: `test/unit/${file}.test.ts`, test });
const ofPool = unit("server-pool");
const ofRun = unit("server-run");
const ofUrl = unit("server-url");
const ofAnswers = unit("server-postgres-answers");
const ofSessions = unit("server-postgres-sessions");
const deaths = unit("upkeep");

/** A case of the conformance suite. */
const onPostgres = (test: string) => ({
  file: "test/conformance/postgres.test.ts",
  test: `'Postgres' > ${test}`,
});

export const serverFaults: readonly Mutant[] = [
  // ---- connections ---------------------------------------------------------------------------
  {
    name: "lost-connection-is-given-back",
    why: "After one connection broke, what is asked next fails too.",
    file: pool,
    find: "if (usable && !connection.broken",
    replace: "if (!connection.broken",
    caughtBy: ofPool("a shared connection > is ended at once after what spoilt it, and never used again"),
  },
  {
    name: "connection-that-broke-while-idle-is-used",
    why: "After a night without work, or a restart of the server, the first questions fail.",
    file: pool,
    find: "if (idle && !idle.broken) return idle;",
    replace: "if (idle) return idle;",
    caughtBy: ofPool(
      "a shared connection > that broke while somebody used it, or nobody did, is not used again",
    ),
  },
  {
    name: "more-connections-than-were-said",
    why: "Under load a queue takes all the connections that the server has.",
    file: pool,
    find: "this.#open < this.#size",
    replace: "this.#open < Number.POSITIVE_INFINITY",
    caughtBy: ofPool("a shared connection > is waited for when there are as many as were said"),
  },
  {
    name: "refused-connection-keeps-its-place",
    why: "After a few refusals of the server the queue waits for ever, though the server is back.",
    file: pool,
    after: "return await this.held();",
    find: "this.#open -= 1;",
    replace: "",
    caughtBy: ofPool("a shared connection > that could not be made takes nobody's place"),
    hangs: true,
  },
  {
    name: "idle-connection-keeps-the-process",
    why: "A script that enqueues one task does not end.",
    file: pool,
    find: "connection.hold(false);",
    replace: "",
    caughtBy: ofPool(
      "a shared connection > is used again, and keeps the process alive only while it is used",
    ),
  },
  {
    name: "hosts-are-not-tried-in-turn",
    why: "While the first of several nodes is down, nothing can be enqueued.",
    file: pool,
    find: "for (const host of this.#hosts.inOrder) {",
    replace: "for (const host of this.#hosts.inOrder.slice(0, 1)) {",
    caughtBy: ofPool(
      "of several hosts > the first that answers is taken, and is the first to be tried from then on",
    ),
  },
  {
    name: "password-is-shown",
    why: "The database's password is in the log of whoever mistypes its URL.",
    file: url,
    find: '.replace(/(:\\/\\/[^:@/]*):.*@/, "$1:***@")',
    replace: "",
    caughtBy: ofUrl("no error of opening postgres://me:secret@db shows the password"),
  },
  {
    name: "hosts-of-a-url-are-one",
    why: "A URL with several nodes is refused, or the name of the first is not found.",
    file: url,
    find: 'hosts.split(",")',
    replace: "[hosts]",
    caughtBy: ofUrl(
      "a URL > may name several hosts, in their order, each with a port of its own or the usual one",
    ),
  },

  // ---- repeats and transactions --------------------------------------------------------------
  {
    name: "rollback-is-not-sent",
    why: "What failed halfway is committed with what the same connection does next.",
    file: run,
    find: 'await asked.query("rollback", []).catch(() => undefined);',
    replace: "",
    caughtBy: ofRun("a transaction > that fails is rolled back, and throws what failed"),
  },
  {
    name: "unknown-outcome-is-repeated",
    why: "A connection that breaks at the wrong moment enqueues a task twice.",
    file: run,
    find: "!twice && execution?.undecided",
    replace: "!twice && execution === undefined",
    caughtBy: ofAnswers(
      "without an answer of Postgres > an enqueue without a key says that nobody knows, and is not made twice",
    ),
  },
  {
    name: "commit-without-an-answer-is-thought-undone",
    why: "A connection that breaks during a commit enqueues the tasks of a call twice.",
    file: run,
    after: "async #inside<T>",
    find: "this.undecided = true;",
    replace: "",
    caughtBy: ofRun(
      "what may have happened > is not done again where that would matter: a commit without an answer",
    ),
  },
  {
    name: "refusable-duplicate-is-repeated",
    why: "An enqueue that must be no duplicate is refused because of itself.",
    file: server,
    find: 'keyed === tasks.length && onDuplicate === "report"',
    replace: "keyed === tasks.length",
    caughtBy: ofAnswers(
      "without an answer of Postgres > an enqueue that must not be a duplicate is not told that it is one, by itself",
    ),
  },
  {
    name: "turn-without-an-answer-is-repeated",
    why: "Tasks that were claimed while the connection broke stay running, and nobody runs them.",
    file: server,
    find: "runner.run(op, once)",
    replace: "runner.run(op)",
    caughtBy: ofAnswers(
      "without an answer of Postgres > a turn is not taken a second time: what it claimed would be forgotten",
    ),
  },
  {
    name: "deadlock-is-surfaced",
    why: "Of two workers that wait for each other one fails, where it had only to begin anew.",
    file: run,
    find: 'late || this.#steps.failureOf(error) === "final"',
    replace: 'late || this.#steps.failureOf(error) !== "lost"',
    caughtBy: ofRun("what the server undid > (passing) is done again, and nobody hears of it"),
  },
  {
    name: "second-change-of-a-row-is-lost",
    why: "Of two outcomes of one task both are told to be accepted, and one of them was never written.",
    file: run,
    find: "!seen.has(params[i]?.id) && seen.add(params[i]?.id)",
    replace: "seen.add(params[i]?.id)",
    caughtBy: onPostgres("turn: settle > of two outcomes of one kind for one task the first is accepted"),
  },
  {
    name: "nul-is-sent",
    why: "A task whose error holds a NUL can never be settled, and is tried for ever.",
    file: run,
    find: 'return value.replace(/[\\0\\ud800-\\udfff]/gu, "\\ufffd");',
    replace: "return value;",
    caughtBy: onPostgres(
      "turn: settle > an error's text may hold what is no character: the attempt is kept, and so is the rest of the text",
    ),
  },
  {
    name: "claims-are-told-to-all",
    why: "Each claim of a worker wakes all the others, which then claim in vain and wake others.",
    file: run,
    find: "if (!awaited) this.changed = false;",
    replace: "",
    caughtBy: ofRun("others are told > neither of what was read, nor of what nobody can wait for"),
  },
  {
    name: "commits-are-not-told",
    why: "What one process enqueues, another one begins at its next poll.",
    file: run,
    find: "if ((execution as Execution | undefined)?.changed) this.onCommit();",
    replace: "",
    caughtBy: ofRun("others are told > of what was changed, once, when it is committed"),
  },
  {
    name: "notify-is-not-sent-inside-of-a-transaction",
    why: "What an app's transaction enqueues, other processes begin at their next poll.",
    file: server,
    find: "await kind.tellInside?.(asked);",
    replace: "",
    caughtBy: ofSessions(
      "others on Postgres > are told of what an app's transaction enqueues, when it commits",
    ),
  },
  {
    name: "ended-transaction-is-accepted",
    why: "What was forgotten to be awaited in an app's transaction is written after it was rolled back.",
    file: server,
    find: "if (within) await kind.checkOpen(db, asked);",
    replace: "",
    caughtBy: onPostgres(
      "transaction and within > used after its transaction has ended it throws, and writes nothing",
    ),
  },
  {
    name: "transaction-of-the-app-takes-the-queues-connection",
    why: "A few transactions that enqueue beside themselves wait for each other for ever.",
    file: "src/stores/server-open.ts",
    find: "apps.use(async",
    replace: "pool.use(async",
    caughtBy: unit("server-postgres")(
      "a store on Postgres > does what it does beside a transaction that it has opened",
    ),
    hangs: true,
  },
  {
    name: "servers-are-migrated-without-a-lock",
    why: "Of several processes that open a new database at once, all but one fail.",
    file: "src/stores/server-migrate.ts",
    find: "await inside.query(text.lock, []);",
    replace: "",
    caughtBy: unit("server-postgres")(
      "a store on Postgres > waits with the tables for whoever is making them",
    ),
  },
  {
    name: "heartbeat-of-servers-on-the-event-loop",
    why: "A handler that computes for longer than a lease is taken for dead, and runs twice.",
    file: server,
    find: "if (thread === undefined) {",
    replace: "if (thread === undefined || every > 0) {",
    caughtBy: onPostgres("heartbeat > a heartbeat goes on while the event loop is blocked"),
  },

  // ---- sessions ------------------------------------------------------------------------------
  {
    name: "sessions-lock-is-not-taken",
    why: "Every worker on a server looks dead from its first beat on.",
    file: "src/stores/server-beat.mjs",
    find: "Number((await ask(lock)).rows[0]?.[0]) === 1",
    replace: 'lock.text !== ""',
    caughtBy: ofSessions(
      "a worker's session on Postgres > is seen to live from the first beat on, and to have ended when it has",
    ),
  },
  {
    name: "ended-session-beats-no-more",
    why: "A worker whose heartbeat's connection broke once is dead to the others, and its tasks run twice.",
    file: "src/stores/server-beat.mjs",
    find: "connection = undefined;\n    void broken?.end();",
    replace: "void broken?.end();",
    caughtBy: ofSessions(
      "a worker's session on Postgres > that is ended from outside is made anew, however seldom it beats",
    ),
  },
  {
    name: "end-of-a-connection-is-found-at-the-next-beat",
    why: "A worker whose heartbeat's connection broke is taken for dead before it would have beaten.",
    file: "src/stores/server-beat.mjs",
    find: "() => soon(firstRetry)",
    replace: "() => undefined",
    caughtBy: ofSessions(
      "a worker's session on Postgres > that is ended from outside is made anew, however seldom it beats",
    ),
  },
  {
    name: "beat-from-elsewhere-forgets-the-session",
    why: "A worker that looks whether it can write loses what shows that it lives; should it die then, only its lease tells.",
    file: "src/stores/statements.ts",
    find: "beat = beat + 1 where id",
    replace: "beat = beat + 1, session = null where id",
    caughtBy: ofSessions(
      "a worker's session on Postgres > is none that others share: a beat from there leaves it as it is",
    ),
  },
  {
    name: "ended-session-is-not-seen",
    why: "The tasks of a worker that was killed on another machine wait for its lease to end.",
    file: upkeep,
    find: "if (worker.sessionLives === false) return true;",
    replace: "",
    caughtBy: deaths(
      "a session > that ended means death, unless its worker beats within 300 ms of when it could",
    ),
  },
  {
    name: "ended-session-has-no-chance",
    why: "A restart of the server makes every worker take all others for dead: each task runs twice.",
    file: upkeep,
    find: "sessionEnded: 300",
    replace: "sessionEnded: 0",
    caughtBy: deaths(
      "a session > that ended means death, unless its worker beats within 300 ms of when it could",
    ),
  },
  {
    name: "chance-before-anybody-could-beat",
    why: "After a server was away for a while, living workers are taken for dead before they can beat.",
    file: upkeep,
    find: "await write();\n    const now = this.#now();",
    replace: "const now = this.#now();\n    await write();",
    caughtBy: deaths(
      "a session > that ended while nobody could write proves nothing: the chance comes after",
    ),
  },
];
