import { type Command, Option } from "commander";
import { timingInWords } from "../../../base/text/timing.ts";
import { mostMissed, typedMissed } from "../../../base/text/typed.ts";
import type { Queue, Schedule, ScheduleChanges, ScheduleTiming, Task } from "../../../index.ts";
import { type CommonOptions, withExistingQueue, withQueue } from "../database.ts";
import { UsageError } from "../failure.ts";
import { type Cell, json, jsonList, line, note, table } from "../output.ts";
import { given, jsonArray, label, time, whole } from "../parse.ts";
import { moment, shortened } from "../text.ts";
import { addCallOptions, type CallCommandOptions, remoteCall } from "./enqueue.ts";
import { statusCell } from "./list.ts";

interface TimingOptions {
  cron?: string;
  every?: string;
  timeZone?: string;
  startAt?: Date | "null";
  endAt?: Date | "null";
  missed?: ScheduleTiming["missed"];
  overlap?: string;
  jitter?: string;
}

type AddOptions = TimingOptions & CallCommandOptions;

/** Schedules that one query of the list reads. */
const page = 500;

const listExamples = `
Examples:
  $ dbq schedules
  $ dbq schedules --prefix digest: --limit 100
  $ dbq schedules --json | jq '.[] | select(.problem) | .name'`;

const examples = `
Examples:
  $ dbq schedule add nightly report '["all"]' --cron '30 2 * * *'
  $ dbq schedule add noon report --cron '0 12 * * *' --time-zone Europe/Berlin
  $ dbq schedule add ping ping --every 30s --overlap allow
  $ dbq schedule edit ping --overlap skip
  $ dbq schedule pause nightly
  $ dbq schedule run nightly          # one task now, beside its slots
  $ dbq schedule backfill nightly 2027-01-01 2027-01-31
  $ dbq schedule remove nightly       # its tasks stay`;

export function addSchedules(program: Command): void {
  program
    .command("schedules")
    .summary("list the schedules")
    .description(
      "List the schedules: when each makes its tasks, when the next one, and what became of the last.",
    )
    .option("--prefix <text>", "only schedules whose names begin with this", label)
    .option("--limit <number>", "how many (default: all)", whole(1))
    .option(
      "--after <name>",
      "only schedules whose names come after this one, the last of the page before",
      label,
    )
    .addHelpText("after", listExamples)
    .action(async (_: unknown, self: Command) => await list(self.optsWithGlobals<ListOptions>()));
}

export function addScheduleCommands(program: Command): void {
  const schedule = program
    .command("schedule")
    .summary("add, edit, pause, resume, run, backfill or remove a schedule")
    .description("Add, edit, pause, resume, run, backfill or remove a schedule.")
    .addHelpText("after", examples);
  addAdd(schedule);
  addEdit(schedule);
  addBackfill(schedule);
  const on = (name: string, summary: string, act: (queue: Queue, schedule: string) => Promise<Done>) =>
    schedule
      .command(name)
      .summary(summary)
      .argument("<name>", "the schedule")
      .addHelpText("after", `\nExamples:\n  $ dbq schedule ${name} nightly`)
      .action(async (of: string, _: unknown, self: Command) => {
        await operate(self.optsWithGlobals<CommonOptions>(), (queue) => act(queue, of));
      });
  on("pause", "skip its slots until it is resumed", async (queue, name) => {
    const paused = await queue.pauseSchedule(name);
    return { text: `paused ${name}`, value: paused };
  });
  on("resume", "end its pause: the next slot makes a task", async (queue, name) => {
    const resumed = await queue.resumeSchedule(name);
    return { text: `resumed ${name}: ${nextText(resumed)}`, value: resumed };
  });
  on("run", "make one task of it now, and print the task's id", async (queue, name) => {
    const id = await queue.triggerSchedule(name);
    return { text: String(id), value: { id } };
  });
  on("remove", "delete it; its tasks stay", async (queue, name) => {
    await queue.removeSchedule(name);
    return { text: `removed ${name}`, value: { name, removed: true } };
  });
}

const backfillExamples = `
Examples:
  $ dbq schedule backfill nightly 2027-01-01 2027-01-31
  $ dbq schedule backfill ping 2027-01-01T12:00:00Z 2027-01-01T13:00:00Z`;

