/** Faults of the ways to a server: connections that are shared, several hosts, and workers whose sessions end. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const inFile = (file: string) => (test: string) => ({ file: `test/${file}.test.ts`, test });
const ofPool = inFile("stores/server/pool");
const ofWishes = (test: string) => ofPool(`who asks for an idle connection while all are in use > ${test}`);
const ofUrl = inFile("stores/server/url");
const ofSessions = inFile("stores/postgres/sessions.full");
const deaths = inFile("worker/failure-detector");
const ofHeartbeats = inFile("stores/server/shared-heartbeat.full");

const ofPlanner = (test: string) =>
  inFile("stores/postgres/planner")(`a role with other settings of the planner > ${test}`);

const ofTimeouts = (test: string) =>
  inFile("stores/server/request-timeout.full")(`over a wire to Postgres > ${test}`);

export const connectionFaults: readonly Mutant[] = [
  {
    name: "app-waits-a-minute",
    why: "Behind a cut connection each HTTP request hangs for a minute, whatever requestTimeout says.",
    in: "storeOver.store.requests",
    find: "requestTimeout === undefined",
    replace: "requestTimeout !== 0",
    caughtBy: ofTimeouts("getTask rejects after requestTimeout, and the next call has another connection"),
    hangs: true,
  },
  {
    name: "timed-out-connection-is-given-back",
    why: "After a call that timed out, the next one waits behind it on the same connection.",
    in: "ServerRunner.#retrying.attempt",
    find: "execution !== undefined && error instanceof RequestTimeoutError",
    replace: "execution === undefined && error instanceof RequestTimeoutError",
    caughtBy: ofTimeouts("getTask rejects after requestTimeout, and the next call has another connection"),
  },
  {
    name: "worker-has-the-patience-of-a-request",
    why: "Where requestTimeout is short, a worker gives up what it could have settled a moment later.",
    in: "storeOver.store",
    find: "...methodsOver(runner, ops)",
    replace:
      "...methodsOver(requestTimeout === undefined ? runner : runner.limited(requestTimeout / 2), ops)",
    caughtBy: ofTimeouts("a worker's statement outlives the limit of the app's calls"),
  },
  {
    name: "outage-is-reported-after-a-minute",
    why: "A server that cannot be reached is silence for a minute.",
    in: "ServerRunner.retry",
    find: 'if (failure === "lost") this.#warnOfOutage(error);',
    replace: "",
    caughtBy: inFile("stores/server/run")(
      "a lost connection > is reported at the first failure, once until a call has succeeded",
    ),
  },
  {
    name: "role-decides-the-plans",
    why: "A role with enable_nestloop = off makes each claim read whole tables, for seconds.",
    in: "plannerSettings",
    find: "...needed.map((name) => `${name}=on`)",
    replace: "",
    caughtBy: ofPlanner("does not change the plans of own connections"),
  },
  {
    name: "doctor-does-not-see-the-planner",
    why: "Claims of ten seconds behind a pooler have no problem in dbq doctor.",
    in: "plannerFacts.facts",
    find: 'session.get(name) === "off"',
    replace: "session.get(name) === undefined",
    caughtBy: ofPlanner("is a problem with its remedy where dbq cannot set it"),
  },
  // ---- connections ---------------------------------------------------------------------------
  {
    name: "lost-connection-is-given-back",
    why: "After one connection broke, what is asked next fails too.",
    in: "ServerPool.#giveBack",
    find: "usable && !connection.broken",
    replace: "!connection.broken",
    caughtBy: ofPool("a pooled connection > is destroyed after an error that spoils it, and not reused"),
  },
  {
    name: "connection-that-broke-while-idle-is-used",
    why: "After a night without work, or a restart of the server, the first questions fail.",
    in: "ServerPool.#free",
    find: "if (idle && !idle.broken) return idle;",
    replace: "if (idle) return idle;",
    caughtBy: ofPool("a pooled connection > is not reused when it broke, in use or idle"),
  },
  {
    name: "more-connections-than-were-said",
    why: "Under load a queue takes all the connections that the server has.",
    in: "ServerPool.#free",
    find: "this.#open < this.#size",
    replace: "this.#open < Number.POSITIVE_INFINITY",
    caughtBy: ofPool("a pooled connection > is waited for when all are in use"),
  },
  {
    name: "refused-connection-keeps-its-place",
    why: "After the server refused a few connections, the queue never connects again, even when the server is back.",
    in: "ServerPool.#free",
    find: "this.#open -= 1; this.#tellOfPlace(); throw error;",
    replace: "this.#tellOfPlace(); throw error;",
    caughtBy: ofPool(
      "a pooled connection > a refused connection does not count towards the size of the pool",
    ),
    hangs: true,
  },
  {
    name: "idle-connection-keeps-the-process",
    why: "A script that enqueues one task does not end.",
    in: "ServerPool.#giveBack",
    find: "connection.hold(false);",
    replace: "",
    caughtBy: ofPool("a pooled connection > is reused, and keeps the process alive only while it is in use"),
  },
  {
    name: "idle-connections-stay",
    why: "A process that once had five transactions at a time holds five connections until it ends.",
    in: "ServerPool.#giveBack",
    find: "this.#endIdleLater();",
    replace: "",
    caughtBy: ofPool("a pooled connection > is ended when it was idle for longer than its limit"),
  },
  {
    name: "nobody-is-told-of-a-connection-that-was-not-made",
    why: "A worker that found all connections in use begins no second cycle after a refusal of the server.",
    in: "ServerPool.#free",
    find: "this.#tellOfPlace();",
    replace: "this.#waiting.shift()?.();",
    caughtBy: ofWishes("is told when a connection could not be made, since its place is free"),
  },
  {
    name: "nobody-is-told-of-an-idle-connection",
    why: "A worker that found all connections in use begins no second cycle, however soon one of them is idle.",
    in: "ServerPool.#tellOfPlace",
    find: "for (const tell of wishing) tell();",
    replace: "",
    caughtBy: ofWishes("is told once when a connection is given back for which nobody waits"),
  },
  {
    name: "told-of-a-connection-that-another-one-takes",
    why: "A worker asks for a connection again and again while others take each one that is given back.",
    in: "ServerPool.#tellOfPlace",
    find: "if (next) return void next();",
    replace: "next?.();",
    caughtBy: ofWishes(
      "is not told when a user that waits takes the connection, but when that one gives it back",
    ),
  },
  {
    name: "told-of-each-idle-connection-from-then-on",
    why: "Each operation of a queue wakes a worker that once found all connections in use.",
    in: "ServerPool.#tellOfPlace",
    find: "this.#wishing.clear();",
    replace: "",
    caughtBy: ofWishes("is told once when a connection is given back for which nobody waits"),
  },
  {
    name: "each-queue-has-connections-of-its-own",
    why: "Six processes with two queues each take all connections of a server.",
    in: "usePool",
    find: "target === undefined",
    replace: "target !== null",
    caughtBy: inFile("stores/server/connections.full")(
      "a process on 'Postgres' > has few connections with two queues and two workers, and ends them with the last queue",
    ),
  },
  {
    name: "hosts-are-not-tried-in-turn",
    why: "While the first of several nodes is down, nothing can be enqueued.",
    in: "ServerPool.dedicated",
    find: "const hosts = this.#hosts.inOrder;",
    replace: "const hosts = this.#hosts.inOrder.slice(0, 1);",
    caughtBy: ofPool(
      "with several hosts > the first host that answers is used, and is tried first from then on",
    ),
  },
  {
    name: "idle-transaction-stays",
    why: "The tasks of a machine that vanished inside of a transaction stay locked for two hours.",
    in: "plans",
    find: "`idle_in_transaction_session_timeout=${idleTransactionLimit}s`",
    replace: "`lock_timeout=${idleTransactionLimit / 5}s`",
    caughtBy: inFile("stores/server/vanished.full")(
      "'Postgres' > a task is freed whose worker vanished inside of a transaction",
    ),
  },
  {
    name: "replica-is-used",
    why: "A worker reads from a standby that is behind, takes its running tasks for lost, and aborts them.",
    in: "ServerPool.dedicated",
    find: "hosts.length > 1 && (await refusalOf(connection))",
    replace: "false",
    caughtBy: ofPool("with several hosts > a replica is passed over, and its connection ended"),
  },
  {
    name: "only-host-must-be-a-primary",
    why: "A dashboard on a replica does not open.",
    in: "ServerPool.dedicated",
    find: "hosts.length > 1 && (await refusalOf(connection))",
    replace: "await refusalOf(connection)",
    caughtBy: ofPool("with several hosts > a replica that is the only host is used"),
  },
  {
    name: "refusal-of-a-replica-is-forgotten",
    why: "A process that starts during a fail-over fails at once.",
    in: "ServerPool.dedicated",
    find: "refusal ?? failure",
    replace: "failure ?? refusal",
    caughtBy: ofPool(
      "with several hosts > the error is the replica's when no host is a primary, also when the last host refuses",
    ),
  },
  {
    name: "host-that-broke-is-tried-first",
    why: "While a node is being restarted each question waits for it first, though another one would answer.",
    in: "ServerPool.#giveBack",
    find: "if (host && !this.#closed) this.#hosts.avoid(host);",
    replace: "",
    caughtBy: ofPool("with several hosts > the host of a broken connection is tried last"),
  },
  {
    name: "host-that-broke-is-avoided-twice",
    why: "When a node takes two connections along, the next question goes to that node again.",
    in: "Hosts.avoid",
    find: "this.#all[this.#preferred] !== host",
    replace: "!this.#all.includes(host)",
    caughtBy: ofPool("with several hosts > several broken connections of one host move it back once"),
  },
  {
    name: "password-is-shown",
    why: "A mistyped URL puts the database's password into the error and the log.",
    in: "withoutPassword",
    find: '$target.replace(/((?:^(?!sqlite:)|[/\\\\])[^/\\\\:]*):(?![/\\\\]).*@/is, "$1:***@")',
    replace: "$target",
    caughtBy: ofUrl("no error of opening postgres://me:secret@db shows the password"),
  },
  {
    name: "hosts-of-a-url-are-one",
    why: "A URL with several nodes is refused, or the name of the first is not found.",
    in: "readServerUrl.hosts",
    find: '(hosts || parameters.host || "") .split(",")',
    replace: '[hosts || parameters.host || ""]',
    caughtBy: ofUrl("a URL > may name several hosts in order, each with a port or the default one"),
  },

  // ---- sessions ------------------------------------------------------------------------------
  {
    name: "sessions-lock-is-not-taken",
    why: "Every worker on a server looks dead from its first beat on.",
    in: "openSession",
    find: "Number((await ask(lock)).rows[0]?.[0]) !== 1",
    replace: 'lock.text === ""',
    caughtBy: ofSessions(
      "a worker's session on Postgres > shows as alive from the first heartbeat to its end",
    ),
  },
  {
    name: "ended-session-beats-no-more",
    why: "When the connection of a worker's heartbeats breaks once, the other workers declare it dead, and its tasks run twice.",
    in: "onFailure",
    find: "connection = undefined; if (broken) reset(broken);",
    replace: "if (broken) reset(broken);",
    caughtBy: ofSessions(
      "a worker's session on Postgres > is opened again when it was terminated, also between rare heartbeats",
    ),
  },
  {
    name: "end-of-a-connection-is-found-at-the-next-beat",
    why: "When the connection of a worker's heartbeats breaks, the worker is declared dead before its next heartbeat is due.",
    in: "connected",
    find: "() => sendAll(firstRetry)",
    replace: "() => undefined",
    caughtBy: ofSessions(
      "a worker's session on Postgres > is opened again when it was terminated, also between rare heartbeats",
    ),
  },
  {
    name: "each-worker-has-a-heartbeat-connection",
    why: "Six processes with many workers take all connections of a server.",
    in: "openConnections.heartbeatThread",
    find: "`${target ?? own} ${lock}`",
    replace: "`${workerId} ${lock}`",
    caughtBy: ofHeartbeats(
      "two workers on Postgres > beat over one connection, which ends with the last of them",
    ),
  },
  {
    name: "new-session-is-in-the-row-of-one-worker",
    why: "When the connection of the heartbeats breaks, all workers of the process but one are declared dead.",
    in: "openSession",
    find: "sendAll(0);",
    replace: "",
    caughtBy: inFile("stores/server/heartbeat-cut-off.full")(
      "on MySQL > a heartbeat that was cut off continues on another connection",
    ),
  },
  {
    name: "late-heartbeat-names-an-ended-session",
    why: "When the network comes back, a heartbeat from before makes the others declare the living worker dead.",
    in: "workerStatements",
    find: "d.integer(p.anew)",
    replace: 'sql.raw("1")',
    caughtBy: ofHeartbeats(
      "two workers on Postgres > are not disturbed by a heartbeat of an earlier session that the network held back",
    ),
  },
  {
    name: "stop-of-a-worker-ends-all-heartbeats",
    why: "When one of the workers of a process stops, others run the tasks of those that go on.",
    in: "SharedThread.remove",
    find: "if (this.#heartbeats.size > 0) return this.#thread?.postMessage({ remove: number });",
    replace: "",
    caughtBy: ofHeartbeats(
      "two workers on Postgres > beat over one connection, which ends with the last of them",
    ),
  },
  {
    name: "held-row-of-a-worker-ends-the-session-of-all",
    why: "Somebody locks the row of one worker, and the other workers of its process are declared dead.",
    in: "send",
    find: "if (!isHeld(error)) throw error;",
    replace: "throw error;",
    caughtBy: ofHeartbeats(
      "two workers on Postgres > keep their session while the row of one of them is locked, and the other one beats",
    ),
  },
  {
    name: "beat-from-elsewhere-forgets-the-session",
    why: "A worker that looks whether it can write loses what shows that it lives; should it die then, only its lease tells.",
    in: "workerStatements.beat",
    find: "`beat = beat + 1 where id`",
    replace: "`beat = beat + 1, session = null where id`",
    caughtBy: ofSessions(
      "a worker's session on Postgres > is not ended by a heartbeat on another connection",
    ),
  },
  {
    name: "beat-in-place-keeps-the-threads-session",
    why: "A worker that beats in place of its thread is rescued while it lives: its thread's session has ended.",
    in: "storeOver.keepAlive",
    find: "ops.maintenance.beatWithoutSession(workerId)",
    replace: "ops.maintenance.beat(workerId)",
    caughtBy: ofSessions(
      "a worker's session on Postgres > is not used by a worker whose heartbeats go over the app's connections",
    ),
  },
  {
    name: "ended-session-is-not-seen",
    why: "The tasks of a worker that was killed on another machine wait for its lease to end.",
    in: "FailureDetector.#isSilent",
    find: "if (worker.sessionLives === false) return true;",
    replace: "",
    caughtBy: deaths(
      "sessions > a worker whose session has ended is dead, unless it sends a heartbeat within 300 ms of when it could",
    ),
  },
  {
    name: "ended-session-has-no-chance",
    why: "A restart of the server makes every worker take all others for dead: each task runs twice.",
    in: "confirmTimeout.sessionEnded",
    find: "sessionEnded: 300",
    replace: "sessionEnded: 0",
    caughtBy: deaths(
      "sessions > a worker whose session has ended is dead, unless it sends a heartbeat within 300 ms of when it could",
    ),
  },
  {
    name: "chance-before-anybody-could-beat",
    why: "After an outage of the server, living workers are declared dead before they can send a heartbeat.",
    in: "FailureDetector.confirm",
    find: "await write(); const now = this.#now();",
    replace: "const now = this.#now(); await write();",
    caughtBy: deaths(
      "sessions > a worker whose session ended while no process could write has 300 ms after that",
    ),
  },
  {
    name: "commit-of-an-app-without-an-answer-is-a-failure",
    why: "An app does again what it has done, since dbq said that it had failed.",
    in: "runTransaction",
    find: 'if (returned && failureOf(error) === "lost") return runner.toDatabaseError(error, true);',
    replace: "",
    caughtBy: inFile("stores/postgres/answers")(
      "a lost answer of Postgres > a commit of an app's transaction without an answer fails with an unknown outcome",
    ),
  },
  {
    name: "later-refusal-hides-a-lost-commit",
    why: "An enqueue with a key that happened is said to have failed, since the server was away for longer than a minute.",
    in: "ServerRunner.#retrying",
    find: "mayHaveHappened ||= lost && execution?.undecided === true && execution.changed;",
    replace: "",
    caughtBy: inFile("stores/server/run")(
      "an operation that may have happened > has an unknown outcome when the next try is refused",
    ),
  },
  {
    name: "idle-connection-is-trusted",
    why: "An app's transaction waits for a quarter of an hour for a host that was cut off.",
    in: "ServerPool.#take",
    find: "if (this.#isTrusted(connection) || (await connection.answers())) return connection;",
    replace: "return connection;",
    caughtBy: inFile("stores/server/pool")(
      "an idle connection > is destroyed with the equally old ones when it does not answer, and a new one is made",
    ),
  },
  {
    name: "refused-setting-leaves-its-connection",
    why: "A server that refuses a setting has one connection more with each try, until it takes no others.",
    in: "connectMysql",
    find: "destroy(); throw error;",
    replace: "throw error;",
    caughtBy: inFile("stores/server/refused")("a connection whose settings MySQL refuses > is closed"),
  },
  {
    name: "name-of-a-host-is-asked-for-once",
    why: "A failover of the names of hosts, which takes seconds, fails every enqueue.",
    in: "failureOf",
    find: "/^08|^57P0|^E[A-Z]+$|^EAI_AGAIN$|^CONNECTION_(CLOSED|DESTROYED)$/",
    replace: "/^08|^57P0|^E[A-Z]+$|^CONNECTION_(CLOSED|DESTROYED)$/",
    caughtBy: inFile("stores/server/refused")(
      "a host name of 'Postgres' > is looked up again when it could not be resolved for a moment",
    ),
  },
  {
    name: "password-without-a-host-is-shown",
    why: "A URL without a host puts the password into the error and the log.",
    in: "withoutPassword",
    find: '$target.replace(/((?:^[\\s"\']*|\\b(?=\\w+:\\/))(?!sqlite:)[a-z]{2,}:\\/*(?:\\[[^\\]]*\\]|[^@/?#[])*?):(?!\\d{0,5}(?:[,/?#]|$))[^@]*$/is, "$1:***")',
    replace: "$target",
    caughtBy: inFile("stores/server/url")("no error of opening postgres://me:secret/app shows the password"),
  },
  {
    name: "certificate-of-any-host",
    why: "On MySQL, any server with a certificate passes as the database and receives the password.",
    in: "proofOf.verifyIdentity",
    find: "verifyIdentity: verify",
    replace: "verifyIdentity: false",
    caughtBy: inFile("stores/server/pools")(
      "on MySQL > sslmode=verify-full checks the authority and the host's name: true",
    ),
  },
  {
    name: "pool-of-the-environment",
    why: "When the app's pool takes its host from PGHOST, its tasks are written to another database, on the local machine.",
    in: "parametersOf",
    find: "return new Client(options).connectionParameters;",
    replace: 'return { user: "postgres", database: "postgres", host: "127.0.0.1", port: 5432, ...options };',
    caughtBy: inFile("stores/server/pools")(
      "a pool of pg > takes from the environment what its settings leave open",
    ),
  },
  {
    name: "apps-one-connection-is-shared",
    why: "What was enqueued and acknowledged is rolled back with what the app did beside it.",
    in: "openDatabase",
    find: "const settings = driver.settingsOf(client, useOf(options));",
    replace:
      'const settings = useOf(options) === "own" ? driver.settingsOf(client, "own") : undefined; if (useOf(options) === "pooled") driver = { ...driver, isOne: () => false };',
    caughtBy: inFile("stores/server/app-connections.full")(
      "on Postgres, without sessions > an enqueue is not part of a transaction on the app's one connection",
    ),
  },
  {
    name: "row-that-is-held-holds-up-a-turn",
    why: "Somebody forgets a transaction on one task, and a worker settles nothing for as long.",
    in: "settlingAndClaiming.lockedLimit",
    find: "lockedLimit: 3_000",
    replace: "lockedLimit: 60_000",
    caughtBy: {
      file: "test/worker/held-row.full.test.ts",
      test: "a locked row on 'MySQL' > an outcome whose row is locked does not block other tasks",
    },
  },
  {
    name: "row-that-is-held-is-waited-for-on-the-server",
    why: "The same on Postgres, and a claim more is left behind by each turn.",
    in: "plans",
    find: '"lock_timeout=1s"',
    replace: "",
    caughtBy: {
      file: "test/worker/held-row.full.test.ts",
      test: "a locked row on 'Postgres' > an outcome whose row is locked does not block other tasks",
    },
  },
];
