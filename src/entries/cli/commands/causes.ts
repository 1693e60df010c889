/** `dbq causes`: what is wrong now, and what repairs it. */
import { type Command, InvalidArgumentError } from "commander";
import type { Cause } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { reportFailure } from "../failure.ts";
import { json, line, note, sentence } from "../output.ts";

interface CausesOptions extends CommonOptions {
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
  $ dbq causes --set pausedAfter=null      the default again`;

export function addCauses(program: Command): void {
  program
    .command("causes")
    .summary("say what is wrong now, and what repairs it")
    .description("Say what is wrong now, worst first, and which command repairs it.")
    .option("--set <name=value>", "change a threshold for all processes; may be repeated", threshold)
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

async function causes({ set, ...options }: CausesOptions): Promise<void> {
  await withExistingQueue(options, async (queue) => {
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

function print(causes: readonly Cause[]): void {
  for (const { severity, why, fix } of causes) {
    sentence({ text: `${severity}:`, color: severity === "critical" ? "red" : "yellow" }, why);
    if (fix.command !== null) line(`  ${fix.command}`);
  }
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