function addBackfill(schedule: Command): void {
  schedule
    .command("backfill")
    .summary("make the tasks of past slots")
    .description(
      "Make a task for each slot from one time to another, both included, and print the ids. A slot that has a task gets no second one.",
    )
    .argument("<name>", "the schedule", label)
    .argument("<from>", "the first time, such as 2027-01-31 or 2027-01-31T12:00:00Z", time)
    .argument("<to>", "the last time", time)
    .addHelpText("after", backfillExamples)
    .action(async (name: string, from: Date, to: Date, _: unknown, self: Command) => {
      const options = self.optsWithGlobals<CommonOptions>();
      await operate(options, async (queue) => {
        const ids = await queue.backfillSchedule(name, from, to);
        return { text: ids.length === 0 ? "no new tasks" : ids.map(String), value: { name, ids } };
      });
    });
}

function addAdd(schedule: Command): void {
  const command = schedule
    .command("add")
    .summary("add a schedule, or change the one of this name")
    .description("Add a schedule, or change the one of this name. The same one again changes nothing.")
    .argument("<name>", "the schedule", label)
    .argument("<func>", "the registered name of the function", label)
    .argument("[args]", "its arguments, as a JSON array", "[]");
  addTimingOptions(command, time, "");
  addCallOptions(command)
    .addHelpText("after", examples)
    .action(async (name: string, func: string, args: string, _: unknown, self: Command) => {
      await add(name, func, args, self.optsWithGlobals<AddOptions>());
    });
}

const editExamples = `
Examples:
  $ dbq schedule edit ping --overlap skip
  $ dbq schedule edit nightly --cron '0 3 * * *' --time-zone Europe/Berlin
  $ dbq schedule edit nightly --end-at null      # without an end`;

function addEdit(schedule: Command): void {
  const command = schedule
    .command("edit")
    .summary("change when it makes its tasks")
    .description(
      "Change when a schedule makes its tasks; what is left out stays. Code that writes this schedule when the app starts has the last word.",
    )
    .argument("<name>", "the schedule", label);
  addTimingOptions(command, timeOrNull, "; null: none")
    .addHelpText("after", editExamples)
    .action(async (name: string, _: unknown, self: Command) => {
      const options = self.optsWithGlobals<TimingOptions & CommonOptions>();
      await operate(options, async (queue) => {
        const edited = await queue.editSchedule(name, timingOf(options) as ScheduleChanges);
        return {
          text: `${name} runs ${edited.func} ${whenText(edited)}: ${nextText(edited)}`,
          value: edited,
        };
      });
    });
}

/** Commander makes an empty text of a `null`. */
const timeOrNull = (text: string): Date | "null" => (text === "null" ? text : time(text));

/** @param none what else a time may be */
function addTimingOptions(command: Command, when: (text: string) => Date | "null", none: string): Command {
  return command
    .option("--cron <expression>", "minute, hour, day, month, weekday, such as '30 2 * * *'; or @daily")
    .option("--every <duration>", "the time between two tasks, at least 1s")
    .option("--time-zone <name>", "of --cron, such as Europe/Berlin (default: UTC)")
    .option("--start-at <time>", `none before this time, such as 2027-01-31T12:00:00Z${none}`, when)
    .option("--end-at <time>", `none after this time${none}`, when)
    .option(
      "--missed <what>",
      "what was missed while no worker ran: one, skip, or at most so many (default: one)",
      missed,
    )
    .addOption(
      new Option("--overlap <what>", "while a task of it has not finished (default: skip)").choices([
        "skip",
        "allow",
      ]),
    )
    .option("--jitter <duration>", "up to this much later");
}

const timingOf = ({ cron, every, timeZone, startAt, endAt, missed, overlap, jitter }: TimingOptions) => {
  const times = { startAt: startAt === "null" ? null : startAt, endAt: endAt === "null" ? null : endAt };
  return given({ cron, every, timeZone, ...times, missed, overlap, jitter });
};

/** @throws UsageError */
function missed(text: string): ScheduleTiming["missed"] {
  const read = typedMissed(text);
  if (read !== undefined) return read;
  throw new UsageError(
    `--missed: expected one, skip, or a number from 1 to ${mostMissed}, got ${JSON.stringify(shortened(text, 60))}`,
  );
}

