/** Faults of claiming ahead of the slots, and of where a look for work on Postgres begins. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const ofPace = (test: string) => ({ file: "test/worker/prefetch.test.ts", test });
const ofHeads = (test: string) => ({ file: "test/stores/postgres/claim-cursor.test.ts", test });
const ofAhead = (test: string) => ({
  file: "test/worker/ahead.test.ts",
  test: `prefetch on a server > ${test}`,
});
const handsBack =
  "a worker runs no more tasks at once than it has slots, and hands back those that wait too long for one";

const ofTwo = (test: string) => ({ file: "test/worker/dispatcher.test.ts", test });

export const aheadFaults: readonly Mutant[] = [
  {
    name: "second-cycle-before-the-look",
    why: "A worker whose cycles always overlap never looks for tasks that a server gave it without an answer.",
    in: "Dispatcher.#mayOverlap",
    find: "this.#failures.count > 0 || this.#endsLetStart || this.#claimsAlone || this.#unknownClaims.isDue",
    replace: "this.#failures.count > 0 || this.#endsLetStart || this.#claimsAlone",
    caughtBy: ofTwo("no third cycle begins, and no second one that would look at what the worker holds"),
  },
  {
    name: "second-cycle-waits-for-the-first",
    why: "A worker that once found no idle connection settles what has ended meanwhile only after the cycle under way.",
    in: "Dispatcher.#mayOverlap",
    find: "this.#host.store.cyclesMayOverlap($later)",
    replace: "this.#host.store.cyclesMayOverlap()",
    caughtBy: ofTwo(
      "a second cycle that found no idle connection begins once there is one, and not only after the first",
    ),
  },
  {
    name: "success-beside-a-failure",
    why: "A row that the database refuses keeps all outcomes of its cycle from being settled, for as long as others succeed.",
    in: "Dispatcher.#runCycle",
    find: "if (this.#failures.count === failures) this.#failures.count = 0;",
    replace: "this.#failures.count = 0;",
    caughtBy: ofTwo(
      "after one of two cycles has failed, outcomes are settled one by one although the other has succeeded",
    ),
  },
  {
    name: "slots-claimed-twice",
    why: "A worker with slow tasks claims for slots that the claim beside it is about to fill.",
    in: "Dispatcher.#claimRequest",
    find: "this.#prefetched.length + underWay.claiming.tasks",
    replace: "this.#prefetched.length",
    caughtBy: ofTwo("while handlers are slow, two claims at once ask for no more tasks than there are slots"),
  },
  {
    name: "slots-of-a-cycle-under-way",
    why: "A worker that dies is charged for more crash-sensitive tasks than it has slots.",
    in: "CyclesUnderWay.isAlone",
    find: "this.settling === batch.length && !this.isClaiming",
    replace: "!this.isClaiming",
    caughtBy: ofTwo(
      "a claim beside a cycle that only settles leaves the slots of crash-sensitive tasks to that cycle's",
    ),
  },
  {
    name: "older-answer-counts",
    why: "A task that a rate has put off waits for the next poll.",
    in: "CyclesUnderWay.noteAnswer",
    find: "!claim || place < this.#lastAnswered",
    replace: "!claim",
    caughtBy: ofTwo(
      "an older claim that is answered later does not undo what a newer one said of the next look",
    ),
  },
  {
    name: "claimed-ahead-and-kept",
    why: "Tasks wait for the slots of one worker, while others have nothing to do.",
    in: "Dispatcher.#fillSlots",
    find: "this.#prefetched.watch();",
    replace: "",
    caughtBy: ofAhead(handsBack),
  },
  {
    name: "claimed-ahead-and-started-at-once",
    why: "More tasks run at once than there are slots.",
    in: "Dispatcher.#fillSlots",
    find: "this.#prefetched.length > 0 && this.#freeSlots(this.#ended.length + this.#underWay.settling) > 0",
    replace: "this.#prefetched.length > 0",
    caughtBy: ofAhead(handsBack),
  },
  {
    name: "only-the-first-that-waited-too-long",
    why: "What waits behind it waits much longer.",
    in: "PrefetchBuffer.watch",
    find: "this.handBack(performance.now()); this.watch();",
    replace: "this.handBack(performance.now());",
    caughtBy: {
      file: "test/worker/prefetch-buffer.test.ts",
      test: "each prefetched task is handed back when its own wait is over",
    },
  },
  {
    name: "ahead-of-slow-handlers",
    why: "A worker sits on tasks that it will not start for a long time.",
    in: "PrefetchControl.begin",
    find: "rate * Math.min(cyclesAhead * this.#cycleMs, maxAheadMs)",
    replace: "cyclesAhead * outcomes.length",
    caughtBy: ofPace("nothing is claimed ahead while handlers take much longer than a cycle"),
  },
  {
    name: "waiting-for-a-claim-counts-as-running",
    why: "The slower the database answers, the fewer tasks each claim asks for: 20 ms away it is one for each slot.",
    in: "PrefetchControl.stopped",
    find: "this.#busySince = undefined;",
    replace: "",
    caughtBy: ofPace("cycles of 200 ms do not let a worker claim less of what its quick handlers could run"),
  },
  {
    name: "idle-worker-claims-ahead",
    why: "A worker that ran quick tasks an hour ago takes hundreds of slow ones at once, and others wait until it hands them back.",
    in: "PrefetchControl.#pace",
    find: "performance.now() - this.#stoppedAt > forgottenAfter",
    replace: "performance.now() < this.#stoppedAt",
    caughtBy: ofPace("after a second without a task, the first claim is for the free slots"),
  },
  {
    name: "late-although-a-slot-is-free",
    why: "A process that stood still hands back tasks that it could start.",
    in: "PrefetchBuffer.watch",
    find: "this.#fillSlots();",
    replace: "",
    caughtBy: {
      file: "test/worker/prefetch-buffer.test.ts",
      test: "a task whose wait is over starts when a slot is free",
    },
  },
  {
    name: "ahead-whatever-it-weighs",
    why: "A worker holds 500 MiB of arguments of tasks that have not started.",
    in: "PrefetchControl.begin",
    find: "maxCharacters / this.#charactersPerTask",
    replace: "",
    caughtBy: ofPace("the larger the arguments are, the fewer tasks are claimed ahead"),
  },
  {
    name: "crash-sensitive-tasks-ahead",
    why: "A task that kills its worker ends two hundred others, which never began.",
    in: "Dispatcher.#claimRequest",
    find: "ahead > 0 || !underWay.isAlone(batch)",
    replace: "!underWay.isAlone(batch)",
    caughtBy: ofAhead("a worker claims no more crash-sensitive tasks than it has slots"),
  },
  {
    name: "crash-sensitive-tasks-ahead-on-postgres",
    why: "The same, by a statement that does not listen.",
    in: "settleAndClaimStatement",
    find: "`or not crash_sensitive)`",
    replace: "`or crash_sensitive is not null)`",
    caughtBy: {
      file: "test/conformance/postgres.test.ts",
      test: "'Postgres' > claim > a claim takes at most the given number of crash-sensitive tasks, highest priority first",
    },
  },
  {
    name: "looks-at-the-heads-for-ever",
    why: "A retry waits until everything that was enqueued after it has been claimed.",
    in: "ClaimCursors.may",
    find: "(this.#wasFull || this.#isCostly) && since < pause",
    replace: "(this.#wasFull || this.#isCostly)",
    caughtBy: ofHeads("a full scan runs four times a second"),
  },
  {
    name: "too-little-from-the-heads-is-all-there-is",
    why: "A task that was handed back waits for the next poll, while slots are free.",
    in: "ClaimCursors.note",
    find: "return fromCursors && !full && !this.#isCostly;",
    replace: "return false;",
    caughtBy: ofHeads("a scan from the cursor that finds too little is followed by a full scan"),
  },
  {
    name: "urgent-tasks-behind-the-head",
    why: "A task of higher priority waits for a second, or for the end of the backlog.",
    in: "candidatesOf",
    find: "part(sql`priority > ${at}`, $all)",
    replace: "part(sql`id < 0 and priority > ${at}`, $all)",
    caughtBy: {
      file: "test/conformance/postgres.test.ts",
      test: "'Postgres' > claim > a claim finds tasks that became pending before the claim cursor",
    },
  },
  {
    name: "a-look-at-all-keeps-the-head",
    why: "Of many tasks that became pending at once, those after the first claim are passed over.",
    in: "ClaimCursors.#move",
    find: "!known || back || isLater(cursor, known)",
    replace: "!known || isLater(cursor, known)",
    caughtBy: ofHeads("a full scan that was cut short sets the cursor to its own last claim"),
  },
  {
    name: "ahead-again-after-waiting-too-long",
    why: "The same tasks are claimed and handed back again and again, while other workers could run them.",
    in: "PrefetchControl.#adapt",
    find: "Math.max(1, Math.min(this.#room, this.#peak) / 2)",
    replace: "this.#room",
    caughtBy: ofPace(
      "after a task has waited more than 50 ms for a slot, half as many are claimed ahead, until all find one soon",
    ),
  },
  {
    name: "one-stop-counts-many-times",
    why: "After one stop of the process, which all waiting tasks tell of one after the other, a worker claims nothing ahead.",
    in: "PrefetchControl.#adapt",
    find: "waited > maxAheadMs && now >= this.#shrunkAt + maxWaitMs",
    replace: "waited > maxAheadMs",
    caughtBy: ofPace("the long waits of tasks of one time count once"),
  },
  {
    name: "grows-without-a-sign",
    why: "While its slots are taken, a worker claims more and more ahead.",
    in: "PrefetchControl.#adapt",
    find: "if (waited === undefined) return;",
    replace:
      "if (waited === undefined) this.#room = Math.min(maxAhead, 2 * this.#room); if (waited === undefined) return;",
    caughtBy: ofPace("no more tasks are claimed ahead because none has found a slot"),
  },
  {
    name: "grows-at-once-after-handing-back",
    why: "Where functions end in bunches, the same tasks are claimed and handed back several times a second.",
    in: "PrefetchControl.#adapt",
    find: "waited <= shortWaitMs && now >= this.#growsFrom",
    replace: "waited <= shortWaitMs",
    caughtBy: ofPace("a second after a task was handed back, more are claimed ahead again"),
  },
  {
    name: "peak-of-the-last-cycle-alone",
    why: "A notification before a long wait, for which nothing was claimed, lets the worker claim nothing ahead for long.",
    in: "PrefetchControl.begin",
    find: "this.#peak = Math.max(this.#peak, most);",
    replace: "this.#peak = most;",
    caughtBy: ofPace("cycles in which nothing ended before a long wait do not make it count for more"),
  },
  {
    name: "ahead-although-handed-back",
    why: "Where slots do not become free, a worker claims as many tasks as before, and hands them back again.",
    in: "PrefetchBuffer.handBack",
    find: "this.#noteWait(waiting, ended);",
    replace: "",
    caughtBy: {
      file: "test/worker/prefetch-buffer.test.ts",
      test: "each prefetched task is handed back when its own wait is over",
    },
  },
  {
    name: "ahead-by-slow-turns",
    why: "On a slow database a worker holds more than it can start in time.",
    in: "PrefetchControl.begin",
    find: "rate * Math.min(cyclesAhead * this.#cycleMs, maxAheadMs)",
    replace: "rate * cyclesAhead * this.#cycleMs",
    caughtBy: ofPace("of tasks that run all the time, no more are claimed ahead than start within 50 ms"),
  },
  {
    name: "too-crash-sensitive-and-forgotten",
    why: "Of tasks without retries a worker runs as many as it has slots, and then none until it polls.",
    in: "Dispatcher.#apply",
    find: "if (more) this.lookForWork(); else if (claim && claim.crashSensitive < claim.limit) this.#mayHaveWork = true;",
    replace: "if (more) this.lookForWork();",
    caughtBy: {
      file: "test/worker/dispatcher.test.ts",
      test: "a claim that had no room for crash-sensitive tasks is made again when their slots are free",
    },
  },
  {
    name: "heads-of-others",
    why: "A queue with few tasks is looked at from the start as seldom as a busy one that is slow to look at.",
    in: "OneStatementCycles.#inOne",
    find: "this.#cursorsOf(JSON.stringify(pairs))",
    replace: 'this.#cursorsOf("")',
    caughtBy: {
      file: "test/stores/postgres/settle-and-claim.test.ts",
      test: "settle and claim on Postgres > looks for tasks of one queue at its own rate, however slow scans for another queue are",
    },
  },
  {
    name: "what-was-left-is-behind-the-head",
    why: "Retries beside a flood of new tasks are claimed at a slotful a second.",
    in: "ClaimCursors.note",
    find: "if (!leftSome) this.#move(last, full && !fromCursors); else if (!fromCursors) this.#cursors.clear();",
    replace: "if (!leftSome) this.#move(last, full && !fromCursors);",
    caughtBy: ofHeads("tasks that were found and not claimed come next, wherever the cursor was"),
  },
  {
    name: "waiting-for-a-slot-and-lost",
    why: "The worker reports a cancelled task as started.",
    in: "PrefetchBuffer.remove",
    find: "if (at >= 0) this.#list.splice(at, 1);",
    replace: "",
    caughtBy: {
      file: "test/worker/prefetch-buffer.test.ts",
      test: "a task that was removed takes no slot",
    },
  },
  {
    name: "a-worker-that-is-gone-looks-on",
    why: "A worker that was declared dead claims nothing and reports no error.",
    in: "isInVain",
    find: "claimed.length === 0 && more && registered",
    replace: "claimed.length === 0 && more",
    caughtBy: {
      file: "test/stores/sql/settle-and-claim.test.ts",
      test: "a call whose worker is gone says so, and does not scan again",
    },
  },
  {
    name: "refused-tasks-hide-others",
    why: "Crash-sensitive tasks at the head of a queue keep all tasks behind them from being claimed ahead.",
    in: "ClaimPipeline.#admit",
    find: "admitted.length < request.limit && candidates.length >= depth",
    replace: "admitted.length < request.limit && candidates.length > depth",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > claim > crash-sensitive tasks above the given number do not hide the tasks behind them",
    },
  },
  {
    name: "refused-tasks-hide-others-on-postgres",
    why: "The same in the one statement of a cycle on Postgres.",
    in: "OneStatementCycles.#behindRefused",
    find: "candidates === claim.limit",
    replace: "candidates > claim.limit",
    caughtBy: {
      file: "test/conformance/postgres.test.ts",
      test: "'Postgres' > claim > crash-sensitive tasks above the given number do not hide the tasks behind them",
    },
  },
  {
    name: "reading-in-vain-is-repeated",
    why: "Behind a backlog of refused tasks each claim reads a thousand rows, and finds nothing.",
    in: "ClaimPipeline.#admit",
    find: "this.#depth.inVain(start)",
    replace: "this.#depth.inVain(start + 1e9)",
    caughtBy: {
      file: "test/stores/sql/claim.test.ts",
      test: "after reading further in vain, a claim pauses before it does so again",
    },
  },
];
