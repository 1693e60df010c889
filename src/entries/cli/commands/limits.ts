/** What may start: limits of concurrency and rate, pauses. */
import { type Command, InvalidArgumentError } from "commander";
import type { Limit, LimitTarget, PauseTarget, Queue } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { UsageError } from "../failure.ts";
import { printLimits, targetText, unsetNameText } from "../health-tables.ts";
import { json, jsonNote, line } from "../output.ts";
import { durationFrom, label, whole } from "../parse.ts";

/** What a command is about. */
interface TargetOptions extends CommonOptions {
  queue?: string;
  func?: string;
  group?: string;
}

interface LimitOptions extends TargetOptions {
  concurrency?: number;
  rate?: { limit: number; per: number };
  burst?: number;
  remove?: boolean;
}

const limitsExamples = `
Examples:
  $ dbq limits
  $ dbq limits --json | jq '.[] | select(.pausedAt)'`;

export function addLimits(program: Command): void {
  program
    .command("limits")
    .summary("list limits and pauses")
    .description("List limits, pauses and throttles, with what runs and waits.")
    .addHelpText("after", limitsExamples)
    .action(async (_: unknown, self: Command) => {
      const options = self.optsWithGlobals<CommonOptions>();
      await withExistingQueue(options, async (queue) => {
        const { unsetNames } = await import("../../../index.ts");
        const limits = await queue.listLimits();
        if (options.json) json(limits);
        else if (limits.length === 0) line("no limits");
        else printLimits(limits);
        for (const name of await unsetNames(queue, limits)) warn(unsetNameText(name), options);
      });
    });
}

const limitExamples = `
Examples:
  $ dbq limit openai --concurrency 20 --rate 500/1m
  $ dbq limit --queue mail --concurrency 5
  $ dbq limit --func call-model --group acme --rate 100/1m --burst 10
  $ dbq limit openai --remove`;

const most = 1_000_000;

export function addLimit(program: Command): void {
  withTarget(program.command("limit"))
    .summary("set or remove a limit")
    .description(
      "Limit how many tasks run at once, or how often they start, in all processes. This replaces the whole limit: give --concurrency and --rate together if you want both.",
    )
    .argument("[name]", "a limit that functions share by this name")
    .option("--concurrency <n>", "how many tasks may run at once", whole(1, most))
    .option("--rate <n/duration>", "how many may start in each duration: 100/1m", rate)
    .option("--burst <n>", "how many starts may come at once (default: 1)", whole(1, most))
    .option("--remove", "remove the limit")
    .addHelpText("after", limitExamples)
    .action(async (name: string | undefined, _: unknown, self: Command) => {
      const options = self.optsWithGlobals<LimitOptions>();
      const target = limitTarget(name, options);
      const limit = limitOf(options);
      await withExistingQueue(options, async (queue) => {
        const hadNone = limit === null && !(await hasLimit(queue, target));
        await queue.setLimit(target, limit);
        const doubt = limit === null || typeof target === "string" ? undefined : await doubtOf(queue, target);
        const limits = await queue.listLimits();
        if (options.json) json(limits);
        else if (hadNone) line(`${targetText(target)} had no limit`);
        else line(`the limit of ${targetText(target)} is ${limit === null ? "removed" : "set"}`);
        if (doubt !== undefined) warn(doubt, options);
      });
    });
}

/** Beside an array of limits as JSON, which has no place for a warning, it is a line of JSON on stderr. */
function warn(message: string, options: CommonOptions): void {
  if (options.json) jsonNote({ time: new Date(), event: "warning", message });
  else line(message);
}

/** Whether the name may be misspelt. */
async function doubtOf(queue: Queue, target: PauseTarget): Promise<string | undefined> {
  const { unknownName } = await import("../../../index.ts");
  return await unknownName(queue, target);
}

/** Whether `setLimit` has set one, as opposed to a pause, a throttle or the function's option `limit`. */
async function hasLimit(queue: Queue, target: LimitTarget): Promise<boolean> {
  const text = targetText(target);
  return (await queue.listLimits()).some(
    ({ target: other, fromCode, concurrency, rate }) =>
      !fromCode && targetText(other) === text && (concurrency !== null || rate !== null),
  );
}

const pauseExamples = (command: string) => `
Examples:
  $ dbq ${command} --queue mail
  $ dbq ${command} --func call-model --group acme`;

export function addPause(program: Command): void {
  const about = "Running tasks go on. Tasks of what is paused stay pending until it is resumed.";
  const paused = (queue: Queue, target: PauseTarget) => queue.pause(target);
  addSwitch(
    program,
    "pause",
    ["let nothing of a queue, function or group start", about, "was already paused"],
    paused,
  );
}

