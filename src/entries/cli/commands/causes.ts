/** `dbq causes`: what is wrong now, and what repairs it. */
import { randomUUID } from "node:crypto";
import { type Command, InvalidArgumentError } from "commander";
import type { Cause, CauseChange, Queue } from "../../../index.ts";
import { type CommonOptions, shown, withExistingQueue } from "../database.ts";
import { reportFailure, UsageError } from "../failure.ts";
import { printCause } from "../health-tables.ts";
import { json, jsonNote, line, note, outputClosed, sentence } from "../output.ts";
import { label } from "../parse.ts";

interface CausesOptions extends CommonOptions {
  watch?: true;
  name?: string;
  set?: Record<string, string | number | null>;
}

const examples = `
Exit codes:
  0  nothing is wrong; the thresholds are set
  1  something is wrong
  2  it could not look; wrong usage

Examples:
  $ dbq causes
  $ dbq causes --json | jq '.[] | select(.severity == "critical") | .why'
  $ dbq causes --set pausedAfter=5m --set pilingTasks=10
  $ dbq causes --set pausedAfter=null      the default again
  $ dbq causes --watch                     what begins and ends, until Ctrl-C
  $ dbq causes --watch --name pager --json | ./send.sh`;

export function addCauses(program: Command): void {
  program
    .command("causes")
    .summary("say what is wrong now, and what repairs it")
    .description("Say what is wrong now, worst first, and which command repairs it.")
    .option("--set <name=value>", "change a threshold for all processes; may be repeated", threshold)
    .option("--watch", "print what begins and what ends, as it happens, until Ctrl-C")
    .option("--name <name>", "with --watch: of all watchers of this name, one prints each change", label)
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => {
      const options = self.optsWithGlobals<CausesOptions>();
      try {
        await causes(options);
      } catch (error) {
        // A script must not take a database that it cannot reach for a queue that has a problem.
        reportFailure(error, options.json);
        process.exitCode = 2;
      }
    });
}

async function causes({ set, watch, name, ...options }: CausesOptions): Promise<void> {
  if (name !== undefined && !watch)
    throw new UsageError("--name is for --watch: it names those who share one report");
  await withExistingQueue(options, async (queue) => {
    if (watch) return await watchAs(queue, name ?? `dbq causes ${randomUUID()}`, options);
    if (set) {
      const thresholds = await queue.setCauseThresholds(set);
      if (options.json) json(thresholds);
      else for (const [name, value] of Object.entries(thresholds)) line(`${name} ${value}`);
      return;
    }
    const found = await queue.listCauses();
    if (options.json) json(found);
    else print(found);
    if (found.length > 0) process.exitCode = 1;
  });
}

/** Prints changes until a signal comes, or the reader of stdout has closed it. */
async function watchAs(queue: Queue, name: string, { db, json: isJson }: CommonOptions): Promise<void> {
  const stopped = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopped.abort());
  const database = await shown(db);
  if (isJson) jsonNote({ time: new Date(), event: "watching", database });
  else note(`watching ${database}, Ctrl-C to stop`);
  try {
    for await (const change of queue.watchCauses({ name, signal: stopped.signal })) {
      printChange(change, isJson);
      if (outputClosed()) return;
    }
  } catch (error) {
    if (!stopped.signal.aborted) throw error;
  }
}

function printChange({ type, cause }: CauseChange, isJson: true | undefined): void {
  if (isJson) json({ time: new Date(), type, cause });
  else if (type === "began") printCause(cause);
  else sentence({ text: "ended:", color: "green" }, cause.why);
}

function print(causes: readonly Cause[]): void {
  for (const cause of causes) printCause(cause);
  if (causes.length === 0) note("nothing is wrong");
}

/** `name=value`; the option may be repeated. `null` brings the default back. @throws InvalidArgumentError */
function threshold(
  text: string,
  before: Record<string, string | number | null> = {},
): Record<string, string | number | null> {
  const [, name, value] = /^([a-zA-Z]+)=(.+)$/.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new InvalidArgumentError("Expected name=value, such as pausedAfter=5m, or pausedAfter=null.");
  if (value === "null") return { ...before, [name]: null };
  return { ...before, [name]: /^\d+(\.\d+)?$/.test(value) ? Number(value) : value };
}
