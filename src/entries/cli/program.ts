/** The commands and their common options. The queue is loaded only when a command runs, so that `--help` stays fast. */
import { createRequire } from "node:module";
import { Command, Option } from "commander";
import { printable } from "../../base/text/escapes.ts";
import { addAgentCommands, addAgents } from "./commands/agent.ts";
import { addCauses } from "./commands/causes.ts";
import { addDashboard } from "./commands/dashboard.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addDrain } from "./commands/drain.ts";
import { addEnqueue } from "./commands/enqueue.ts";
import { addEvent } from "./commands/event.ts";
import { addExport } from "./commands/export.ts";
import { addFailures } from "./commands/failures.ts";
import { addImport } from "./commands/import.ts";
import { addLimit, addLimits, addPause, addResume } from "./commands/limits.ts";
import { addList } from "./commands/list.ts";
import { addManager } from "./commands/manage.ts";
import { addMetrics } from "./commands/metrics.ts";
import { addMigrate } from "./commands/migrate.ts";
import { addMove } from "./commands/move.ts";
import { addCancel, addDelete, addRetry } from "./commands/operate.ts";
import { addPurge } from "./commands/purge.ts";
import { addReencrypt } from "./commands/reencrypt.ts";
import { addScheduleCommands, addSchedules } from "./commands/schedules.ts";
import { addShow } from "./commands/show.ts";
import { addStats } from "./commands/stats.ts";
import { addTail } from "./commands/tail.ts";
import { addTop } from "./commands/top.ts";
import { addWorker } from "./commands/worker.ts";
import { UsageError } from "./failure.ts";
import { shortened } from "./text.ts";

const afterHelp = `
Exit codes:
  0  success
  1  failure: no such task or database, a task that failed, a problem that
     doctor has found
  2  wrong usage; a change of many tasks without --yes, which changes
     nothing; causes that could not be looked for

Examples:
  $ dbq worker tasks.js --db app.db
  $ dbq enqueue resize '["a.png", 320]' --db app.db
  $ dbq list --status failed --json
  $ dbq stats --db postgres://app@db.internal/app

"dbq <command> --help" shows examples of a command. With DBQ_DEBUG=1 errors are
printed with their stacks.`;

/** @param asJson the caller prints errors as JSON; otherwise Commander prints them as text */
export function buildProgram(asJson: boolean): Command {
  const program = new Command("dbq")
    .description("Run, inspect and operate the tasks of a dbq queue.")
    .version(version(), "-V, --version", "print the version of dbq")
    .addOption(
      new Option("--db <target>", "the database: a path or URL").env("DBQ_URL").default("dbq.db", '"dbq.db"'),
    )
    .option(
      "--no-sessions",
      "for a pooler in transaction mode: keep no state on connections between transactions",
    )
    .addOption(
      new Option(
        "--redact <module>",
        "a module whose default export, (task) => task, says what is shown of tasks",
      ).env("DBQ_REDACT"),
    )
    .option("--json", "print JSON: one value; worker, agent, manager, drain and tail print one object a line")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput(asJson ? { writeErr: () => undefined } : { outputError: writeSafely })
    .exitOverride()
    .addHelpText("after", afterHelp);
  for (const add of [addWorker, addEnqueue, addEvent, addList, addShow, addRetry, addCancel, addDelete])
    add(program);
  for (const add of [
    addPurge,
    addStats,
    addMetrics,
    addTail,
    addTop,
    addDashboard,
    addDrain,
    addManager,
    addAgentCommands,
    addAgents,
  ])
    add(program);
  for (const add of [addLimits, addLimit, addPause, addResume]) add(program);
  for (const add of [
    addScheduleCommands,
    addSchedules,
    addMigrate,
    addMove,
    addExport,
    addImport,
    addReencrypt,
    addCauses,
    addFailures,
    addDoctor,
  ])
    add(program);
  for (const command of allOf(program)) {
    // Refused below, with an error that names the argument.
    command.allowExcessArguments();
    if (!asJson)
      command.configureOutput({ outputError: (text, write) => writeSafely(text, write, fullName(command)) });
  }
  program.hook("preAction", (_, command) => refuseExcess(command));
  return program;
}

/** The commands and their subcommands. */
const allOf = (program: Command): Command[] =>
  program.commands.flatMap((command) => [command, ...allOf(command)]);

/** As it is typed after `dbq`, such as `agent add`. */
const fullName = (command: Command): string =>
  command.parent?.parent ? `${fullName(command.parent)} ${command.name()}` : command.name();

/**
 * Commander quotes the user's input, and puts a suggestion on a second line. Prints one printable line, which names the help
 * where an argument or option is missing.
 */
function writeSafely(text: string, write: (text: string) => void, command?: string): void {
  const help =
    command !== undefined && /missing|not specified/.test(text) ? ` (see dbq ${command} --help)` : "";
  write(`${printable(text.trimEnd().replace("\n(", " ("))}${help}\n`);
}

/** @throws UsageError for an argument that the command does not take; `enqueue` has an error of its own */
function refuseExcess(command: Command): void {
  const { registeredArguments, args } = command;
  if (registeredArguments.at(-1)?.variadic || command.name() === "enqueue") return;
  const [excess] = args.slice(registeredArguments.length);
  if (excess === undefined) return;
  const takes =
    registeredArguments.map((argument) => `one <${argument.name()}>`).join(", ") || "options only";
  throw new UsageError(
    `dbq ${fullName(command)} takes ${takes}, got ${JSON.stringify(shortened(excess, 60))} too: see dbq ${fullName(command)} --help`,
  );
}

function version(): string {
  const manifest: { version: string } = createRequire(import.meta.url)("dbq-ts/package.json");
  return manifest.version;
}