export function addResume(program: Command): void {
  const about =
    "End a pause: the tasks that stayed pending start again. A group that was paused by itself stays paused when its function is resumed.";
  addSwitch(program, "resume", ["end a pause", about, "was not paused"], (queue, target) =>
    queue.resume(target),
  );
}

function addSwitch(
  program: Command,
  name: "pause" | "resume",
  [summary, description, unchanged]: readonly [string, string, string],
  act: (queue: Queue, target: PauseTarget) => Promise<boolean>,
): void {
  withTarget(program.command(name))
    .summary(summary)
    .description(description)
    .addHelpText("after", pauseExamples(name))
    .action(async (_: unknown, self: Command) => {
      const options = self.optsWithGlobals<TargetOptions>();
      const target = pauseTarget(options);
      await withExistingQueue(options, async (queue) => {
        const changed = await act(queue, target);
        const more = name === "pause" ? await doubtAbout(queue, target) : await pausedBeside(queue, target);
        if (options.json) return json({ changed, ...more.json });
        line(`${targetText(target)} ${changed ? `is now ${name}d` : unchanged}`);
        for (const text of more.lines) line(text);
      });
    });
}

/** What a command says beside whether it changed something. */
interface More {
  json: object;
  lines: string[];
}

async function doubtAbout(queue: Queue, target: PauseTarget): Promise<More> {
  const doubt = await doubtOf(queue, target);
  return doubt === undefined ? { json: {}, lines: [] } : { json: { warning: doubt }, lines: [doubt] };
}

/** How many pauses a line names. */
const mostNamed = 20;

async function pausedBeside(queue: Queue, target: PauseTarget): Promise<More> {
  const { stillPaused } = await import("../../../index.ts");
  const paused = await stillPaused(queue, target);
  const named = paused.slice(0, mostNamed).map(targetText).join("; ");
  const others = paused.length > mostNamed ? `; and ${paused.length - mostNamed} more: dbq limits` : "";
  return {
    json: { stillPaused: paused },
    lines: paused.length === 0 ? [] : [`still paused: ${named}${others}`],
  };
}

const withTarget = (command: Command): Command =>
  command
    .option("--queue <name>", "of a queue", label)
    .option("--func <name>", "of a function, or of one of its groups", label)
    .option("--group <name>", "the group, with --func", label);

/** @throws UsageError unless it is about exactly one thing */
function pauseTarget({ queue, func, group }: TargetOptions): PauseTarget {
  if (group !== undefined && func === undefined) throw new UsageError("--group needs --func");
  if ((queue === undefined) === (func === undefined))
    throw new UsageError("expected either --queue, or --func with or without --group");
  if (queue !== undefined) return { queueName: queue };
  return { func: func ?? "", ...(group !== undefined && { group }) };
}

function limitTarget(name: string | undefined, options: TargetOptions): LimitTarget {
  const { queue, func, group } = options;
  const isOfNone = queue === undefined && func === undefined;
  if (isOfNone && group !== undefined)
    throw new UsageError(`--group needs --func${name === undefined ? "" : `, got ${JSON.stringify(name)}`}`);
  if (isOfNone && name === undefined)
    throw new UsageError("expected the name of a shared limit, --queue or --func");
  if (name === undefined) return pauseTarget(options);
  if (!isOfNone)
    throw new UsageError(
      `expected a name or --queue or --func, got ${JSON.stringify(name)} and one of these`,
    );
  return name;
}

function limitOf({ concurrency, rate: given, burst, remove = false }: LimitOptions): Limit | null {
  const isEmpty = concurrency === undefined && given === undefined;
  if (remove !== isEmpty) throw new UsageError("expected --concurrency, --rate or both; or --remove alone");
  if (burst !== undefined && given === undefined) throw new UsageError("--burst needs --rate");
  if (remove) return null;
  return {
    ...(concurrency !== undefined && { concurrency }),
    ...(given !== undefined && { rate: { ...given, ...(burst !== undefined && { burst }) } }),
  };
}

/** `100/1m`. @throws InvalidArgumentError */
function rate(text: string): { limit: number; per: number } {
  const at = text.indexOf("/");
  if (at < 0)
    throw new UsageError(
      `--rate: expected starts and a duration, such as 100/1m, got ${JSON.stringify(text)}: the duration is missing`,
    );
  return {
    limit: partOf("Before the /", text.slice(0, at), whole(1, most)),
    per: partOf("After the /", text.slice(at + 1), durationFrom("1ms", "366d")),
  };
}

/** A part of a rate. @throws InvalidArgumentError that says which part is wrong */
function partOf(where: string, text: string, parse: (text: string) => number): number {
  try {
    return parse(text);
  } catch (error) {
    throw new InvalidArgumentError(`${where}: ${(error as Error).message}`);
  }
}
