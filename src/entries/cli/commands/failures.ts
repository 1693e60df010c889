/** `dbq failures`: the kinds of failures, those with the most failed tasks first. */
import type { Command } from "commander";
import type { Failure, Queue } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { timeOrAgo } from "../filter.ts";
import { type Cell, json, note, table } from "../output.ts";
import { given, label, whole } from "../parse.ts";
import { showingOf } from "../redact.ts";
import { hiddenText } from "../task-events.ts";
import { moment, shortened } from "../text.ts";

interface FailuresOptions extends CommonOptions {
  since: Date;
  func?: string;
  limit: number;
}

const examples = `
A kind is a function, the name of an error, and its message without numbers and
other values that differ each time. OPEN is how many tasks are failed with it
now, COUNT how many attempts have ended so since --since.

Examples:
  $ dbq failures
  $ dbq failures --since 1h --func charge
  $ dbq list --failure 3f1c09a7b2de        the failed tasks of one kind
  $ dbq retry --failure 3f1c09a7b2de       runs all of them again
  $ dbq failures --json | jq '.[] | select(.open > 100) | .message'`;

export function addFailures(program: Command): void {
  program
    .command("failures")
    .summary("show which kinds of failures there are")
    .description("Show the kinds of failures: those with the most failed tasks first.")
    .option(
      "--since <time>",
      "count attempts since then: a time, or how long ago",
      timeOrAgo,
      timeOrAgo("24h"),
    )
    .option("--func <name>", "only failures of this function", label)
    .option("--limit <number>", "at most so many kinds", whole(1, 1_000), 50)
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => {
      const { since, func, limit, ...options } = self.optsWithGlobals<FailuresOptions>();
      await withExistingQueue(options, async (queue) => {
        const found = await shownOf(queue, await queue.listFailures(given({ since, func, limit })));
        if (options.json) json(found);
        else print(found, limit);
      });
    });
}

interface ShownFailure extends Omit<Failure, "message"> {
  /** `null`: `redact` hides it. */
  message: string | null;
}

/** What `redact` hides of the sample is not told by its kind. Without a sample nobody knows what it would hide. */
async function shownOf(queue: Queue, failures: readonly Failure[]): Promise<ShownFailure[]> {
  const { redactOf } = await import("../../../index.ts");
  if (!redactOf(queue)) return [...failures];
  const show = await showingOf(queue);
  const shown: ShownFailure[] = [];
  for (const failure of failures) {
    const sample = failure.sample === null ? undefined : await queue.getTask(failure.sample);
    shown.push(sample && show(sample) === sample ? failure : { ...failure, message: null });
  }
  return shown;
}

function print(failures: readonly ShownFailure[], limit: number): void {
  if (failures.length === 0) {
    note("no failures");
    return;
  }
  table(["OPEN", "COUNT", "FUNC", "FIRST", "LAST", "ID", "ERROR"], failures.map(rowOf));
  const [{ id }] = failures as [ShownFailure];
  if (failures.length === limit) note("there may be more kinds: raise the --limit");
  note(`the tasks of a kind: dbq list --failure ${id}; run them again: dbq retry --failure ${id}`);
}

function rowOf(failure: ShownFailure): Cell[] {
  const { id, func, errorName, message, count, open, moreOpen, firstAt, lastAt } = failure;
  const text = message === null ? hiddenText : message;
  const error = shortened(text === "" ? errorName : `${errorName}: ${text}`, 80);
  const tasks: Cell = open > 0 ? { text: `${open}${moreOpen ? "+" : ""}`, color: "red" } : open;
  return [tasks, count, shortened(func, 40), moment(firstAt), moment(lastAt), id, error];
}
