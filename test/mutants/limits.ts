/** Faults of limits, rates, pauses and the turns of groups. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

/** A case of the conformance suite, on a file. */
const onFile = (test: string) => ({
  file: "test/conformance/sqlite.test.ts",
  test: `'SQLite, a file' > limits and groups > ${test}`,
});

const heldStarts = (test: string) => ({ file: "test/worker/held-starts.test.ts", test });

const ofTurns = (test: string) => ({ file: "test/worker/turns-and-slots.test.ts", test });

const ofPlaces = (test: string) => ({ file: "test/features/flow/freed-places.test.ts", test });

const putOffCase = onFile(
  "counts what each rate has put off, and since when; a task with a delay of its own is none of it",
);

export const limitFaults: readonly Mutant[] = [
  {
    name: "put-off-of-a-function-has-all-that-limits-put-off",
    why: "What a shared name or another function has put off counts for each function.",
    in: "putOffCounts.ofFunc",
    find: '`case when ${d.same("func", p.name)} and put_off_by like \'["group",%\' then 1 else 0 end`',
    replace: "`1`",
    caughtBy: putOffCase,
  },
  {
    name: "put-off-in-queues-has-no-bound",
    why: "A scrape reads all tasks that rates have put off.",
    in: "putOffCounts.inQueues",
    find: "d.atMost(p.limit)",
    replace: "d.atMost(1e9)",
    caughtBy: putOffCase,
  },
  {
    name: "a-backoff-counts-as-put-off",
    why: "A task that a rate had put off once looks so in its backoff too, and a change of the rate lets it go early.",
    in: "transitionStatements.release",
    find: "`put_off_by = null`",
    replace: "`uses = null`",
    caughtBy: onFile(
      "a task that was put off, and fails when no limit is about it any more, waits for its backoff and not for a rate",
    ),
  },
  {
    name: "limit-one-too-many",
    why: "One task more than the limit runs at once.",
    in: "#roomUnder.rooms",
    find: "bound.concurrency - this.#claim.used(bound)",
    replace: "bound.concurrency + 1 - this.#claim.used(bound)",
    caughtBy: onFile("a limit of a function lets so many of its tasks run at once, of all workers together"),
  },
  {
    name: "limit-forgets-what-it-admits",
    why: "One claim takes as many tasks as it has slots, whatever the limit.",
    in: "LimitGate.#take",
    find: "this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1)",
    replace: "this.#taken.set(key, 0)",
    caughtBy: onFile("a rescue, a cancel and a purge of running tasks make room"),
  },
  {
    name: "limit-counts-before-its-lock",
    why: "A claim goes by what ran before it had the lock, or by nothing: more tasks than the limit run at once.",
    in: "SteeredClaim.lock",
    find: "yield* this.countGroups(pair, groups);",
    replace: "",
    caughtBy: onFile("a limit of a function lets so many of its tasks run at once, of all workers together"),
  },
  {
    name: "limit-is-not-told",
    why: "Workers that have claimed before a limit was set never hear of it.",
    in: "LimitOperations.#tell",
    find: "yield* count(this.#s.tellWorkers, { version });",
    replace: "",
    caughtBy: onFile("a limit counts the tasks that ran before it was set; a lower one lets them end"),
  },
  {
    name: "limit-forgets-running-tasks",
    why: "A limit does not count the tasks that run when it is set.",
    in: "usageStatements.countTask",
    find: '`${still("running")} and uses is null`',
    replace: '`${still("pending")} and uses is null`',
    caughtBy: onFile("a limit of a queue counts the tasks that ran before it was set"),
  },
  {
    name: "rate-takes-no-token",
    why: "A rate lets any number of tasks start.",
    in: "SteeredClaim.end",
    find: "yield* count(setState, { ...scopeParams(state), tat: this.#states.get(key) });",
    replace: "",
    caughtBy: onFile("a retry takes a token too"),
  },
  {
    name: "turn-is-not-waited-for",
    why: "A task that was claimed before its turn at a rate starts at once.",
    in: "HeldStarts.#waitUntil",
    find: "at - performance.now()",
    replace: "0",
    caughtBy: {
      file: "test/features/flow/limits.test.ts",
      test: "a function is called no earlier than its turn, and a stop loses no task that waits for it",
    },
  },
  {
    name: "turn-comes-early",
    why: "A task starts before its turn, when the timer that waits for the turn fires too early.",
    in: "HeldStarts.#waitUntil",
    find: "after(wait, () => this.#waitUntil(at, attempt))",
    replace: "after(wait, () => this.#startAt(at, attempt))",
    caughtBy: heldStarts("an attempt does not start before its turn when its timer fires too early"),
  },
  {
    name: "missed-turns-start-together",
    why: "After a process stood still, all its tasks start at once whose turns at a rate have passed.",
    in: "HeldStarts.#startAt",
    find: "now - at <= mostLate",
    replace: "true",
    caughtBy: heldStarts(
      "attempts whose turn has passed while the process stood still do not start together: they are handed back",
    ),
  },
  {
    name: "full-worker-has-no-lots",
    why: "What a worker puts off that has no room for it now becomes due at its turn: its claim is late, and the rate is not kept.",
    in: "SteeredClaim.#written",
    find: "this.#held === undefined ? due : inLots(rate, due)",
    replace: "!this.#held ? due : inLots(rate, due)",
    caughtBy: onFile("tasks that a claim without room for them puts off become due in lots, too"),
  },
  {
    name: "turns-take-all-slots",
    why: "A plain task waits up to 200 ms for a slot that a task keeps whose turn at a rate has not come.",
    in: "HeldStarts.room",
    find: "Math.min(slots, concurrency - 1 - this.#waiting.size)",
    replace: "slots",
    caughtBy: ofTurns("tasks that wait for their turn leave one of a worker's slots to others"),
  },
  {
    name: "stop-lets-turns-start",
    why: "A worker that stops still starts the tasks that wait for their turn at a rate.",
    in: "Dispatcher.stopClaiming",
    find: "this.#held.handBack();",
    replace: "",
    caughtBy: {
      file: "test/features/flow/limits.test.ts",
      test: "a worker that stops starts none of the tasks that wait for their turn",
    },
  },
  {
    name: "throttle-lets-turns-start",
    why: "A service refuses a call, and is called again by tasks that waited for their turn in the same worker.",
    in: "throttleHolding",
    find: "held.take((other) => isThrottledWith(record, other))",
    replace: "held.take(() => false)",
    caughtBy: {
      file: "test/features/flow/limits.test.ts",
      test: "a throttle also stops the tasks of its group that wait for their turn in the same worker",
    },
  },
  {
    name: "turn-is-taken-without-a-slot",
    why: "A worker claims more tasks before their turns than it has free slots.",
    in: "SteeredClaim.early",
    find: "(this.#held ?? 0) - admitted",
    replace: "1_000",
    caughtBy: onFile(
      "a claim takes tasks a little before their turn for its free slots, and the others become due in lots",
    ),
  },
  {
    name: "turn-at-one-of-several-rates",
    why: "A claim takes tasks whose turn at the rate of their queue is far away, and each keeps a slot until then.",
    in: "LimitGate.early",
    find: "bounds.filter(isRated).some",
    replace: "bounds.filter(isRated).slice(-1).some",
    caughtBy: onFile(
      "a claim takes no task whose turn is far away at a rate that other tasks of the claim have used up",
    ),
  },
  {
    name: "put-off-tasks-of-one-lot",
    why: "All tasks that a quick rate puts off one by one become due in the same lot, and wake all workers at once.",
    in: "SteeredClaim.learn",
    find: "(Number(n) - 1) * interval(rate)",
    replace: "0",
    caughtBy: onFile("tasks that claims put off one by one become due in as many lots"),
  },
  {
    name: "waiting-for-a-turn-is-a-crash",
    why: "A task whose worker is killed before the task's turn fails, although its function was not called.",
    in: "MaintenanceOperations.#chargeCrashes",
    find: "!waitsForTurn(task, now)",
    replace: "now > 0",
    caughtBy: onFile("a rescue charges no retry to a task whose turn is still to come"),
  },
  {
    name: "slow-looks-take-one-group",
    why: "On a slow server a claim takes as many tasks of one group as it has slots, while other groups wait.",
    in: "TurnReader.#look",
    find: "named() === 0 && now() - start > longestLook",
    replace: "now() - start > longestLook",
    caughtBy: {
      file: "test/stores/sql/turns.test.ts",
      test: "however slow the database is, a group with room is not all that a claim takes from",
    },
  },
  {
    name: "rate-lets-nothing-go",
    why: "Tasks that a removed rate has put off wait for their turns, which may be hours away.",
    in: "LimitOperations.letGo",
    find: "yield* changes(this.#s.letGo, waiting.map(toTaskVersion));",
    replace: "",
    caughtBy: onFile("a rate that is removed lets go at once what it had put off, and nothing else"),
  },
  {
    name: "a-paused-group-is-deleted",
    why: "Maintenance deletes the rows of paused groups: their tasks run again.",
    in: "isSpent",
    find: "`and paused_at is null`",
    replace: "``",
    caughtBy: onFile("rows of groups that have no effect any more are deleted, and nothing else"),
  },
  {
    name: "pause-of-a-group-is-ignored",
    why: "The tasks of a paused group run.",
    in: "LimitGate.roomOf",
    find: "pair.isStopped(now) || pair.isGroupStopped(group, now)",
    replace: "pair.isStopped(now)",
    caughtBy: onFile(
      "a pause of a queue, a function or a group: its tasks stay pending until exactly it is resumed",
    ),
  },
  {
    name: "turns-begin-anew",
    why: "Each claim begins with the first group: a big one starves the others.",
    in: "TurnReader.took",
    find: "this.#turnsOf($any).last = task.groupKey ?? ungrouped",
    replace: "task.groupKey ?? ungrouped",
    caughtBy: onFile("groups take turns whatever the priorities; within a group by priority, then age"),
  },
  {
    name: "uses-stay-on-a-released-task",
    why: "A task counts for a shared limit that its code no longer uses, and takes a place from others.",
    in: "transitionStatements.release",
    find: "`uses = null,`",
    replace: "``",
    caughtBy: onFile("a limited task that goes back to the queue counts no more"),
  },
  {
    name: "place-is-not-offered-to-other-workers",
    why: "A place of a shared limit waits for the next look of the other workers in the process.",
    in: "Dispatcher.#notify",
    find: 'kinds.has("interrupted") || leavesPlace',
    replace: 'kinds.has("interrupted")',
    caughtBy: {
      file: "test/features/flow/limits.test.ts",
      test: "a place under a limit > is taken by another worker of the process when the one whose task ended has none",
    },
    hangs: true,
  },
  {
    name: "tasks-without-a-group-take-a-place",
    why: "A worker with one free slot finds no task of the only group that waits, and stands still.",
    in: "TurnReader.#groups",
    find: "found.size - Number(found.has(ungrouped))",
    replace: "found.size",
    caughtBy: onFile("a claim of one task finds the only group that waits, wherever the turns are"),
  },
  {
    name: "an-ended-task-gives-its-group-the-next-turn",
    why: "With one slot, a tenant with many tasks keeps all others from starting.",
    in: "TurnReader.#groups",
    find: "const newest = $any",
    replace: "yield* take([...turns.hints]); const newest = $any",
    caughtBy: onFile(
      "a group whose task has just ended has no turn before the others, nor takes their place",
    ),
  },
  {
    name: "unread-tasks-of-a-group-are-forgotten",
    why: "Slots stay free until the next poll although tasks of a group wait.",
    in: "SteeredClaims.#claim",
    find: "isFull || tasks.length < admitted.length || limits.mayStartMore",
    replace: "isFull || tasks.length < admitted.length",
    caughtBy: onFile("a claim that has read only some tasks of a group reports that there may be more"),
  },
  {
    name: "a-place-that-is-left-wakes-nobody",
    why: "A place under a limit stays free until the next poll when the worker that freed it has no task for it.",
    in: "SteeredClaim.retakes",
    find: "return [...free.values()].every((n) => n <= 0);",
    replace: "return free.size >= 0;",
    caughtBy: ofPlaces(
      "a freed place > is taken by a worker elsewhere when the last task of its function completes",
    ),
  },
  {
    name: "places-are-retaken-whatever-they-were",
    why: "A task of one limit is taken for one of another: the place that is left wakes nobody.",
    in: "SteeredClaim.retakes",
    find: "[...free.values()].every((n) => n <= 0)",
    replace: "ended.length <= started.length",
    caughtBy: onFile(
      "a claim says whether it has taken all places under limits of the tasks that its cycle settled",
    ),
  },
  {
    name: "a-task-that-is-put-off-frees-quietly",
    why: "A snoozed task wakes no worker, neither for its place nor for its time.",
    in: "areInVain",
    find: 'changeOf(one) === "release"',
    replace: "false",
    caughtBy: onFile(
      "a claim says whether it has taken all places under limits of the tasks that its cycle settled",
    ),
  },
  {
    name: "a-dead-worker-keeps-its-place-to-itself",
    why: "A worker that dies between a settlement and its NOTIFY leaves a place that is free until the next poll.",
    in: "Sweep.#rescue",
    find: "if (freed === 0) this.#host.onWork(); else announce(this.#host, id, freed);",
    replace: "announce(this.#host, id, freed);",
    caughtBy: {
      file: "test/worker/sweep.test.ts",
      test: "the end of a worker that held no task wakes this process: it may have freed a place and told nobody",
    },
  },
  {
    name: "limits-are-listed-with-counts-of-others",
    why: "A queue that is full is shown as free, and a free one as full.",
    in: "LimitOperations.#ofEach",
    find: "found[Number(place)] ??= row;",
    replace: "found[items.length - 1 - Number(place)] ??= row;",
    caughtBy: {
      file: "test/conformance/postgres.test.ts",
      test: "'Postgres' > limits and groups > lists the limits with what runs, waits and is paused",
    },
  },
];
