/** Faults of schedules. */
import type { Mutant } from "./mutant.ts";

const cases = (test: string) => ({ file: "test/features/schedules/sqlite.test.ts", test: `SQLite: ${test}` });
const plans = (test: string) => ({ file: "test/features/schedules/plan.test.ts", test });
const slots = (test: string) => ({ file: "test/features/schedules/slots.test.ts", test });
const changes = (test: string) => ({ file: "test/features/schedules/clock-changes.full.test.ts", test });
const clock = (test: string) => ({ file: "test/features/schedules/schedule-clock.test.ts", test });

export const scheduleFaults: readonly Mutant[] = [
  {
    name: "a-pause-writes-what-cannot-be-read",
    why: "A schedule with one column that another program has spoilt can be neither paused nor resumed.",
    in: "ScheduleOperations.#replacingThose",
    find: "return !Object.is(row[field], before[field]);",
    replace: "return field in row;",
    caughtBy: cases(
      "a row that something else has written > jitter_ms = 'many' keeps nobody from pausing, resuming, rewriting and removing it",
    ),
  },
  {
    name: "frozen-schedules-starve-others",
    why: "A hundred schedules whose rows take no change keep all others from firing.",
    in: "Firing.#fireOne",
    find: "this.#passedOver.set(name, performance.now() + refusedAfter);",
    replace: "",
    caughtBy: {
      file: "test/worker/refused.test.ts",
      test: "an outcome that SQLite refuses > schedules whose rows take no change are passed over for a minute, and the one behind them fires",
    },
  },
  {
    name: "a-taken-slot-is-made-again",
    why: "A backfill and the slot itself refuse each other, and the schedule stands still.",
    in: "ScheduleOperations.taken",
    find: "if (slots.length === 0) return new Set();",
    replace: "if (slots.length >= 0) return new Set();",
    caughtBy: cases(
      "operating > a backfill makes the tasks of the slots between two times, both included, once",
    ),
  },
  {
    name: "the-same-definition-writes",
    why: "Each start of each process writes all schedules.",
    in: "redefined",
    find: "if (isSame(row, definition, otherColumns) && isSame(row, before, keptColumns) && !isLost) return undefined;",
    replace: "",
    caughtBy: cases("a definition > the same one again writes nothing"),
  },
  {
    name: "a-changed-timing-fires-at-once",
    why: "A deployment that changes a timing runs the task in the middle of the day.",
    in: "redefined",
    find: "nextDue({ ...definition, anchorAt }, now)",
    replace: "row?.nextAt ?? nextDue({ ...definition, anchorAt }, now)",
    caughtBy: cases(
      "a definition > other arguments leave the slots as they are; another timing counts from now and is not due at once",
    ),
  },
  {
    name: "a-triggered-task-overlaps",
    why: "Two tasks of a schedule run at the same time, although it says that they may not.",
    in: "ScheduleOperations.fire",
    find: "unfinished.has(one.name)",
    replace: "false",
    caughtBy: cases("overlap > skip: no second task while one has not finished, also a triggered one"),
  },
  {
    name: "a-failed-batch-forgets-overlap",
    why: "One bad row in the batch makes other schedules start a second task while their first one runs.",
    in: "Firing.#fireOne",
    find: "this.#store.fire(1, decide, name)",
    replace: "this.#store.fire(1, (schedule, now) => decide(schedule, now, false), name)",
    caughtBy: cases(
      "a row that something else has written > when a batch fails, each schedule that is due fires by itself, and still skips a slot that overlaps",
    ),
  },
  {
    name: "a-row-with-options-out-of-range-has-no-problem",
    why: "The database refuses the task, and neither the list nor doctor says why the schedule stands still.",
    in: "checkOption",
    find: "readerOf[name]?.(value, where);",
    replace: "",
    caughtBy: cases(
      "a row that something else has written > options = '{\"priority\":99999999999}' stops only itself, and the list says why",
    ),
  },
  {
    name: "a-lost-next-time-is-no-problem",
    why: "A schedule whose next_at is null by mistake never fires again, and nothing says so.",
    in: "toSchedule",
    find: "scheduleProblem(row) ?? (hasLostNext(row, now) ? lostNext : null)",
    replace: "scheduleProblem(row)",
    caughtBy: cases(
      "a row that something else has written > a schedule without next_at that is not over says so; resume and the same definition mend it",
    ),
  },
  {
    name: "a-mended-row-fires-at-the-time-of-a-look",
    why: "A schedule whose broken expression is mended by hand runs its task at a time that it does not name.",
    in: "nextOf",
    find: "return nextDue(row, updatedAt);",
    replace: "return nextAt;",
    caughtBy: cases(
      "a broken row that was put off, and is mended by hand > a row that was put off waits for the next slot of its cron expression",
    ),
  },
  {
    name: "a-pause-is-made-up-for",
    why: "A resumed schedule makes the tasks that the pause was for.",
    in: "Actions.resumeSchedule",
    find: "timingProblemOf(row) === null ? nextDue(row, now) : now + brokenAfter",
    replace: "row.nextAt",
    caughtBy: cases("operating > a paused schedule makes no tasks, and resumed it does not make up for them"),
  },
  {
    name: "a-slot-is-missed-too-soon",
    why: "A slot that is some seconds late makes no task.",
    find: "const missedAfter = 60_000",
    replace: "const missedAfter = 6_000",
    caughtBy: plans("a slot is missed when it is more than 60 s late, not before"),
  },
  {
    name: "a-year-is-walked-slot-by-slot",
    why: "The first worker after a long pause stands still for minutes.",
    in: "dueSlots",
    find: "slotAfter(schedule, latest.at(-1) as number)",
    replace: "slotAfter(schedule, first)",
    caughtBy: plans("a plan is what the rules say of each slot"),
  },
  {
    name: "jitter-passes-the-next-slot",
    why: "Slots get out of their order, and some are never made.",
    in: "dueAt",
    find: "Math.min(timing.jitterMs, next - slot - 1)",
    replace: "timing.jitterMs",
    caughtBy: slots("many slots > slots stay in their order with any jitter, and a due time tells its slot"),
  },
  {
    name: "a-schedule-outside-of-its-transaction",
    why: "The schedule of a customer exists although the transaction that makes the customer was rolled back.",
    in: "schedules",
    find: "(inside as FullTransaction).schedules",
    replace: "store.schedules",
    caughtBy: cases("inside of a transaction > a schedule exists if and only if the transaction commits"),
  },
  {
    name: "a-fixed-time-in-a-gap-is-lost",
    why: "A nightly task does not run at all on the day on which the clock passes over its time.",
    in: "cronAfter",
    find: "read.isFixed ? fixedAfter : intervalAfter",
    replace: "read.isFixed ? intervalAfter : intervalAfter",
    caughtBy: changes("30 23 * * * in America/Nuuk is due at the end of the gap"),
  },
  {
    name: "a-zone-that-passes-over-a-day-loses-a-slot",
    why: "The slot after a change of the clock by a whole day is lost.",
    in: "intervalAfter",
    find: "at - 2 * day",
    replace: "at - day",
    caughtBy: changes(
      "around the changes of the clock in Pacific/Apia in 2011, slots are those of a walk along the clock",
    ),
  },
  {
    name: "a-day-matches-either-field",
    why: "`0 9 */2 * 1` runs on every other day too, where other crons run it on Mondays only.",
    in: "parse",
    find: "const domAndDow = haveBothToMatch(days);",
    replace: "const domAndDow = haveBothToMatch(days) && false;",
    caughtBy: slots(
      "a day matches both day fields when one begins with a star, else one of them: 0 9 */2 * 1",
    ),
  },
  {
    name: "missed-slots-hold-the-event-loop",
    why: "The first worker after a long pause stands still, and its heartbeats and other tasks with it.",
    in: "Firing.run",
    find: "!isLate(schedule, now) || this.#prepared.has(versionOf(schedule))",
    replace: "schedule !== undefined",
    caughtBy: clock(
      "the event loop goes on while 1,000 missed slots of each second in 60 days are looked up",
    ),
  },
  {
    name: "a-prefix-is-counted-as-javascript-counts",
    why: "The schedules whose names begin with a character beyond the first 65,536 are not found.",
    in: "ScheduleOperations.#found",
    find: "[...prefix].length",
    replace: "prefix.length",
    caughtBy: cases(
      "many definitions at once > a list of names has pages in one order, and a prefix is no pattern",
    ),
  },
];
