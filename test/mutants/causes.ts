/** Seeded faults of what is found to be wrong with a queue. */
import type { Mutant } from "./mutant.ts";

const of = (test: string) => ({ file: "test/features/causes/causes.test.ts", test });

export const causeFaults: readonly Mutant[] = [
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
    find: "tasks === 0 || !isLong || (!isUsedUp && lastIn < thresholds.limitedAfter)",
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
    in: "limited",
    find: 'isPaced ? "N" : rate.limit',
    replace: "rate.limit",
    caughtBy: of("the command for a limit sets again what is used up, and keeps the rest"),
  },
  {
    name: "an-unreadable-pause-ends-every-look",
    why: "One row of another program with a time that is none makes listCauses and the scrape of Prometheus fail.",
    in: "timeOf",
    find: "Math.min(Math.max(time || 0, -8.64e15), 8.64e15)",
    replace: "time",
    caughtBy: of("times of 9000000000000000 are not in the way of a look"),
  },
];