async function add(name: string, func: string, args: string, options: AddOptions): Promise<void> {
  const list = jsonArray(args, "args");
  // `queue.schedule` refuses two timings, and none.
  const timing: unknown = timingOf(options);
  const fn = await remoteCall(func, options);
  await withQueue(options, async (queue) => {
    const written = await queue.schedule(name, timing as ScheduleTiming, fn, ...list);
    if (options.json) json(written);
    else line(`${name} runs ${func} ${whenText(written)}: ${nextText(written)}`);
  });
}

interface Done {
  /** Several: one line each. */
  text: string | string[];
  value: unknown;
}

async function operate(options: CommonOptions, act: (queue: Queue) => Promise<Done>): Promise<void> {
  const { text, value } = await withExistingQueue(options, act);
  if (options.json) json(value);
  else for (const one of [text].flat()) line(one);
}

const whenText = (schedule: Schedule): string => timingInWords(schedule) ?? schedule.cron ?? "never";

const nextText = ({ nextAt, pausedAt }: Schedule): string => {
  if (pausedAt !== null) return "it is paused";
  return nextAt === null ? "no more tasks" : `next at ${moment(nextAt)}`;
};

// ---- dbq schedules -------------------------------------------------------------------------------

interface ListOptions extends CommonOptions {
  prefix?: string;
  limit?: number;
  after?: string;
}

async function list({
  prefix,
  after,
  limit = Number.POSITIVE_INFINITY,
  ...options
}: ListOptions): Promise<void> {
  await withExistingQueue(options, async (queue) => {
    const schedules: Schedule[] = [];
    for (let last = after; ; last = schedules.at(-1)?.name) {
      const wanted = Math.min(page, limit - schedules.length);
      if (wanted === 0) break;
      const found = await queue.listSchedules({ ...given({ prefix, after: last }), limit: wanted });
      schedules.push(...found);
      if (found.length < wanted) break;
    }
    if (options.json) return await jsonList(schedules);
    if (schedules.length === 0) return note("no schedules");
    const rows: Cell[][] = [];
    for (const schedule of schedules) rows.push(rowOf(schedule, await lastTask(queue, schedule)));
    table(["NAME", "FUNC", "WHEN", "ZONE", "NEXT", "LAST", "STATUS", ""], rows);
  });
}

async function lastTask(queue: Queue, { lastTaskId }: Schedule): Promise<Task | undefined> {
  return lastTaskId === null ? undefined : await queue.getTask(lastTaskId);
}

function rowOf(schedule: Schedule, last: Task | undefined): Cell[] {
  const { name, func, timeZone, lastTaskId, problem } = schedule;
  const when = shortened(whenText(schedule), 40);
  const gone = lastTaskId === null ? "" : "deleted";
  return [
    shortened(name, 40),
    shortened(func, 40),
    when,
    schedule.cron === null ? "" : timeZone,
    nextCell(schedule),
    lastTaskId ?? "",
    last === undefined ? gone : statusCell(last.status),
    problem === null ? "" : shortened(problem, 200),
  ];
}

function nextCell({ nextAt, pausedAt, problem }: Schedule): Cell {
  if (problem !== null) return { text: "broken", color: "red" };
  if (pausedAt !== null) return { text: "paused", color: "yellow" };
  return nextAt === null ? { text: "ended", color: "dim" } : moment(nextAt);
}

// ---- dbq doctor, dbq stats -----------------------------------------------------------------------

/** How many milliseconds late a slot is when doctor reports it. From then on it also counts as missed. */
const overdueAfter = 60_000;

/** Why a schedule makes no tasks, or makes them late, for doctor; undefined when it does neither. */
export function scheduleProblem({ name, problem, nextAt }: Schedule): string | undefined {
  if (problem !== null) return `the schedule ${shortened(name, 60)} makes no tasks: ${problem}`;
  if (nextAt === null || Date.now() - nextAt.getTime() < overdueAfter) return undefined;
  return `the schedule ${shortened(name, 60)} is due since ${moment(nextAt)}: start a worker, any worker fires it`;
}

export function scheduleCounts(schedules: readonly Schedule[]) {
  const paused = schedules.filter(({ pausedAt }) => pausedAt !== null).length;
  const broken = schedules.filter(({ problem }) => problem !== null).length;
  return { total: schedules.length, paused, broken };
}
