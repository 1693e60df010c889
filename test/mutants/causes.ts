/** Seeded faults of what is found to be wrong with a queue. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const of = (test: string) => ({ file: "test/features/causes/causes.test.ts", test });

const watching = (test: string) => ({
  file: "test/features/causes/watch.test.ts",
  test: `watching causes on SQLite > ${test}`,
});

const waitingTest = (test: string) => ({ file: "test/features/causes/waiting.test.ts", test });

export const causeFaults: readonly Mutant[] = [
  {
    name: "a-busy-queue-hides-starved-tasks",
    why: "A task that others overtake is no cause as long as another queue completes thousands of tasks.",
    in: "CauseOperations.started",
    find: "yield* this.#startedAfter(found, bounds.next, now);",
    replace: "",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > causes > the started tasks of a queue are found beside a busier one: those that were enqueued after a task that waits",
    },
  },
  {
    name: "a-pause-is-a-cause-at-once",
    why: "An operator who pauses a queue for half a minute is told that something is wrong.",
    in: "paused",
    find: "Math.min(oldestAge ?? since, since)",
    replace: "oldestAge ?? since",
    caughtBy: of("a pause that tasks have waited behind is a warning, and its command resumes it"),
  },
  {
    name: "one-crash-counts-for-each-of-its-tasks",
    why: "A worker that dies with three tasks of a function is taken for three that died.",
    in: "crashing",
    find: "new Set(own.map(({ workerId }) => workerId)).size",
    replace: "own.length",
    caughtBy: of("a host on which workers die again and again is crashing, if no function is common to them"),
  },
  {
    name: "a-busy-limit-is-a-cause",
    why: "A limit that does what it is for is shown as a problem.",
    in: "limited",
    find: "tasks === 0 || !(isFull || isPaced || isThrottled)",
    replace: "tasks === 0",
    caughtBy: of("a limit is a cause when tasks have waited for it too long, and a busy healthy one is none"),
  },
  {
    name: "a-threshold-forgets-the-others",
    why: "Whoever sets one threshold brings the defaults of all others back.",
    in: "setThresholds",
    find: "{ ...parsed(before), ...read }",
    replace: "read",
    caughtBy: of("a function of whose attempts half fail is failing; its threshold counts in all processes"),
  },
  {
    name: "the-mildest-cause-comes-first",
    why: "Who reads the first line alone repairs what does not matter.",
    in: "worstFirst",
    find: 'Number(b.severity === "critical") - Number(a.severity === "critical")',
    replace: 'Number(a.severity === "critical") - Number(b.severity === "critical")',
    caughtBy: of("critical causes come first, and then those that hold up more tasks"),
  },
  {
    name: "a-later-version-loses-its-threshold",
    why: "A command of an older version that sets one threshold deletes those that only a later version knows.",
    in: "setThresholds",
    find: "!Object.hasOwn(readers, name) || isRead(name, value)",
    replace: "isRead(name, value)",
    caughtBy: of("thresholds that are set at once are all kept, and so are those of a later version"),
  },
  {
    name: "a-schedule-is-taken-for-an-option",
    why: "The command for a schedule called -x ends with an unknown option.",
    in: "argument",
    find: 'name.startsWith("-") ? "-- " : ""',
    replace: '""',
    caughtBy: {
      file: "test/features/causes/shell.full.test.ts",
      test: "a command is printable, and a shell reads the very name from it, whatever its characters",
    },
  },
  {
    name: "a-command-sets-a-concurrency-for-a-rate",
    why: "Whoever runs the command that is shown for a used-up rate changes nothing about that rate.",
    in: "raised",
    find: "rate !== null && isPaced ? rateFor(tasks, rate, facts.thresholds.limitedAfter) : rate",
    replace: "rate",
    caughtBy: of("the command for a limit sets again what is used up, and keeps the rest"),
  },
  {
    name: "a-raised-limit-is-used-up-still",
    why: "Whoever raises a limit as it is offered has to do so again and again until the cause is gone.",
    in: "roomFor",
    find: "Math.max(slots, running) + 1",
    replace: "running + 1",
    caughtBy: of(
      "the limit that is offered is no cause any more > of tasks that run at once: one more than its workers have slots for",
    ),
  },
  {
    name: "a-raised-rate-is-a-cause-until-old-tasks-start",
    why: "Whoever has raised a rate is offered to raise it more, as long as tasks wait that waited for the old one.",
    in: "useOf",
    find: "putOff === null ? isOld : waitsForRate >= thresholds.limitedAfter",
    replace: "isOld",
    caughtBy: of(
      "the limit that is offered is no cause any more > of a rate: also while tasks wait that have waited for long",
    ),
  },
  {
    name: "a-rate-that-has-put-a-task-off-for-long-is-no-cause",
    why: "A task waits for its rate for an hour, and nobody hears of it, since few others wait.",
    in: "useOf",
    find: "(isLate && nextFreeAt !== null && !isThrottled)",
    replace: "false",
    caughtBy: of(
      "the limit that is offered is no cause any more > of a rate that lets all start soon, but has put one off for long",
    ),
  },
  {
    name: "a-limit-of-code-outlives-the-one-that-replaces-it",
    why: "A limit that was raised in the database is a cause still, by the value of the code that holds no more.",
    in: "held",
    find: "isReplaced(limit, facts.limits)",
    replace: "false",
    caughtBy: of("the limit that is offered is no cause any more > of code: the one that replaces it counts"),
  },
  {
    name: "an-unreadable-pause-ends-every-look",
    why: "One row of another program with a time that is none makes listCauses and the scrape of Prometheus fail.",
    in: "timeOf",
    find: "Math.min(Math.max(time || 0, -8.64e15), 8.64e15)",
    replace: "time",
    caughtBy: of("times of 9000000000000000 are not in the way of a look"),
  },
  {
    name: "a-late-word-counts-for-the-report-of-another",
    why: "A process that stood still for a minute takes the report that another one is dealing with for its own, and it is lost.",
    in: "causeReportStatements",
    find: "`update dbq_causes set reported = ${p.reported} where id = ${p.id} and reporter = ${p.reporter}`",
    replace: "`update dbq_causes set reported = ${p.reported} where id = ${p.id}`",
    caughtBy: watching(
      "a watcher that stands still loses the lease, and what it says of its report later counts for nothing",
    ),
  },
  {
    name: "a-dead-reporter-is-followed-by-none",
    why: "After the process that reports was killed, nobody hears of anything again.",
    in: "CauseReportOperations.left",
    find: "Number(row?.[0] ?? 0) || 0",
    replace: "row?.[0] === undefined ? 0 : 60_000",
    caughtBy: watching(
      "a watcher that stands still loses the lease, and what it says of its report later counts for nothing",
    ),
  },
  {
    name: "an-absence-begins-before-its-reporter",
    why: "A deploy that takes a minute ends all causes, which begin again at the next look.",
    in: "CauseReportOperations.record",
    find: "Math.max(seenAt, isNew ? now : since)",
    replace: "seenAt",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > causes > a reporter that comes late counts an absence from its own first look",
    },
  },
  {
    name: "a-watch-that-ends-keeps-its-lease",
    why: "Each deploy of the process that reports makes everybody wait for half a minute.",
    in: "CauseWatch.stop",
    find: "!this.#isReporter",
    replace: "true",
    caughtBy: watching(
      "a signal and the queue's close end a watch at once, and leave the lease to the next one",
    ),
  },
  {
    name: "a-report-counts-when-the-app-gets-it",
    why: "A report is lost when its process dies before it was sent to anybody.",
    in: "CauseWatch.stop",
    find: "this.end();",
    replace: "this.end(); await this.acknowledge();",
    caughtBy: watching(
      "a report that an app throws at, or breaks after, is reported again by the next watcher, and then no more",
    ),
  },
  {
    name: "an-app-that-hangs-keeps-the-lease",
    why: "A request to Slack that never ends stops all reports, although other processes could send them.",
    in: "CauseWatch.#step",
    find: "this.#hangs()",
    replace: "false",
    caughtBy: watching(
      "a watcher whose app does not come back from a report for five minutes lets another one report it",
    ),
  },
  {
    name: "a-busy-queue-is-behind",
    why: "A queue whose tasks all start within seconds is shown as a problem as soon as it has more to do.",
    in: "behind",
    find: "work < (first.more ? thresholds.behindFor : leastWork)",
    replace: "false",
    caughtBy: waitingTest("pending tasks that its workers end within a minute are no cause"),
  },
  {
    name: "a-batch-is-taken-for-growth",
    why: "After each nightly batch somebody is told that the queue grows, while it becomes shorter.",
    in: "hasGrown",
    find: "begin < middle && (middle < end || isBound(records))",
    replace: "begin < middle",
    caughtBy: waitingTest("pending tasks of one batch that becomes shorter are no cause"),
  },
  {
    name: "older-tasks-count-as-overtaking",
    why: "In a queue whose tasks all wait for 20 minutes, each group and each priority is shown as starved.",
    in: "overtakes",
    find: "task.queueName === head.queueName && task.taskId > head.taskId && task.age < head.age",
    replace: "task.queueName === head.queueName && task.age < head.age",
    caughtBy: waitingTest("of two tasks that wait, the one is starved that others have overtaken"),
  },
  {
    name: "each-worker-counts-what-is-pending",
    why: "A hundred workers count a hundred thousand tasks each minute, where one would do.",
    in: "StatsOperations.takeMinute",
    find: "before === begun",
    replace: "false",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > causes > each minute is for one process alone, and what was pending then is kept for two hours",
    },
  },
];
