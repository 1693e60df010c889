/** Faults of Managers and agents. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const wire = (test: string) => ({
  file: "test/features/manager/sqlite.full.test.ts",
  test: `on SQLite > the wire > ${test}`,
});
const agent = (test: string) => ({
  file: "test/features/manager/sqlite.full.test.ts",
  test: `on SQLite > an agent > ${test}`,
});

const store = (test: string) => ({
  file: "test/conformance/sqlite.test.ts",
  test: `'SQLite, a file' > agents > ${test}`,
});

const channels = (test: string) => ({ file: "test/features/manager/channels.full.test.ts", test });

const late = (test: string) => ({ file: "test/features/manager/late-answers.full.test.ts", test });

const gone = (test: string) => ({ file: "test/features/manager/gone-agents.full.test.ts", test });

const limits = (test: string) => ({
  file: "test/features/manager/sqlite.full.test.ts",
  test: `limits on SQLite > ${test}`,
});

const lostSettlement = (state: string) => ({
  file: "test/features/manager/sqlite.full.test.ts",
  test:
    "on SQLite > a settlement that the server has answered and then lost > " +
    `lets the task run again with no retry charged, while its agent ${state}`,
});

const attack = (test: string) => ({
  file: "test/features/manager/attacks.full.test.ts",
  test: `on SQLite > ${test}`,
});

const strangers = wire("settles and shows no task of another session or agent");

const model = {
  file: "test/model/agents.test.ts",
  test: "one session at a time has a task, an outcome of an older generation is refused, and a dead session's tasks return",
};

export const agentFaults: readonly Mutant[] = [
  {
    name: "agent-keeps-its-children",
    why: "What leaks in the functions of an agent grows, although its maxTasksPerChild says when to replace a process.",
    in: "Agent.#newRun",
    find: "this.#parts.openExecutors({ concurrency, maxTasksPerChild, maxPayload: maxResult, report })",
    replace:
      "this.#parts.openExecutors({ concurrency, maxTasksPerChild: maxTasksPerChild + 1_000, maxPayload: maxResult, report })",
    caughtBy: {
      file: "test/features/manager/agent-executors.full.test.ts",
      test: "an agent replaces a process after maxTasksPerChild tasks",
    },
  },
  {
    name: "replaced-token-keeps-rights",
    why: "An agent that was revoked and added again with fewer queues gets tasks of the other queues as before.",
    in: "Desk.session",
    find: "known.agent = agent",
    replace: "void agent",
    caughtBy: attack(
      "a token that was replaced > leaves its session with the queues and functions of the new one",
    ),
  },
  {
    name: "slow-body-outlives-token",
    why: "An agent whose token was revoked while it sent a request still gets a task.",
    in: "Http.#act",
    find: "await this.#tokens.current(found)",
    replace: "found",
    caughtBy: attack("a token that was replaced > gets nothing for a request whose body ends after that"),
  },
  {
    name: "strangers-take-seats",
    why: "Connections that send nothing keep all agents out.",
    in: "Seats.take",
    find: "this.#seated.size >= this.#most",
    replace: "this.#seated.size + this.#strangers.size > this.#most",
    caughtBy: attack("connections > without a token take no seat, and the oldest of too many are closed"),
  },
  {
    name: "agent-takes-all-seats",
    why: "One agent that opens many connections keeps the others out.",
    in: "Seats.take",
    find: "!this.#takeFromLargest(agent)",
    replace: "true",
    caughtBy: attack("connections > of one agent give way to another agent's"),
  },
  {
    name: "sessions-without-bound",
    why: "One token registers thousands of workers' rows.",
    in: "Desk.#checkRoom",
    find: "own >= maxSessions",
    replace: "own > maxSessions * 2",
    caughtBy: attack("sessions of one token > are bounded, and the answer says so"),
  },
  {
    name: "lines-from-the-wire-uncut",
    why: "A log line of 3 MB fills the database, and the pages that show it the memory.",
    in: "logLine",
    find: "beginning(message, longestLine)",
    replace: "message",
    caughtBy: attack("log lines and notes are cut, and an attempt has a bounded number of lines"),
  },
  {
    name: "deep-body-is-parsed",
    why: "An error with 150,000 causes cannot be settled: its task stays running. Parsing such bodies holds the beats of other agents.",
    in: "parsed",
    find: 'cutToLevels(body.toString("utf8"), mostLevels)',
    replace: 'body.toString("utf8")',
    caughtBy: attack("a settle > with an error or a result that cannot be kept ends the task"),
  },
  {
    name: "answers-pile-up",
    why: "An agent that asks for its tasks again and again, and reads no answer, fills the memory of its Manager within seconds.",
    in: "Answers.#enter",
    find: "places.taken < mostOpen",
    replace: "true",
    caughtBy: attack("answers that nobody reads are four of an agent, and its other claims wait"),
  },
  {
    name: "agent-beats-without-pause",
    why: "An agent whose connections end with each answer asks its Manager hundreds of times a second.",
    in: "RemoteStore.#beatSoon",
    find: "this.#beatAt + leastBetweenBeats - performance.now()",
    replace: "0",
    caughtBy: late("an agent whose connections end with each answer beats at most every 100 ms"),
  },
  {
    name: "connection-keeps-silent-sessions",
    why: "Behind a proxy, a Manager keeps every session that an agent has ever had, until its memory is full.",
    in: "Desk.#tick",
    find: "hasLeft && now - session.lastSeen > 2 * this.#options.lease",
    replace: "!session.isConnected && now - session.lastSeen > 2 * this.#options.lease",
    caughtBy: channels("a session is closed when it is silent, although others use its connection"),
  },
  {
    name: "refused-agent-runs-on",
    why: "An agent whose token was revoked goes on with a task that another agent runs by then.",
    in: "RemoteStore.#beat",
    find: "error.status === 401",
    replace: "error.status === 400",
    caughtBy: late(
      "an agent whose token is refused aborts what it runs, reports that once, and names the tasks no more",
    ),
  },
  {
    name: "refused-session-is-kept",
    why: "The tasks of an agent whose token was revoked wait for the whole lease, although the agent has asked and was refused.",
    in: "Desk.release",
    find: "session.agent.tokenHash === tokenHash",
    replace: "session.agent.tokenHash === tokenHash && !session.isConnected",
    caughtBy: gone(
      "the tasks of an agent are freed when its token is refused, although its connections stay open and a claim waits",
    ),
  },
  {
    name: "agent-settles-for-others",
    why: "An agent that is taken over ends the tasks of other agents with results of its own.",
    in: "Session.owns",
    find: "workerId?.endsWith(this.suffix) ?? false",
    replace: "workerId !== null",
    caughtBy: strangers,
  },
  {
    name: "claim-asked-again-claims-more",
    why: "An agent that did not get the answer to its claim leaves the claimed tasks to nobody for a lease.",
    in: "Claims.#look",
    find: "tasks.length > 0",
    replace: "tasks.length < 0",
    caughtBy: wire("gives a claim asked again with its id the same tasks, at any Manager"),
  },
  {
    name: "request-is-not-noted",
    why: "A claim asked again at another Manager, or twice at once, claims for the agent twice.",
    in: "SettleAndClaimOperations.#claim",
    find: "tasks.length > 0 && claimant.note",
    replace: "tasks.length < 0 && claimant.note",
    caughtBy: wire("gives a claim asked again with its id the same tasks, at any Manager"),
  },
  {
    name: "request-is-forgotten-without-candidates",
    why: "A claim asked again after its tasks were the last ones finds nothing: they run for nobody.",
    in: "sessionsOwn",
    find: "hasIt.length > 0",
    replace: "hasIt.length < 0",
    caughtBy: wire(
      "gives a claim asked again with its id other tasks once those of its first answer have ended",
    ),
  },
  {
    name: "request-of-ended-tasks-finds-nothing",
    why: "A client that uses one request id for ever claims once, and never again.",
    in: "Claims.#look",
    find: "claim(isRepeated, [])",
    replace: "claim(false, [])",
    caughtBy: wire(
      "gives a claim asked again with its id other tasks once those of its first answer have ended",
    ),
  },
  {
    name: "claim-that-settles-waits",
    why: "An agent whose claim settles a task, and finds none, learns 25 s later that it has settled it.",
    in: "Claims.claim",
    find: "body.settle.length > 0 ? 0 : body.wait",
    replace: "body.wait",
    caughtBy: wire("does not wait for tasks with the answer to what a claim settles"),
  },
  {
    name: "answer-has-no-size",
    why: "An agent gets more than it can hold.",
    in: "Claims.#fitting",
    find: "bytes <= most || i === 0",
    replace: "true",
    caughtBy: wire(
      "answers a claim with as many bytes as the Manager and the agent allow, and leaves the other tasks in the queue",
    ),
  },
  {
    name: "crash-sensitive-tasks-are-claimed-ahead",
    why: "A crash of an agent fails tasks that it had not even started.",
    in: "claimOf",
    find: "Math.min(slots, limit)",
    replace: "limit",
    caughtBy: wire("claims no task ahead that could not survive another crash"),
  },
  {
    name: "rescued-task-counts-as-snoozed",
    why: "An agent that had lost its task is told that its snooze was accepted.",
    in: "wasSettled",
    find: "ends.includes(recorded.outcome)",
    replace: "true",
    caughtBy: wire("says lost of a task that was rescued, although it is pending as after a snooze"),
  },
  {
    name: "gone-agent-is-tried-once",
    why: "The tasks of a killed agent wait for a lease, because a request of its own still held the lock of its row.",
    in: "GoneSessions.run",
    find: "return this.#pause;",
    replace: "return longestSleep;",
    caughtBy: gone(
      "the tasks of an agent that is gone are freed, although another transaction holds its row at first",
    ),
  },
  {
    name: "claim-for-the-dead",
    why: "A Manager claims tasks for an agent that was killed meanwhile: they wait for a lease.",
    in: "Claims.#look",
    find: "!session.hasEnded",
    replace: "true",
    caughtBy: gone("a claim that its agent did not live to see claims nothing once the agent is gone"),
  },
  {
    name: "any-file-is-a-stale-socket",
    why: "A Manager deletes a file that happens to have the name of its socket.",
    in: "removeStale",
    find: "!(await lstat(path)).isSocket()",
    replace: "!(await lstat(path))",
    caughtBy: {
      file: "test/features/manager/unix-socket.test.ts",
      test: "does not replace a file that is not a socket",
    },
  },
  {
    name: "first-claim-for-the-dead",
    why: "A Manager claims tasks for an agent that was killed while it registered: they wait for a lease.",
    in: "Claims.#look",
    find: "session.hasEnded || body.funcs.length === 0",
    replace: "body.funcs.length === 0",
    caughtBy: gone("an agent that is gone before its first claim has claimed nothing"),
  },
  {
    name: "repeated-snooze-is-lost",
    why: "An agent whose answer was lost reports a task as lost that it had snoozed, once the task has run elsewhere.",
    in: "wasSettled",
    find: "if (!isNext) return true;",
    replace: "if (!isNext) return false;",
    caughtBy: wire("says settled of a repeated snooze, although the task has run again since"),
  },
  {
    name: "repeated-settle-is-lost",
    why: "An agent whose answer was lost reports a completed task as lost.",
    in: "wasSettled",
    find: "row.generationId <= told.generation",
    replace: "row.generationId > told.generation",
    caughtBy: wire("answers a repeated settle the same, at any Manager, and a stale one by lost"),
  },
  {
    name: "forgotten-task-stays-running",
    why: "A task whose claim was answered to nobody runs for ever under a session that lives.",
    in: "Session.forgotten",
    find: "now - namedAt > age",
    replace: "now - namedAt > age * 1_000",
    caughtBy: wire("tells a beat of cancelled and lost tasks, and keeps the others alive beyond the lease"),
  },
  {
    name: "lost-settlement-of-an-agent-is-forgotten",
    why: "A task whose settlement a crashed server has lost stays running for as long as its agent lives.",
    in: "Desk.#learnHeld",
    find: "if (unknown.length === 0) return;",
    replace: "return;",
    caughtBy: lostSettlement("runs another task"),
  },
  {
    name: "lost-settlement-ends-its-session",
    why: "A task whose settlement a crashed server has lost is charged with a crash, and its agent, which waits, is declared dead.",
    in: "Desk.#tick",
    find: "!session.hasTasks",
    replace: "session.held.size === 0",
    caughtBy: lostSettlement("waits"),
  },
  {
    name: "revoked-token-is-valid",
    why: "A revoked agent goes on.",
    in: "isValid",
    find: "revokedAt === null && (expiresIn === null || expiresIn > age)",
    replace: "expiresIn === null || expiresIn > age",
    caughtBy: wire("refuses a revoked token"),
  },
  {
    name: "cancel-does-not-reach-an-agent",
    why: "A cancelled task runs to its end on its agent.",
    in: "RemoteStore.#beat",
    find: "this.#lose(running, answer);",
    replace: "",
    caughtBy: agent("hears of a cancel within a second, and its late result is not accepted"),
    hangs: true,
  },
  {
    name: "agent-stays-with-its-manager",
    why: "An agent waits for a Manager that has stopped, although another one runs.",
    in: "Client.next",
    find: "(this.#at + 1) % this.#places.length",
    replace: "this.#at",
    caughtBy: agent("goes on with the next Manager when one stops, and what it runs goes on"),
    hangs: true,
  },
  {
    name: "late-answer-ends-the-next-attempt",
    why: "A task that comes to the same agent again is aborted by an answer about its earlier attempt, and stays running for a lease.",
    in: "RemoteStore.#lose",
    find: "record.generationId !== generations.get(id)",
    replace: "false",
    caughtBy: late("a late answer about a task's earlier attempt does not end its next attempt"),
    // An agent that runs nothing sends no further beat.
    hangs: true,
  },
  {
    name: "agent-runs-a-task-twice",
    why: "An agent that is given a task again, which it had lost, runs it twice at once.",
    in: "RemoteStore.#hold",
    find: "if (again.length > 0) this.#host.look(again);",
    replace: "",
    caughtBy: late("of two attempts of one task an agent names the newer, and ends the older"),
  },
  {
    name: "waiting-claim-holds-up-what-has-ended",
    why: "While an agent's claim waits for tasks, which may take 25 s, nothing that has ended is settled.",
    in: "Dispatcher.#mayOverlap",
    find: "if (this.#host.isClaimWaiting?.()) return this.#ended.length > 0;",
    replace: "",
    caughtBy: late("a late answer about a task's earlier attempt does not end its next attempt"),
    hangs: true,
  },
  {
    name: "agent-starts-before-the-turn",
    why: "A task that an agent has claimed before its turn at a rate starts at once: the service behind it sees more than the rate.",
    in: "heardOf",
    find: "startsIn.size === 0",
    replace: "true",
    caughtBy: late(
      "a task that an agent has claimed before its turn at a rate starts at its turn, and keeps its slot until then",
    ),
  },
  {
    name: "manager-keeps-the-turn-to-itself",
    why: "A Manager that says nothing of a task's turn has the agent start it before.",
    in: "Session.startsIn",
    find: "wait > 0 ? wait : undefined",
    replace: "undefined",
    caughtBy: {
      file: "test/features/manager/sqlite.full.test.ts",
      test: "limits on SQLite > the wire > a claim takes tasks before their turn at a rate, and says when each is to start",
    },
  },
  {
    name: "gone-client-is-an-error",
    why: "Each agent that is killed while it asks is an error of its Manager.",
    in: "Bodies.read",
    find: 'error instanceof Refusal ? error : new Refusal(400, "the body has no end")',
    replace: "error",
    caughtBy: {
      file: "test/features/manager/hostile.full.test.ts",
      test: "a Manager answers > nobody when a client goes away in the middle of a body, and reports no error",
    },
  },
  {
    name: "ended-task-is-handed-back",
    why: "A task that ended while a Manager looked at it is pending again a lease later, and runs twice.",
    in: "Session.hold",
    find: 'if (task.status !== "running") return;',
    replace: "",
    caughtBy: wire("a task that ends while a Manager looks for what its session holds stays ended"),
  },
  {
    name: "two-agents-of-one-name",
    why: "Of two people who add an agent of one name at once, one gets a token that is nobody's.",
    in: "AgentOperations.add",
    find: "row?.[0] === agent.tokenHash",
    replace: "row !== undefined",
    caughtBy: store("of several connections that add an agent of one name, one succeeds"),
  },
  {
    name: "agents-expire-by-another-clock",
    why: "An agent's token expires when the clock of a Manager says so.",
    in: "agentStatements",
    find: "`${d.minus(sql`expires_at`, d.now(p))}`",
    replace: "`${d.minus(sql`expires_at`, sql`created_at`)}`",
    caughtBy: store("the time until an agent expires is measured by the database's clock"),
  },
  {
    name: "slow-beat-is-no-beat",
    why: "While the database is slow, tasks that run are given to other agents, and run twice at once.",
    in: "Session.forgotten",
    find: "if (this.#beats > 0) return [];",
    replace: "",
    caughtBy: wire("a task that is named is not handed back, however slowly the database answers"),
  },
  {
    name: "revoked-token-is-unknown",
    why: "Whoever watches refused tokens takes a revoked agent that goes on asking for a stranger.",
    in: "Tokens.agentOf",
    find: 'found.revokedAt === null ? "expired" : "revoked"',
    replace: '"unknown"',
    caughtBy: channels("a refused token is reported with its reason, and without the token"),
  },
  {
    name: "session-ends-unheard",
    why: "An agent that is gone is shown as connected for ever.",
    in: "Desk.#forget",
    find: "sessionClosedChannel.publish({ ...this.#factsOf(session), reason });",
    replace: "session.end();",
    caughtBy: channels(
      "a session is opened by its first request, and closed when its connections have closed",
    ),
  },
  {
    name: "agent-limits-other-functions",
    why: "An agent that is taken over removes the limits of functions that it may not even run.",
    in: "Http.#actions",
    find: "!mayRun(asked.agent, named)",
    replace: "false",
    caughtBy: limits("the wire > takes limits of the agent's own functions only"),
  },
  {
    name: "agent-counts-for-no-shared-limit",
    why: "A limit that functions share by name holds for workers, and agents run as many tasks beside them.",
    in: "claimOf",
    find: "...(sharing && { sharing })",
    replace: "",
    caughtBy: limits("the wire > a claim counts for the limits that it names, and gets no task above them"),
  },
  {
    name: "stranger-throttles",
    why: "Any agent stops a function by settling a task that it never claimed.",
    in: "Desk.#settlementOf",
    find: "if (!held) continue;",
    replace:
      'if (!held && one.status === "throttled") { const row = await this.#rows([one.id]); const task = row.get(one.id); if (task) await this.#internals.shared.throttle(task, one.delay); } if (!held) continue;',
    caughtBy: limits("the wire > a task that is not the session's throttles nothing"),
  },
  {
    name: "throttle-ends-unheard",
    why: "When a rate or a throttle ends, agents that wait look for tasks a second later.",
    in: "Claims.#learn",
    find: "this.#polls.lookAgain(key, limits?.again);",
    replace: "",
    caughtBy: limits("the wire > a claim that waits gets a task when a throttle ends, without a wake-up"),
    hangs: true,
  },
  {
    name: "open-connection-is-a-sign-of-life",
    why: "The tasks of an agent whose machine lost power wait longer than a lease, since its connections are still open.",
    in: "Desk.#tick",
    find: `const hasLeft = !session.isConnected || session.poll === undefined;
      if (hasLeft && now - session.lastSeen > 2 * this.#options.lease) this.#forget(session, "silent");
      else if (session.poll !== undefined && !session.hasTasks) waiting.push(session);`,
    replace: "if (session.isConnected && !session.hasTasks) waiting.push(session);",
    caughtBy: gone("an open connection on which nothing is asked does not keep its session alive"),
  },
  {
    name: "revoked-agent-waits-on",
    why: "An agent whose token was revoked gets one more task, up to a minute later.",
    in: "Claims.#lookInTurn",
    find: "await rights()",
    replace: "session.agent",
    caughtBy: wire("a claim that waits gets no task once its token is revoked"),
  },
  {
    name: "a-repeated-claim-claims-more",
    why: "An agent whose answer was lost asks again, gets other tasks, and the first ones run for nobody.",
    in: "sessionsOwn",
    find: "isKnown === 1 && !anew",
    replace: "isKnown === 2 && !anew",
    caughtBy: model,
  },
  {
    name: "an-older-outcome-ends-the-task",
    why: "An agent that was declared dead completes the task that another one runs since.",
    in: "held",
    find: "`${isOne} and generation_id = ${p.generationId}`",
    replace: "`${isOne}`",
    caughtBy: model,
  },
];
